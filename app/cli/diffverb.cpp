// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "report/plandiff.h"
#include "report/planhtml.h"
#include "report/planmarkdown.h"

namespace tpscope::cli {
namespace {

struct DiffOptions : CommonOptions {
    std::string before;
    std::string after;
    std::vector<std::string> models;
    std::vector<int> sizes{1, 2, 4, 8};
    bool train = false;
};

std::string textOf(const PlanFacts &facts) {
    std::string out = facts.title + "\n" + facts.result + "\n" + facts.basis + "\n";
    for (const ReportTable &table : facts.tables) {
        out += "\n" + table.title + (table.note.empty() ? "" : " (" + table.note + ")") + "\n";
        if (table.rows.empty())
            continue;
        Table text(table.headers, std::vector<Align>(table.headers.size(), Align::Left));
        for (const auto &row : table.rows)
            text.add(row);
        out += text.text();
    }
    return out;
}

Result<PlanDiff> diffOf(const DiffOptions &options) {
    auto before = PlanChoice::parse(options.before);
    if (!before)
        return tl::unexpected(before.error());
    auto after = PlanChoice::parse(options.after);
    if (!after)
        return tl::unexpected(after.error());
    before->ep = after->ep = options.ep;
    PlanDiff diff{options.before, options.after, {}, {}};
    for (const std::string &model : options.models) {
        DiffOptions own = options;
        own.model = model;
        const auto workspace = loadModel(own);
        if (!workspace)
            return tl::unexpected(workspace.error());
        const auto hooks = options.hooks ? parseHookMode(*options.hooks)
                                         : Result<HookMode>(hookModeOf((*workspace)->upstream));
        if (!hooks)
            return tl::unexpected(hooks.error());
        PlanDiffRequest request{options.sizes, options.ep, {}};
        request.options.hooks = *hooks;
        request.options.lint.train = options.train;
        request.options.lint.attention = options.attention;
        request.options.lint.hooks = name(*hooks);
        request.options.lint.upstream = (*workspace)->upstream;
        diff.models.push_back(diffPlans(*workspace, model, *before, *after, request));
        diff.basis = "by rule: transformers " + (*workspace)->upstream.text() + ", hooks " + std::string(name(*hooks)) +
                     (options.train ? ", training" : ", inference") + "; nothing was run";
    }
    return diff;
}

int runDiff(const DiffOptions &options) {
    const auto diff = diffOf(options);
    if (!diff)
        return report(diff.error());
    const int exitStatus = diff->worse() ? 1 : 0;
    if (options.json())
        return print(toJson(*diff), exitStatus);
    const PlanFacts facts = planDiffFacts(*diff);
    std::cout << (options.format == "markdown" ? planMarkdown(facts)
                  : options.format == "html"   ? planHtml(facts)
                                               : textOf(facts))
              << std::flush;
    return exitStatus;
}

} // namespace

void addDiffVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<DiffOptions>();
    CLI::App *verb = app.add_subcommand(
        "diff", "Compare two plans by rule: rules, placements, bytes, collectives, breaks and outcome per model and size.");
    verb->add_option("old", options->before, "plan file, auto (the model's built-in plan) or none")->required();
    verb->add_option("new", options->after, "plan file, auto or none")->required();
    verb->add_option("--model", options->models, "models to look at: folders, config.json files or bundled names")
        ->required();
    verb->add_option("--tp", options->sizes, "tensor-parallel sizes, by commas")
        ->delimiter(',')
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    verb->add_option("--ep", options->ep, "ranks that share the experts");
    verb->add_option("--upstream", options->upstream, "transformers version whose rules apply, 5.21 to 5.24");
    verb->add_option("--attention", options->attention, "attention implementation; default: the model's (sdpa)")
        ->check(CLI::IsMember({"sdpa", "eager"}));
    verb->add_flag("--train", options->train, "judge gradients as well");
    addHookOption(*verb, *options);
    addFormatOption(*verb, *options, {"text", "json", "markdown", "html"});
    verb->footer("Example: tpscope diff auto plan.yaml --model qwen3-8b qwen3-0.6b --tp 1,2,4,8 --format markdown\n"
                 "Exit status: 0 fine, 1 something that was ok is not any more, 2 unreadable input.");
    verb->callback([options, &exitStatus] { exitStatus = runDiff(*options); });
}

} // namespace tpscope::cli
