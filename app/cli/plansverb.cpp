// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/interrupt.h"
#include "app/cli/plansdiff.h"
#include "app/cli/plansimport.h"
#include "app/cli/sinks.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/resources.h"
#include "base/text.h"
#include "plan/catalogue.h"

namespace tpscope::cli {
namespace {

struct PlansOptions : CommonOptions {
    std::string name;              // show
    std::string python;            // import, diff
    std::string folder;            // import: to write to; diff: to compare with
    std::vector<std::string> only; // import, diff
    bool quiet = false;
};

int listPlans(const CommonOptions &options) {
    const auto catalogue = shippedCatalogue();
    if (!catalogue)
        return report(catalogue.error());
    nlohmann::json plans = nlohmann::json::array();
    Table table({"name", "class", "tp rules", "ep rules", "upstream"},
                {Align::Left, Align::Left, Align::Right, Align::Right, Align::Left});
    for (const auto &[name, entry] : *catalogue) {
        const std::size_t tp = appliedTpRules(entry).size();
        const std::size_t ep = appliedEpRules(entry).size();
        table.add({name, entry.modelClass, std::to_string(tp), std::to_string(ep), entry.plan.source});
        plans.push_back({{"name", name},
                         {"model_type", entry.plan.modelType},
                         {"upstream", entry.plan.source},
                         {"class", entry.modelClass},
                         {"tp_rules", tp},
                         {"ep_rules", ep}});
    }
    if (options.json())
        return print({{"plans", std::move(plans)}});
    std::cout << table.text();
    return 0;
}

void printRules(const char *title, const StyleByKey &rules) {
    std::cout << title << ":" << (rules.empty() ? " {}" : "") << '\n';
    for (const auto &[key, style] : rules)
        std::cout << "  " << key << ": " << style << '\n';
}

// Of a model type, or of the model that a config.json (or its folder) describes.
Result<CatalogueEntry> entryOf(const std::string &name) {
    std::error_code ec;
    if (name.ends_with(".json") || std::filesystem::is_directory(name, ec)) {
        const auto source = findModel(name);
        if (!source)
            return tl::unexpected(source.error());
        const auto config = ModelConfig::load(source->configPath.string());
        if (!config)
            return tl::unexpected(config.error());
        return catalogueEntryOf(*config);
    }
    auto entry = loadCatalogueEntry(name);
    if (entry || entry.error().code != ErrorCode::NotFound)
        return entry;
    const std::string near = nearest(name, builtinPlanNames());
    return fail(ErrorCode::NotFound, "no built-in plan is called \"" + name + "\"" +
                                         (near.empty() ? "" : "; the nearest is \"" + near + "\"") +
                                         "; `tpscope plans list` shows all");
}

int showPlan(const std::string &name, const CommonOptions &options) {
    const auto entry = entryOf(name);
    if (!entry)
        return report(entry.error());
    const StyleByKey tp = appliedTpRules(*entry);
    const StyleByKey ep = appliedEpRules(*entry);
    if (options.json()) {
        nlohmann::json subModels = nlohmann::json::object();
        for (const auto &[place, kind] : entry->subModels)
            subModels[place] = kind;
        return print({{"name", entry->plan.modelType},
                      {"model_type", entry->plan.modelType},
                      {"source", entry->plan.source},
                      {"upstream", entry->plan.source},
                      {"class", entry->modelClass},
                      {"sub_models", std::move(subModels)},
                      {"tp_plan", tp},
                      {"ep_plan", ep}});
    }
    std::cout << "# " << entry->plan.source << (entry->modelClass.empty() ? "" : ", " + entry->modelClass)
              << "\nmodel_type: " << entry->plan.modelType << '\n';
    printRules("tp_plan", tp);
    if (!ep.empty())
        printRules("ep_plan", ep);
    return 0;
}

// What importing could not do, on stderr; true when there is something.
bool reportFailures(const ImportedCatalogue &catalogue) {
    for (const auto &failure : catalogue.failures)
        std::cerr << "tpscope: " << failure.modelType << ": " << catalogue.upstream
                  << " could not build a model of it, so its plan is not known: " << failure.message << '\n';
    return !catalogue.failures.empty();
}

Result<ImportedCatalogue> import(const PlansOptions &options) {
    auto sink = CliSink::open("", options.quiet);
    if (!sink)
        return tl::unexpected(sink.error());
    const Interrupt interrupt;
    return importCatalogue(options.python, options.only, **sink, interrupt.token());
}

int importPlans(const PlansOptions &options) {
    const auto catalogue = import(options);
    if (!catalogue)
        return report(catalogue.error());
    const std::filesystem::path folder = options.folder.empty() ? plansDir() : std::filesystem::path(options.folder);
    const auto written = writeCatalogue(*catalogue, folder);
    if (!written)
        return report(written.error());
    const int exitStatus = reportFailures(*catalogue) ? 1 : 0;
    nlohmann::json failed = nlohmann::json::array();
    for (const auto &failure : catalogue->failures)
        failed.push_back({{"model_type", failure.modelType}, {"message", failure.message}});
    // With --only, the others are not missing.
    const std::vector<std::string> left = options.only.empty() ? written->left : std::vector<std::string>();
    if (options.json())
        return print({{"upstream", catalogue->upstream},
                      {"folder", folder.string()},
                      {"plans", catalogue->plans.size()},
                      {"added", written->added},
                      {"changed", written->changed},
                      {"unchanged", written->unchanged},
                      {"left", left},
                      {"failed", std::move(failed)}},
                     exitStatus);
    std::cout << catalogue->plans.size() << " plans of " << catalogue->upstream << " in " << folder.string() << ": "
              << written->added.size() << " added, " << written->changed.size() << " changed, " << written->unchanged
              << " as they were\n";
    for (const std::string &kind : left)
        std::cout << kind << ".yaml is of no family of " << catalogue->upstream << "; it was left as it is\n";
    return exitStatus;
}

void keepOnly(Catalogue &catalogue, const std::vector<std::string> &only) {
    if (!only.empty())
        std::erase_if(catalogue, [&](const auto &plan) { return std::ranges::find(only, plan.first) == only.end(); });
}

int diffPlans(const PlansOptions &options) {
    auto before = shippedCatalogue();
    if (!before)
        return report(before.error());
    Catalogue after;
    bool incomplete = false;
    if (!options.folder.empty()) {
        auto read = readCatalogue(options.folder);
        if (!read)
            return report(read.error());
        after = std::move(*read);
    } else {
        auto imported = import(options);
        if (!imported)
            return report(imported.error());
        incomplete = reportFailures(*imported);
        for (const auto &failure : imported->failures) // not known is no difference
            before->erase(failure.modelType);
        for (auto &[kind, plan] : imported->plans)
            after.emplace(kind, std::move(plan.entry));
    }
    keepOnly(*before, options.only);
    keepOnly(after, options.only);
    const std::vector<FamilyChange> changes = differences(*before, after);
    const int exitStatus = changes.empty() && !incomplete ? 0 : 1;
    if (options.json())
        return print(toJson(changes, *before, after), exitStatus);
    std::cout << toText(changes, *before, after);
    return exitStatus;
}

void addSourceOptions(CLI::App &verb, PlansOptions &options) {
    verb.add_option("--python", options.python,
                    "whose transformers: an interpreter, a virtual environment or a working copy of transformers "
                    "(default: the one that --backend transformers runs in)");
    verb.add_option("--only", options.only, "this model type alone; may be repeated");
    verb.add_flag("--quiet", options.quiet, "no progress");
    addFormatOption(verb, options);
}

void addImport(CLI::App &verb, const std::shared_ptr<PlansOptions> &options, int &exitStatus) {
    CLI::App *import = verb.add_subcommand("import", "Write the built-in plans of an installed transformers.");
    addSourceOptions(*import, *options);
    import->add_option("--out", options->folder, "folder to write to (default: the catalogue itself)");
    import->footer("Builds a model of each family without weights, some 80 s for all; only the library's own code runs.\n"
                   "Example: tpscope plans import --python venv/bin/python --out /tmp/plans");
    import->callback([options, &exitStatus] { exitStatus = importPlans(*options); });
}

void addDiff(CLI::App &verb, const std::shared_ptr<PlansOptions> &options, int &exitStatus) {
    CLI::App *diff =
        verb.add_subcommand("diff", "Compare the built-in plans with those of a transformers or a folder.");
    addSourceOptions(*diff, *options);
    diff->add_option("folder", options->folder, "a folder that `plans import` wrote")->excludes("--python");
    diff->footer("Exit 1 when something differs.\nExample: tpscope plans diff --python venv/bin/python");
    diff->callback([options, &exitStatus] { exitStatus = diffPlans(*options); });
}

} // namespace

void addPlansVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<PlansOptions>();
    CLI::App *verb = app.add_subcommand("plans", "List, show, import or compare the built-in plans.");
    verb->require_subcommand(1);
    CLI::App *list = verb->add_subcommand("list", "List the families that have a built-in plan.");
    addFormatOption(*list, *options);
    list->callback([options, &exitStatus] { exitStatus = listPlans(*options); });
    CLI::App *show = verb->add_subcommand("show", "Show one built-in plan as `--plan auto` applies it.");
    show->add_option("name", options->name,
                     "model type, e.g. qwen3, or a config.json, whose parts may be of other model types")
        ->required();
    addFormatOption(*show, *options);
    show->footer("Example: tpscope plans show qwen3");
    show->callback([options, &exitStatus] { exitStatus = showPlan(options->name, *options); });
    addImport(*verb, options, exitStatus);
    addDiff(*verb, options, exitStatus);
}

} // namespace tpscope::cli
