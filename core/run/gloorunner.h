// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <filesystem>

#include "run/decoderunner.h"

namespace tpscope {

// Decodes on config.tp processes of this program that meet through Gloo on loopback, each with its shard of the
// weights (core/exec does the work; nothing of LibTorch is needed here). What it gives is measured. Nothing is compiled
// and backward hooks are not on the path of a decode: trace.statements says so.
class GlooRunner : public DecodeRunner {
public:
    GlooRunner() = default;
    // program: one that runs a rank when called with the argument "rank". stall: see LaunchOptions.
    explicit GlooRunner(std::filesystem::path program, std::chrono::milliseconds stall = std::chrono::seconds(120))
        : m_program(std::move(program)), m_stall(stall) {}

    // Errors, besides those of launchRanks(): Unsupported (no description of the model's flow), Usage (no prompt,
    // no or empty prompts, ids outside the vocabulary).
    Result<RunTrace> run(const RunInput &input, EventSink &sink, std::stop_token stop) override;

private:
    std::filesystem::path m_program; // empty: the one that is running
    std::chrono::milliseconds m_stall = std::chrono::seconds(120);
};

} // namespace tpscope
