// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lint/lint.h"
#include "plan/plandocument.h"

namespace tpscope {

// What lint says of one plan. Points into values that outlive the call.
struct LintedPlan {
    const LintReport *report = nullptr;
    const PlanDocument *document = nullptr; // nullptr: auto or none; findings then have no place in a file
    std::string model;                      // as asked for
    int tp = 1;
};

// The findings on some plans as one run of a SARIF 2.1.0 log (OASIS, sarif-v2.1.0), for code review tools. Rules are
// those that have a finding, with the text of their pages. Columns count characters from 1, as in SourceSpan, and
// byteOffset counts a byte-order mark; fixes with edits become replacements. URIs are relative to workingDirectory
// (absolute path) for plans below it, file URIs otherwise. Reads the codes' pages; one that is not there is left out.
nlohmann::json toSarif(const std::vector<LintedPlan> &plans, const std::string &toolVersion,
                       const std::filesystem::path &workingDirectory);

} // namespace tpscope
