// SPDX-License-Identifier: GPL-3.0-or-later
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/text.h"
#include "lint/codes.h"
#include "report/codepages.h"

namespace tpscope::cli {
namespace {

struct ExplainOptions : CommonOptions {
    std::string code;
};

nlohmann::json toJson(const CodeInfo &info) {
    return {{"code", info.code},
            {"title", info.title},
            {"severity", name(info.severity)},
            {"training_only", info.trainingOnly},
            {"what", info.what},
            {"why", info.why},
            {"fix", info.fix}};
}

int listCodes(const ExplainOptions &options) {
    nlohmann::json all = nlohmann::json::array();
    Table table({"code", "severity", "what"}, {Align::Left, Align::Left, Align::Left});
    for (const CodeInfo &info : codes()) {
        all.push_back(toJson(info));
        table.add({std::string(info.code), std::string(name(info.severity)) + (info.trainingOnly ? " in training" : ""),
                   std::string(info.title)});
    }
    if (options.json())
        return print({{"codes", std::move(all)}});
    std::cout << table.text() << std::flush;
    return std::cout ? 0 : 2;
}

Error unknownCode(const std::string &asked) {
    std::vector<std::string> known;
    for (const CodeInfo &info : codes())
        known.emplace_back(info.code);
    const std::string near = nearest(asked, known);
    return {ErrorCode::Usage,
            "no finding has the code " + inQuotes(asked) +
                (near.empty() ? std::string() : "; nearest: " + near + " (" + std::string(findCode(near)->title) + ")") +
                "; `tpscope explain` lists all codes",
            std::nullopt};
}

int runExplain(const ExplainOptions &options) {
    if (options.code.empty())
        return listCodes(options);
    std::string code = options.code;
    for (char &c : code)
        c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    const CodeInfo *info = findCode(code);
    if (!info)
        return report(unknownCode(options.code));
    const auto page = codePage(info->code);
    if (!page)
        return report(page.error());
    if (options.json()) {
        nlohmann::json json = toJson(*info);
        json["page"] = *page;
        return print(json);
    }
    std::cout << *page << std::flush;
    return std::cout ? 0 : 2;
}

} // namespace

void addExplainVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<ExplainOptions>();
    CLI::App *verb = app.add_subcommand("explain", "Say what a finding's code means, with an example and what to do.");
    verb->add_option("code", options->code, "code of a finding, such as TP101; default: list all codes");
    addFormatOption(*verb, *options);
    verb->footer("Example: tpscope explain TP101\nExit status: 0 fine, 2 unknown code.");
    verb->callback([options, &exitStatus] { exitStatus = runExplain(*options); });
}

} // namespace tpscope::cli
