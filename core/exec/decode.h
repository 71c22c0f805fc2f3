// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>

#include "exec/inference.h"

namespace tpscope {

// Logits kept on request, float32, row-major.
struct KeptLogits {
    bool wanted = false;        // the same on every rank
    std::vector<float> prefill; // [batch, tokens, vocab]
    std::vector<float> decode;  // [batch, new tokens, vocab]: row i chose new token i
    std::int64_t vocabulary = 0;
};

// What one rank measured in all repeats of a greedy decode.
struct DecodeResult {
    std::vector<std::vector<std::int64_t>> ids; // [batch][new tokens]
    std::vector<double> firstTokenMs;           // one a repeat: prefill and choice of the first token
    std::vector<double> tokenMs;                // measured decode steps
    std::map<std::string, CollectiveCount> collectives; // of one decode step
    std::vector<ModuleTime> modules;            // medians over the measured steps, in call order
    std::vector<float> lastLogits;              // [batch, vocab] of the last new token
    bool cancelled = false;
};

// How the decode speaks with the outside between its timed steps.
struct DecodeCallbacks {
    std::function<bool()> stopWanted = [] { return false; };           // asked of every rank, before each step
    std::function<void(int done, int all)> progress = [](int, int) {}; // decode steps
};

// Names of Event::module: the tree's modules, then the fused products.
std::vector<std::string> eventModuleNames(const ExecutionModel &model);

// Greedy decode of config.inputIds, config.repeat times. The first new token comes from the prefill; then follow
// warmupTokens steps that are not counted and newTokens that are. Of all these tokens the first newTokens are the
// result; end-of-sequence ids are not looked at. Ranks wait for each other before each step, outside of what is timed.
// Throws std::runtime_error where a forward fails.
DecodeResult decode(const ExecutionModel &model, const RunConfig &config, const RunClock &clock, RankPage page,
                    KeptLogits &logits, const DecodeCallbacks &callbacks);

} // namespace tpscope
