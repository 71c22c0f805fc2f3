// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/common.h"
#include "run/runconfig.h"

namespace tpscope::cli {

// Options of a run that run and compare share.
struct RunOptions : CommonOptions {
    std::string backend = "gloo";
    std::string profile = "cpu-gloo";
    std::string collectives = "gloo";
    std::string inputIds;
    int newTokens = 16;
    int warmup = 2;
    std::uint64_t seed = 0;
    int threads = 1;
    int repeat = 1;
    int timeoutSeconds = 600;
    int port = 0;
    int recompileLimit = 8;
    bool eager = false;
    std::string compileBackend = "inductor";
    std::string events;
    bool force = false;
    bool quiet = false;
};

void addRunOptions(CLI::App &verb, RunOptions &options);

// "1,2;3,4". Errors: Usage, naming the position.
Result<std::vector<std::vector<std::int64_t>>> parseInputIds(const std::string &text, std::int64_t vocab);

Result<RunConfig> runConfigOf(const Loaded &loaded, const RunOptions &options);
// Model and plan as the backend and hook mode want them. Borrows from loaded.
RunInput runInputOf(const Loaded &loaded, RunConfig config);

} // namespace tpscope::cli
