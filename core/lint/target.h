// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace tpscope {

// What one version of a program makes of a plan's styles.
struct TargetVersion {
    std::string version; // "0.33.0"
    std::string source;  // file and function that was read
    std::vector<std::pair<std::string, std::string>> styles; // known ones, and what each does there
    std::string unknownStyle; // what becomes of any other, as the end of a sentence
    // What it cuts when it is asked for more ranks than divide it; nothing: any size works.
    std::optional<int> vocabularyPadding; // it cuts the vocabulary, padded to a multiple of this, evenly or not at all
    bool evenFeatures = false;            // sharded linear layers must be divisible
    const std::string *knows(const std::string &style) const; // what it does there; nullptr: unknown
};

// A program other than transformers that reads a model's plan: resources/targets/<name>.json. A file lists the versions
// that were looked into, newest first; one in between has the table of the next older one.
struct DeploymentTarget {
    std::string name;  // "vllm"
    std::string title; // for people: "vLLM's transformers backend"
    std::string newest; // of the file's versions
    std::vector<TargetVersion> versions; // those asked for: one, or all of the file
};

std::vector<std::string> targetNames(); // sorted

// "vllm" or "vllm@0.24.0". Errors: NotFound (names the ones there are, or the oldest version), BadInput (the file).
Result<DeploymentTarget> loadTarget(const std::string &argument);

} // namespace tpscope
