// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/sarif.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lint/codes.h"
#include "plan/yamlsource.h"
#include "report/codepages.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char *levelOf(Severity severity) {
    switch (severity) {
    case Severity::Error: return "error";
    case Severity::Warning: return "warning";
    case Severity::Info: return "note";
    }
    return "none";
}

// RFC 3986: unreserved characters and the slashes between segments stand for themselves.
std::string percentEncoded(std::string_view path) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    constexpr std::string_view unreserved = "-._~/";
    std::string out;
    for (const char c : path) {
        const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const auto byte = static_cast<unsigned char>(c);
        if (alphanumeric || unreserved.find(c) != std::string_view::npos)
            out += c;
        else
            (out += '%').append({digits[byte >> 4], digits[byte & 15]});
    }
    return out;
}

std::string uriOf(const std::string &file, const fs::path &workingDirectory) {
    const fs::path whole = (workingDirectory / file).lexically_normal();
    const fs::path relative = whole.lexically_relative(workingDirectory.lexically_normal());
    if (relative.empty() || *relative.begin() == "..")
        return "file://" + percentEncoded(whole.generic_string());
    return percentEncoded(relative.generic_string());
}

// A message string, in which braces mark placeholders (section 3.11.5 of the standard).
std::string messageText(std::string_view text) {
    std::string out;
    for (const char c : text)
        out.append(c == '{' || c == '}' ? 2 : 1, c);
    return out;
}

json message(std::string_view text) { return {{"text", messageText(text)}}; }

json regionOf(TextPlaces &places, std::size_t offset, std::size_t length) {
    const SourceSpan begin = places.span(offset, offset + length);
    const SourceSpan end = places.span(offset + length, offset + length);
    return {{"startLine", begin.line}, {"startColumn", begin.column}, {"endLine", end.line},
            {"endColumn", end.column}, {"byteOffset", offset},        {"byteLength", length}};
}

json ruleOf(const CodeInfo &info) {
    json help = message(info.fix);
    if (const auto page = codePage(info.code))
        help["markdown"] = messageText(*page);
    return {{"id", info.code},
            {"shortDescription", message(info.title)},
            {"fullDescription", message(std::string(info.what) + " " + std::string(info.why))},
            {"help", std::move(help)},
            {"defaultConfiguration", {{"level", levelOf(info.severity)}}},
            {"properties", {{"trainingOnly", info.trainingOnly}}}};
}

json fixesOf(const Fix &fix, TextPlaces &places, const json &artifact) {
    json replacements = json::array();
    for (const TextEdit &edit : fix.edits)
        replacements.push_back({{"deletedRegion", regionOf(places, edit.offset, edit.length)},
                                {"insertedContent", {{"text", edit.text}}}});
    const json change{{"artifactLocation", artifact}, {"replacements", std::move(replacements)}};
    return json::array({{{"description", message(fix.title)}, {"artifactChanges", json::array({change})}}});
}

// One plan's findings, appended to the results of the run.
void addResults(const LintedPlan &plan, const json &artifact, const std::vector<const CodeInfo *> &rules,
                json &results) {
    TextPlaces places(plan.document ? std::string_view(plan.document->text) : std::string_view());
    for (const Diagnostic &finding : plan.report->diagnostics) {
        // Advice: nothing that a tool could apply.
        const bool advice = finding.fix && finding.fix->edits.empty();
        json result{{"ruleId", finding.code},
                    {"level", levelOf(finding.severity)},
                    {"message", message(finding.message + (advice ? "\nFix: " + finding.fix->title : ""))},
                    {"properties", {{"rule", finding.rule}, {"trainingOnly", finding.trainingOnly}}}};
        const auto rule = std::ranges::find(rules, finding.code, [](const CodeInfo *info) { return info->code; });
        if (rule != rules.end())
            result["ruleIndex"] = rule - rules.begin();
        json location = json::object();
        if (plan.document) {
            location["physicalLocation"]["artifactLocation"] = artifact;
            if (finding.span.valid())
                location["physicalLocation"]["region"] = regionOf(places, finding.span.offset, finding.span.length);
            if (finding.fix && !finding.fix->edits.empty())
                result["fixes"] = fixesOf(*finding.fix, places, artifact);
        }
        for (const std::string &module : finding.modules)
            location["logicalLocations"].push_back({{"fullyQualifiedName", module}, {"kind", "module"}});
        if (!location.empty())
            result["locations"] = json::array({std::move(location)});
        results.push_back(std::move(result));
    }
}

json factsOf(const LintedPlan &plan, const json &artifact) {
    return {{"plan", artifact.is_null() ? json(nullptr) : artifact["uri"]},
            {"model", plan.model},
            {"tp", plan.tp},
            {"outcome", name(plan.report->outcome)},
            {"basis", plan.report->basis == Basis::Rule ? "rule" : "executed"},
            {"upstream", "transformers " + plan.report->upstream},
            {"validTpSizes", plan.report->validTpSizes}};
}

} // namespace

json toSarif(const std::vector<LintedPlan> &plans, const std::string &toolVersion, const fs::path &workingDirectory) {
    std::set<std::string, std::less<>> found;
    for (const LintedPlan &plan : plans)
        for (const Diagnostic &finding : plan.report->diagnostics)
            found.insert(finding.code);
    std::vector<const CodeInfo *> rules;
    for (const CodeInfo &info : codes())
        if (found.contains(info.code))
            rules.push_back(&info);
    json driver{{"name", "TPScope"}, {"version", toolVersion}, {"rules", json::array()}};
    for (const CodeInfo *info : rules)
        driver["rules"].push_back(ruleOf(*info));

    json results = json::array(), artifacts = json::array(), facts = json::array();
    for (const LintedPlan &plan : plans) {
        json artifact;
        if (plan.document) {
            const json uri = uriOf(plan.document->fileName, workingDirectory);
            json described{{"location", {{"uri", uri}}}, {"length", plan.document->text.size()}, {"encoding", "UTF-8"}};
            const auto known = std::ranges::find(artifacts, described); // the standard wants each once
            artifact = {{"uri", uri}, {"index", known - artifacts.begin()}};
            if (known == artifacts.end())
                artifacts.push_back(std::move(described));
        }
        addResults(plan, artifact, rules, results);
        facts.push_back(factsOf(plan, artifact));
    }
    json run{{"tool", {{"driver", std::move(driver)}}},
             {"columnKind", "unicodeCodePoints"},
             {"invocations", json::array({{{"executionSuccessful", true}}})},
             {"artifacts", std::move(artifacts)},
             {"results", std::move(results)},
             {"properties", {{"plans", std::move(facts)}}}};
    return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
            {"version", "2.1.0"},
            {"runs", json::array({std::move(run)})}};
}

} // namespace tpscope
