// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <span>
#include <string_view>

#include "lint/lint.h"

namespace tpscope {

// One row a kind of finding. Codes are stable: a new kind takes a new number, none is used again.
struct CodeInfo {
    std::string_view code;
    std::string_view title;
    Severity severity = Severity::Error; // of a training-only finding: when training, a warning otherwise
    bool trainingOnly = false;
    std::string_view what; // what is so
    std::string_view why;  // why it is so upstream
    std::string_view fix;  // what to do
};

std::span<const CodeInfo> codes();           // ascending
const CodeInfo *findCode(std::string_view code); // nullptr: no such code

// Names for the rules' source; each is the `code` of a row.
namespace code {
inline constexpr std::string_view unknownStyle = "TP001";
inline constexpr std::string_view duplicateKey = "TP002";
inline constexpr std::string_view unmatchedKey = "TP003";
inline constexpr std::string_view literalLayer = "TP004";
inline constexpr std::string_view missingPrefix = "TP005";
inline constexpr std::string_view unmatchedInherited = "TP006";
inline constexpr std::string_view emptyPlan = "TP007";
inline constexpr std::string_view refusedStyle = "TP008";
inline constexpr std::string_view badTpSize = "TP009";
inline constexpr std::string_view noPlan = "TP010";
inline constexpr std::string_view expertStyle = "TP011";
inline constexpr std::string_view nothingMatches = "TP012";
inline constexpr std::string_view otherModel = "TP013";
inline constexpr std::string_view planIgnored = "TP014";
inline constexpr std::string_view brokenConfigPlan = "TP015";
inline constexpr std::string_view badEpSize = "TP016";
inline constexpr std::string_view noEpPlan = "TP017";
inline constexpr std::string_view removedEpStyle = "TP018";
inline constexpr std::string_view idleEpPlan = "TP019";
inline constexpr std::string_view cutTwice = "TP020";
inline constexpr std::string_view badDevice = "TP021";
inline constexpr std::string_view headsCut = "TP101";
inline constexpr std::string_view kvHeadsCut = "TP102";
inline constexpr std::string_view layoutsApart = "TP103";
inline constexpr std::string_view operandsApart = "TP104";
inline constexpr std::string_view headsApart = "TP105";
inline constexpr std::string_view reducedTwice = "TP106";
inline constexpr std::string_view gradientShare = "TP107";
inline constexpr std::string_view gradientRepeated = "TP108";
inline constexpr std::string_view tiedApart = "TP109";
inline constexpr std::string_view partOfOutput = "TP110";
inline constexpr std::string_view mixedTensors = "TP111";
inline constexpr std::string_view notReduced = "TP112";
inline constexpr std::string_view callForm = "TP113";
inline constexpr std::string_view gatherApart = "TP114";
inline constexpr std::string_view packedWeight = "TP115";
inline constexpr std::string_view missingKey = "TP116";
inline constexpr std::string_view wholeInTraining = "TP117";
inline constexpr std::string_view sharedHeads = "TP118";
inline constexpr std::string_view accumulation = "TP119";
inline constexpr std::string_view hookTooEarly = "TP120";
inline constexpr std::string_view biasRepeated = "TP121";
inline constexpr std::string_view inputGradientShare = "TP122";
inline constexpr std::string_view misaligned = "TP123";
inline constexpr std::string_view expertCount = "TP124";
inline constexpr std::string_view expertShards = "TP125";
inline constexpr std::string_view fusedCut = "TP126";
inline constexpr std::string_view mixedNorm = "TP127";
inline constexpr std::string_view nothingTrains = "TP128";
inline constexpr std::string_view hooksBreakGraph = "TP201";
inline constexpr std::string_view wholeHead = "TP202";
inline constexpr std::string_view notChecked = "TP203";
inline constexpr std::string_view permutedSave = "TP204";
inline constexpr std::string_view scaleHidden = "TP205";
inline constexpr std::string_view wholeEmbedding = "TP206";
inline constexpr std::string_view uneven = "TP301";
inline constexpr std::string_view mostlyWhole = "TP302";
inline constexpr std::string_view epPlanUnused = "TP303";
inline constexpr std::string_view targetStyle = "TP401";
inline constexpr std::string_view targetDivides = "TP402";
} // namespace code

} // namespace tpscope
