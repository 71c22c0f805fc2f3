// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/plansimport.h"

#include <algorithm>

#include "base/resources.h"
#include "base/text.h"
#include "plan/yamlsource.h"
#include "probe/probesession.h"

namespace tpscope::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kTimeout = std::chrono::minutes(30);

std::string plain(const std::string &text) { return scalarText(text, Quote::Plain); }

std::string rulesText(const json &facts, const std::string &name) {
    std::string out;
    for (const json &rule : facts.at(name))
        out += "  " + plain(rule.at(0).get<std::string>()) + ": " + plain(rule.at(1).get<std::string>()) + "\n";
    return out.empty() ? out : name + ":\n" + out;
}

std::string textsText(const json &facts, const std::string &name, const std::string &meaning) {
    std::string out;
    for (const auto &[key, value] : facts.at(name).items())
        out += "  " + plain(key) + ": " + plain(value.get<std::string>()) + "\n";
    return out.empty() ? out : name + ": # " + meaning + "\n" + out;
}

std::string headOf(const json &facts, const std::string &upstream) {
    const auto text = [&](const char *key) { return facts.at(key).get<std::string>(); };
    return "# Built-in tensor-parallel plan of " + text("model_type") +
           ", written by `tpscope plans import`.\n# Source: a " + text("class") + " of " + upstream + ",\n#   " +
           facts.at("sources").at(0).get<std::string>() + " (" + text("config_class") + ")\n#   " +
           facts.at("sources").at(1).get<std::string>() +
           "\n# The default rule embed_tokens: embedding_rowwise of the base model is not stored here: upstream adds it "
           "when the\n# model is built, and so does the resolver.\n";
}

std::string textOf(const json &facts, const std::string &upstream) {
    std::string out = headOf(facts, upstream);
    out += "model_type: " + plain(facts.at("model_type").get<std::string>()) + "\n";
    out += "upstream: " + upstream + "\n";
    out += "class: " + plain(facts.at("class").get<std::string>()) + "\n";
    if (const std::string prefix = facts.at("base_model_prefix").get<std::string>(); !prefix.empty())
        out += "base_model_prefix: " + plain(prefix) + " # keys of base_model_tp_plan lack it\n";
    if (!facts.at("default_embedding").get<bool>() && !facts.at("base_model_tp_plan").empty())
        out += "default_embedding: false # the base model has no embed_tokens\n";
    out += rulesText(facts, "class_tp_plan") + rulesText(facts, "base_model_tp_plan") +
           rulesText(facts, "base_model_ep_plan");
    out += textsText(facts, "sub_models", "whose rules are merged below, as the default configuration has them");
    out += textsText(facts, "sub_model_configs", "keys of a config.json that may name other model types");
    return out + rulesText(facts, "sub_model_tp_plan") + rulesText(facts, "sub_model_ep_plan");
}

Result<ImportedCatalogue> catalogueOf(const json &result) {
    ImportedCatalogue catalogue;
    try {
        catalogue.upstream =
            "transformers " + result.at("environment").at("transformers").get<std::string>();
        for (const json &facts : result.at("families")) {
            const std::string kind = facts.at("model_type").get<std::string>();
            ImportedPlan plan{{}, textOf(facts, catalogue.upstream)};
            auto entry = parseCatalogueEntry(plan.text, kind + ".yaml");
            if (!entry)
                return tl::unexpected(entry.error());
            plan.entry = std::move(*entry);
            catalogue.plans.emplace(kind, std::move(plan));
        }
        for (const json &failure : result.at("failed"))
            catalogue.failures.push_back({failure.at("model_type").get<std::string>(),
                                          shortened(failure.at("message").get<std::string>(), 300)});
    } catch (const json::exception &error) {
        return fail(ErrorCode::RunFailed, std::string("the answer of tpscope_plans.py lacks a value: ") + error.what());
    }
    return catalogue;
}

Result<ProbePython> pythonFor(const std::string &argument) {
    if (!argument.empty())
        return pythonOf(argument);
    return findPython().map([](fs::path &&program) { return ProbePython{std::move(program), {}}; });
}

Result<void> checkAsked(const std::vector<std::string> &only, const ImportedCatalogue &catalogue) {
    for (const std::string &kind : only) {
        const bool failed = std::ranges::any_of(
            catalogue.failures, [&](const ImportedCatalogue::Failure &failure) { return failure.modelType == kind; });
        if (!failed && !catalogue.plans.contains(kind))
            return fail(ErrorCode::NotFound, catalogue.upstream + " has no model type " + inQuotes(kind) +
                                                 " that carries a tensor-parallel plan");
    }
    return {};
}

} // namespace

Result<ImportedCatalogue> importCatalogue(const std::string &python, const std::vector<std::string> &only,
                                          EventSink &sink, std::stop_token stop) {
    auto found = pythonFor(python);
    if (!found)
        return tl::unexpected(found.error());
    ProbeLaunch launch;
    launch.python = std::move(*found);
    launch.script = "tpscope_plans.py";
    launch.request = [&](const ProbePaths &paths) -> Result<json> {
        return json{{"result", paths.result().string()},
                    {"events", paths.events().string()},
                    {"only", only.empty() ? json() : json(only)}};
    };
    auto session = ProbeSession::start(launch);
    if (!session)
        return tl::unexpected(session.error());
    const ProbeLimits limits = ProbeLimits::from(std::move(stop), kTimeout);
    if (const auto waited = session->waitUntil(sink, limits, [] { return false; }); !waited)
        return tl::unexpected(waited.error());
    const auto result = session->result();
    if (!result)
        return tl::unexpected(result.error());
    auto catalogue = catalogueOf(*result);
    if (!catalogue)
        return catalogue;
    if (const auto checked = checkAsked(only, *catalogue); !checked)
        return tl::unexpected(checked.error());
    return catalogue;
}

Result<WrittenCatalogue> writeCatalogue(const ImportedCatalogue &catalogue, const fs::path &folder) {
    WrittenCatalogue written;
    std::error_code ec;
    fs::create_directories(folder, ec);
    if (ec)
        return fail(ErrorCode::RunFailed, "cannot make the folder: " + ec.message(), Location{folder.string()});
    for (const auto &[kind, plan] : catalogue.plans) {
        const fs::path path = folder / (kind + ".yaml");
        const auto before = readFile(path);
        if (before && *before == plan.text) {
            ++written.unchanged;
            continue;
        }
        if (const auto done = writeFileAtomically(path, plan.text); !done)
            return tl::unexpected(done.error());
        (before ? written.changed : written.added).push_back(kind);
    }
    for (const auto &file : fs::directory_iterator(folder, ec))
        if (file.path().extension() == ".yaml" && !catalogue.plans.contains(file.path().stem().string()))
            written.left.push_back(file.path().stem().string());
    std::ranges::sort(written.left);
    return written;
}

} // namespace tpscope::cli
