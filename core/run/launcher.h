// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "run/runtrace.h"

namespace tpscope {

// What to start. A rank finds its place in the environment, as torchrun gives it: RANK, WORLD_SIZE, LOCAL_RANK,
// MASTER_ADDR, MASTER_PORT; and, from this launcher, TPSCOPE_RANK_CHANNEL (see RankChannelFds).
struct LaunchOptions {
    std::filesystem::path program;               // empty: the program that is running
    std::vector<std::string> arguments{"rank"};
    int ranks = 1;
    int threads = 1;                             // OMP_NUM_THREADS of a rank
    int port = 0;                                // of the meeting point on loopback; 0 any free one
    std::chrono::milliseconds timeout{600'000};  // of the whole run
    std::chrono::milliseconds stall{120'000};    // no rank does anything for so long: the run is stuck
    std::chrono::milliseconds grace{2'000};      // to end by itself after it was told to stop
    std::uint64_t eventCapacity = 0;             // events a rank keeps for the reader; 0 the default
};

// Receives what ranks say while they run. Called from the thread that called launchRanks().
class RankListener {
public:
    virtual ~RankListener() = default;
    virtual void message(int rank, const nlohmann::json &message) = 0;
    virtual void events(int rank, const std::vector<Event> &batch) = 0;
    // For messages to people: the name of a module a rank reports by index.
    virtual std::string moduleName(int module) const = 0;
};

// Descriptors a started rank inherits, in this order in TPSCOPE_RANK_CHANNEL, e.g. "3,4,5": the socket of frames, the
// board of all ranks, and the listening socket of the meeting point (rank 0 only).
struct RankChannelFds {
    static constexpr const char *variable = "TPSCOPE_RANK_CHANNEL";
    int frames = -1;
    int board = -1;
    int listener = -1;
    static std::optional<RankChannelFds> fromEnvironment();
};

// Starts options.ranks processes, sends each the request, and returns when all have ended well, which takes that every
// rank sent a frame of type "done" and ended with 0. Otherwise everything that was started is killed and the error
// names the rank at fault, its phase, the last module it entered and the end of its standard error. Nothing is left:
// no process, no port, no shared memory.
// Frames of type "error" ({"message", "code", "secondary"}) end the run; secondary: the rank only noticed that another
// one is gone.
// Errors: RunFailed, Cancelled, what an error frame says.
Result<void> launchRanks(const LaunchOptions &options, const nlohmann::json &request, RankListener &listener,
                         std::stop_token stop);

} // namespace tpscope
