// SPDX-License-Identifier: GPL-3.0-or-later
#include <array>
#include <filesystem>
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/verbs.h"
#include "base/resources.h"
#include "plan/planwriter.h"
#include "report/planhtml.h"
#include "report/planmarkdown.h"
#include "report/repro.h"
#include "report/sarif.h"

namespace tpscope::cli {
namespace {

struct ExportOptions : CommonOptions {
    std::string to = "yaml";
    std::string out;
    bool effective = false;
};

PlanAnalysis analysisOf(const Loaded &loaded, const ExportOptions &options) {
    AnalysisOptions analysis;
    analysis.hooks = loaded.hooks;
    analysis.lint.train = true;
    analysis.lint.attention = options.attention;
    analysis.lint.hooks = name(loaded.hooks);
    analysis.lint.upstream = loaded.upstream();
    return analyze(loaded.workspace, loaded.choice, loaded.tp, analysis);
}

std::string sarifOf(const Loaded &loaded, const ExportOptions &options) {
    const PlanAnalysis analysis = analysisOf(loaded, options);
    const PlanDocument *document = loaded.choice.document ? &*loaded.choice.document : nullptr;
    return toSarif({{&analysis.lint, document, options.model, loaded.tp}}, TPSCOPE_VERSION,
                   std::filesystem::current_path())
        .dump(1);
}

PlanToWrite planOf(const Loaded &loaded, const ExportOptions &options) {
    PlanToWrite plan = options.effective ? effectiveRules(loaded.model(), loaded.plan)
                                         : ownRules(loaded.model(), loaded.choice, loaded.plan);
    plan.tpSize = loaded.tp;
    return plan;
}

// One row a format.
struct Format {
    const char *name;
    std::string (*write)(const Loaded &, const ExportOptions &);
};

constexpr std::array formats{
    Format{"yaml", [](const Loaded &l, const ExportOptions &o) { return toYaml(planOf(l, o)); }},
    Format{"json", [](const Loaded &l, const ExportOptions &o) { return toJson(planOf(l, o)); }},
    Format{"python",
           [](const Loaded &l, const ExportOptions &o) { return toPython(planOf(l, o), {o.model, "run_plan.py"}); }},
    Format{"markdown", [](const Loaded &l, const ExportOptions &o) { return planMarkdown(analysisOf(l, o)); }},
    Format{"sarif", sarifOf},
    Format{"repro",
           [](const Loaded &l, const ExportOptions &o) {
               const std::string name = o.out.empty() ? "repro.py" : std::filesystem::path(o.out).filename().string();
               return toRepro(l.model(), planOf(l, o), name);
           }},
    Format{"html", [](const Loaded &l, const ExportOptions &o) { return planHtml(analysisOf(l, o)); }},
};

int runExport(const ExportOptions &options) {
    const auto loaded = load(options);
    if (!loaded)
        return report(loaded.error());
    for (const Format &format : formats) {
        if (options.to != format.name)
            continue;
        std::string text = format.write(*loaded, options);
        if (!text.ends_with('\n'))
            text += '\n';
        if (options.out.empty()) {
            std::cout << text << std::flush;
            return std::cout ? 0 : 2;
        }
        const auto written = writeFileAtomically(options.out, text);
        return written ? 0 : report(written.error());
    }
    return report(Error{ErrorCode::Usage, "--to " + options.to + ": unknown format", std::nullopt});
}

} // namespace

void addExportVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<ExportOptions>();
    CLI::App *verb = app.add_subcommand("export", "Write a plan, or the report on it, in another form.");
    addModelOption(*verb, *options);
    addPlanOptions(*verb, *options);
    addHookOption(*verb, *options);
    std::vector<std::string> names;
    for (const Format &format : formats)
        names.emplace_back(format.name);
    verb->add_option("--to", options->to, "format")->check(CLI::IsMember(names))->capture_default_str();
    verb->add_option("--out", options->out, "file to write; default: standard output");
    verb->add_flag("--effective", options->effective, "write every rule in force, inherited ones too");
    verb->footer("Example: tpscope export --model qwen3-8b --plan my-plan.yaml --tp 4 --to python --out run_plan.py");
    verb->callback([options, &exitStatus] { exitStatus = runExport(*options); });
}

} // namespace tpscope::cli
