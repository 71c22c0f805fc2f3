// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/runoptions.h"

#include <charconv>

namespace tpscope::cli {

void addRunOptions(CLI::App &verb, RunOptions &options) {
    addModelOption(verb, options);
    addPlanOptions(verb, options);
    addFormatOption(verb, options);
    verb.add_option("--backend", options.backend,
                    "gloo: real ranks of this program; simulated: a cost model; transformers: the real library")
        ->check(CLI::IsMember({"gloo", "simulated", "transformers"}))
        ->capture_default_str();
    verb.add_option("--profile", options.profile, "simulated: hardware profile, a name or a JSON file")
        ->capture_default_str();
    verb.add_option("--collectives", options.collectives, "gloo: how ranks exchange messages")
        ->check(CLI::IsMember({"gloo", "one-shot"}))
        ->capture_default_str();
    verb.add_option("--input-ids", options.inputIds,
                    "prompts: ids by commas, rows by semicolons, shorter ones padded on the left; default: 12 ids");
    verb.add_option("--new-tokens", options.newTokens, "tokens to decode")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    verb.add_option("--warmup", options.warmup, "decode steps left out of the statistics")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    verb.add_option("--seed", options.seed, "seed of random weights");
    verb.add_option("--threads", options.threads, "threads per rank")->check(CLI::Range(1, 1024))->capture_default_str();
    verb.add_option("--repeat", options.repeat, "whole decodes")->check(CLI::Range(1, 1000))->capture_default_str();
    verb.add_option("--timeout", options.timeoutSeconds, "seconds until a run is ended")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    verb.add_option("--port", options.port, "port of the ranks' rendezvous on loopback; default: a free one")
        ->check(CLI::Range(1, 65535));
    verb.add_option("--recompile-limit", options.recompileLimit, "Dynamo's recompile limit")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    verb.add_flag("--eager", options.eager, "transformers: without torch.compile");
    verb.add_option("--compile-backend", options.compileBackend, "transformers: backend of torch.compile")
        ->capture_default_str();
    verb.add_option("--events", options.events, "write progress and events as NDJSON to a file, - for stdout");
    verb.add_flag("--force", options.force, "run even if the plan's outcome forbids it");
    verb.add_flag("--quiet", options.quiet, "no progress on stderr");
}

namespace {

tl::unexpected<Error> idError(std::size_t position, const std::string &what) {
    return fail(ErrorCode::Usage, "--input-ids: character " + std::to_string(position + 1) + ": " + what +
                                      "; expected ids by commas and rows by semicolons, e.g. \"1,2;3,4\"");
}

} // namespace

Result<std::vector<std::vector<std::int64_t>>> parseInputIds(const std::string &text, std::int64_t vocab) {
    std::vector<std::vector<std::int64_t>> rows(1);
    std::size_t i = 0;
    while (i <= text.size()) {
        std::int64_t id = 0;
        const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), id);
        if (error != std::errc{})
            return idError(i, "not a number");
        if (id < 0 || (vocab > 0 && id >= vocab))
            return idError(i, "id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab));
        rows.back().push_back(id);
        i = static_cast<std::size_t>(end - text.data());
        if (i == text.size())
            break;
        if (text[i] == ';')
            rows.emplace_back();
        else if (text[i] != ',')
            return idError(i, std::string("unexpected '") + text[i] + "'");
        ++i;
    }
    return rows;
}

namespace {

// A prompt of 12 ids that any vocabulary has.
std::vector<std::vector<std::int64_t>> defaultPrompt(std::int64_t vocab) {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 12; ++i)
        ids.push_back((17 + 29 * i) % (vocab > 0 ? vocab : 1));
    return {ids};
}

} // namespace

Result<RunConfig> runConfigOf(const Loaded &loaded, const RunOptions &options) {
    RunConfig config;
    const auto backend = parseBackend(options.backend);
    if (!backend)
        return tl::unexpected(backend.error());
    config.backend = *backend;
    config.inputIds = defaultPrompt(loaded.model().dims.vocab);
    if (!options.inputIds.empty()) {
        auto ids = parseInputIds(options.inputIds, loaded.model().dims.vocab);
        if (!ids)
            return tl::unexpected(ids.error());
        config.inputIds = std::move(*ids);
    }
    config.modelArgument = options.model;
    config.planArgument = options.plan;
    if (loaded.choice.document)
        config.planText = loaded.choice.document->text;
    config.tp = loaded.tp;
    config.ep = loaded.plan.ep;
    config.hooks = loaded.hooks;
    config.collectives = options.collectives == name(Collectives::OneShot) ? Collectives::OneShot : Collectives::Gloo;
    config.newTokens = options.newTokens;
    config.warmupTokens = options.warmup;
    config.repeat = options.repeat;
    config.seed = options.seed;
    config.threads = options.threads;
    config.profile = options.profile;
    config.attention = options.attention;
    config.compile = !options.eager;
    config.compileBackend = options.compileBackend;
    config.recompileLimit = options.recompileLimit;
    config.timeout = std::chrono::seconds(options.timeoutSeconds);
    config.port = options.port;
    // The real library's hooks are emulated on the version that is installed; elsewhere a mode means its own version.
    config.upstream = config.backend == Backend::Transformers ? loaded.upstream()
                                                              : loaded.workspace->upstreamFor(loaded.hooks);
    config.eventsWanted = !options.events.empty();
    return config;
}

RunInput runInputOf(const Loaded &loaded, RunConfig config) {
    const bool real = config.backend == Backend::Transformers;
    return {real ? loaded.model() : loaded.workspace->modelFor(loaded.hooks), loaded.plan, std::move(config)};
}

} // namespace tpscope::cli
