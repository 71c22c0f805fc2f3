// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/cli/interrupt.h"
#include "app/cli/runners.h"
#include "app/cli/runoptions.h"
#include "app/cli/sinks.h"
#include "app/cli/verbs.h"
#include "base/resources.h"
#include "measure/comparison.h"
#include "report/comparisonhtml.h"
#include "report/comparisonmarkdown.h"
#include "report/comparisontext.h"

namespace tpscope::cli {
namespace {

struct CompareOptions : RunOptions {
    std::vector<std::string> files; // A B: JSON of `run --out`
    std::optional<std::string> beforeHooks;
    std::optional<std::string> afterHooks;
    std::optional<std::string> beforePlan;
    std::optional<std::string> afterPlan;
    std::vector<std::string> reports;
    std::string save;
    std::string show;
    bool recorded = false;
};

Result<nlohmann::json> readJson(const std::string &path) {
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_discarded())
        return fail(ErrorCode::BadInput, "is not JSON; expected a file written by tpscope", Location{path});
    return json;
}

Result<RunTrace> readTrace(const std::string &path) {
    const auto json = readJson(path);
    if (!json)
        return tl::unexpected(json.error());
    return runTraceFromJson(*json, path);
}

Result<void> writeReport(const std::string &path, const Comparison &comparison) {
    if (path.ends_with(".html"))
        return writeFileAtomically(path, comparisonHtml(comparison));
    if (path.ends_with(".md"))
        return writeFileAtomically(path, comparisonMarkdown(comparison));
    return fail(ErrorCode::Usage, "--report " + path + ": expected a name that ends in .html or .md");
}

int present(const Comparison &comparison, const CompareOptions &options) {
    for (const std::string &path : options.reports) {
        if (const auto written = writeReport(path, comparison); !written)
            return report(written.error());
        if (!options.quiet)
            std::fprintf(stderr, "report: %s\n", path.c_str());
    }
    if (!options.save.empty())
        if (const auto written = writeFileAtomically(options.save, toJson(comparison).dump(1) + "\n"); !written)
            return report(written.error());
    if (options.json())
        return print(toJson(comparison));
    std::cout << comparisonText(comparison);
    return 0;
}

int showRecording(const CompareOptions &options) {
    const std::string path =
        options.recorded ? (resourceDir() / "recordings" / "qwen3-tiny-tp2.json").string() : options.show;
    const auto json = readJson(path);
    if (!json)
        return report(json.error());
    const auto comparison = comparisonFromJson(*json, path);
    if (!comparison)
        return report(comparison.error());
    return present(*comparison, options);
}

int compareFiles(const CompareOptions &options) {
    auto before = readTrace(options.files[0]);
    if (!before)
        return report(before.error());
    auto after = readTrace(options.files[1]);
    if (!after)
        return report(after.error());
    return present(compare(std::move(*before), std::move(*after)), options);
}

// One side of a live comparison, ready to run.
struct Side {
    Loaded loaded;
    RunConfig config;
};

Result<Side> prepare(const std::shared_ptr<const Workspace> &model, CompareOptions options, const std::string &label) {
    const bool before = label == "before";
    if (const auto &hooks = before ? options.beforeHooks : options.afterHooks)
        options.hooks = *hooks;
    if (const auto &plan = before ? options.beforePlan : options.afterPlan)
        options.plan = *plan;
    auto loaded = load(model, options);
    if (!loaded)
        return tl::unexpected(loaded.error());
    auto config = runConfigOf(*loaded, options);
    if (!config)
        return tl::unexpected(config.error());
    if (!options.force)
        if (const auto refused = refusal(*loaded, *config))
            return fail(ErrorCode::CannotRun, label + " cannot run: " + refused->message);
    return Side{std::move(*loaded), std::move(*config)};
}

int compareLive(const CompareOptions &options) {
    if (options.model.empty())
        return report(Error{ErrorCode::Usage,
                            "compare needs two result files, or --model with --before-hooks/--after-hooks or "
                            "--before-plan/--after-plan",
                            std::nullopt});
    const auto model = loadModel(options);
    if (!model)
        return report(model.error());
    auto before = prepare(*model, options, "before");
    if (!before)
        return report(before.error());
    auto after = prepare(*model, options, "after");
    if (!after)
        return report(after.error());
    const auto runner = makeRunner(before->config.backend);
    if (!runner)
        return report(runner.error());
    auto sink = CliSink::open(options.events, options.quiet);
    if (!sink)
        return report(sink.error());
    const Interrupt interrupt;
    const auto pair = (*runner)->runInterleaved(runInputOf(before->loaded, before->config),
                                                runInputOf(after->loaded, after->config), **sink, interrupt.token());
    if (!pair)
        return report(pair.error());
    const Comparison comparison = compare(poolRepeats(pair->before), poolRepeats(pair->after));
    if (const auto finished = (*sink)->finish(toJson(comparison)); !finished)
        return report(finished.error());
    if ((*sink)->streamsToStdout())
        return 0;
    return present(comparison, options);
}

int runCompare(const CompareOptions &options) {
    if (options.recorded || !options.show.empty())
        return showRecording(options);
    if (options.files.size() == 2)
        return compareFiles(options);
    if (!options.files.empty())
        return report(Error{ErrorCode::Usage, "compare takes two result files, before and after; found one", std::nullopt});
    return compareLive(options);
}

} // namespace

void addCompareVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<CompareOptions>();
    CLI::App *verb = app.add_subcommand("compare", "Compare two runs: hook modes, plans, or two result files.");
    addRunOptions(*verb, *options);
    verb->get_option("--model")->required(false);
    options->repeat = 2;
    verb->add_option("files", options->files, "two files written by `run --out`: before, after")->expected(0, 2);
    verb->add_option("--before-hooks", options->beforeHooks, "hook mode before");
    verb->add_option("--after-hooks", options->afterHooks, "hook mode after");
    verb->add_option("--before-plan", options->beforePlan, "plan before");
    verb->add_option("--after-plan", options->afterPlan, "plan after");
    verb->add_option("--report", options->reports, "write a report: a name ending in .html or .md; repeatable");
    verb->add_option("--save", options->save, "write the comparison as JSON, for --show");
    verb->add_option("--show", options->show, "show a saved comparison again");
    verb->add_flag("--recorded", options->recorded, "show the recording that ships with TPScope");
    verb->footer("Example: tpscope compare --model qwen3-tiny --plan auto --tp 2 --backend transformers\n"
                 "             --before-hooks module-backward --after-hooks post-accumulate-grad --report out.html");
    verb->callback([options, &exitStatus] { exitStatus = runCompare(*options); });
}

} // namespace tpscope::cli
