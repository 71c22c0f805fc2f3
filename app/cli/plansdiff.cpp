// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/plansdiff.h"

#include <algorithm>
#include <set>

#include "base/resources.h"

namespace tpscope::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void compareRules(const std::string &plan, const StyleByKey &before, const StyleByKey &after,
                  std::vector<RuleChange> &changes) {
    for (const auto &[key, style] : before) {
        const auto now = after.find(key);
        if (now == after.end())
            changes.push_back({plan, key, style, ""});
        else if (now->second != style)
            changes.push_back({plan, key, style, now->second});
    }
    for (const auto &[key, style] : after)
        if (!before.contains(key))
            changes.push_back({plan, key, "", style});
}

std::vector<RuleChange> ruleChanges(const CatalogueEntry &before, const CatalogueEntry &after) {
    std::vector<RuleChange> changes;
    compareRules("tp_plan", appliedTpRules(before), appliedTpRules(after), changes);
    compareRules("ep_plan", appliedEpRules(before), appliedEpRules(after), changes);
    return changes;
}

std::string upstreamOf(const Catalogue &catalogue) {
    std::set<std::string> versions;
    for (const auto &[kind, entry] : catalogue)
        versions.insert(entry.plan.source);
    std::string out;
    for (const std::string &version : versions)
        out += (out.empty() ? "" : ", ") + version;
    return out;
}

const char *name(FamilyChange::Kind kind) {
    switch (kind) {
    case FamilyChange::Kind::Added: return "added";
    case FamilyChange::Kind::Removed: return "removed";
    case FamilyChange::Kind::Changed: break;
    }
    return "changed";
}

const char *name(const RuleChange &rule) {
    return rule.before.empty() ? "added" : rule.after.empty() ? "removed" : "changed";
}

std::string lineOf(const RuleChange &rule) {
    const std::string mark = rule.before.empty() ? "+" : rule.after.empty() ? "-" : "~";
    const std::string style = rule.before.empty()  ? rule.after
                              : rule.after.empty() ? rule.before
                                                   : rule.before + " -> " + rule.after;
    return "  " + mark + " " + (rule.plan == "ep_plan" ? "(ep_plan) " : "") + rule.key + ": " + style + "\n";
}

std::size_t countOf(const std::vector<FamilyChange> &changes, FamilyChange::Kind kind) {
    return static_cast<std::size_t>(std::ranges::count(changes, kind, &FamilyChange::kind));
}

} // namespace

Result<Catalogue> shippedCatalogue() { return readCatalogue(plansDir()); }

Result<Catalogue> readCatalogue(const fs::path &folder) {
    std::error_code ec;
    if (!fs::is_directory(folder, ec))
        return fail(ErrorCode::NotFound, "no such folder; expected one with plans, <model_type>.yaml",
                    Location{folder.string()});
    Catalogue catalogue;
    for (const auto &file : fs::directory_iterator(folder, ec)) {
        if (file.path().extension() != ".yaml")
            continue;
        const auto text = readFile(file.path());
        if (!text)
            return tl::unexpected(text.error());
        auto entry = parseCatalogueEntry(*text, file.path().string());
        if (!entry)
            return tl::unexpected(entry.error());
        catalogue.emplace(entry->plan.modelType, std::move(*entry));
    }
    if (ec)
        return fail(ErrorCode::BadInput, "cannot be listed: " + ec.message(), Location{folder.string()});
    if (catalogue.empty())
        return fail(ErrorCode::NotFound, "no plan in this folder; expected files <model_type>.yaml",
                    Location{folder.string()});
    return catalogue;
}

std::vector<FamilyChange> differences(const Catalogue &before, const Catalogue &after) {
    static const CatalogueEntry nothing;
    std::set<std::string> kinds;
    for (const Catalogue *catalogue : {&before, &after})
        for (const auto &[kind, entry] : *catalogue)
            kinds.insert(kind);
    std::vector<FamilyChange> changes;
    for (const std::string &kind : kinds) {
        const auto old = before.find(kind), now = after.find(kind);
        FamilyChange change{kind, FamilyChange::Kind::Changed,
                            ruleChanges(old == before.end() ? nothing : old->second,
                                        now == after.end() ? nothing : now->second)};
        if (old == before.end())
            change.kind = FamilyChange::Kind::Added;
        else if (now == after.end())
            change.kind = FamilyChange::Kind::Removed;
        else if (change.rules.empty())
            continue;
        changes.push_back(std::move(change));
    }
    return changes;
}

json toJson(const std::vector<FamilyChange> &changes, const Catalogue &before, const Catalogue &after) {
    json families = json::array();
    for (const FamilyChange &family : changes) {
        json rules = json::array();
        for (const RuleChange &rule : family.rules)
            rules.push_back({{"plan", rule.plan},
                             {"key", rule.key},
                             {"change", name(rule)},
                             {"before", rule.before.empty() ? json() : json(rule.before)},
                             {"after", rule.after.empty() ? json() : json(rule.after)}});
        families.push_back({{"name", family.modelType}, {"change", name(family.kind)}, {"rules", std::move(rules)}});
    }
    return {{"before", {{"upstream", upstreamOf(before)}, {"families", before.size()}}},
            {"after", {{"upstream", upstreamOf(after)}, {"families", after.size()}}},
            {"families", std::move(families)}};
}

std::string toText(const std::vector<FamilyChange> &changes, const Catalogue &before, const Catalogue &after) {
    std::string out = upstreamOf(before) + " (" + std::to_string(before.size()) + " families) -> " + upstreamOf(after) +
                      " (" + std::to_string(after.size()) + " families)\n";
    for (const FamilyChange &family : changes) {
        out += family.modelType + ": " + name(family.kind) + "\n";
        for (const RuleChange &rule : family.rules)
            out += lineOf(rule);
    }
    if (changes.empty())
        return out + "no rule differs\n";
    return out + std::to_string(countOf(changes, FamilyChange::Kind::Added)) + " families added, " +
           std::to_string(countOf(changes, FamilyChange::Kind::Removed)) + " removed, " +
           std::to_string(countOf(changes, FamilyChange::Kind::Changed)) + " changed\n";
}

} // namespace tpscope::cli
