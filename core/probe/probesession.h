// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "probe/probeprocess.h"
#include "probe/proberequest.h"
#include "probe/pythonlocator.h"
#include "run/decoderunner.h"

namespace tpscope {

// One timed generation as the probe reports it, before the result is complete.
struct ProbeRepeat {
    double firstTokenMs = 0.0;
    std::vector<double> stepMs;           // decode steps, the warm-up ones first
    std::vector<std::int64_t> startNanos; // prefill first, then the steps; since the probe's start
};

// What a session starts.
struct ProbeLaunch {
    std::function<Result<nlohmann::json>(const ProbePaths &)> request; // what the script is asked
    std::string label;     // put before each progress message ("A: "), may be empty
    int torchrunRanks = 1; // 1: the script alone, which may fork ranks of its own
    int threads = 1;       // of a rank
    ProbePython python;
    std::string script = "tpscope_probe.py"; // in resources/probe; takes --request
};

// Until when somebody waits.
struct ProbeLimits {
    std::stop_token stop;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::seconds timeout; // what the deadline was made of
    static ProbeLimits from(std::stop_token stop, std::chrono::seconds timeout) {
        return {std::move(stop), std::chrono::steady_clock::now() + timeout, timeout};
    }
};

// A probe from its start to its result: a private temporary folder, torchrun in a process group of
// its own, and the progress it writes. The destructor kills whatever still runs and removes the
// folder. One thread at a time.
class ProbeSession {
public:
    // Errors: those of the request, RunFailed when the process or its folder cannot be made.
    static Result<ProbeSession> start(const ProbeLaunch &launch);
    // A measured run. label: as ProbeLaunch's. Errors: those of probeRequest and findPython.
    static Result<ProbeSession> start(const RunInput &input, std::string label, bool waitForGo);

    ProbeSession(ProbeSession &&other) noexcept;
    ProbeSession &operator=(ProbeSession &&) = delete;
    ~ProbeSession();

    // Reads new progress and passes it on; true while the probe runs.
    bool poll(EventSink &sink);
    // Polls until `reached` or the probe's end. Errors: Cancelled, RunFailed at the time-out; the
    // probe is dead then.
    Result<void> waitUntil(EventSink &sink, const ProbeLimits &limits, const std::function<bool()> &reached);
    // Permits timed repeats until `count` of them were made in all (only after start with
    // waitForGo).
    Result<void> allowRepeats(int count);
    int readyRepeat() const {
        return m_ready;
    } // index of the repeat it waits to start; -1 none yet
    const std::vector<ProbeRepeat> &repeats() const { return m_repeats; }
    const ProbePaths &paths() const { return m_paths; }

    // After poll() said false: the result, stage "done". Errors: CannotRun (rejected,
    // forward-error), BadInput (the model cannot be read), RunFailed (a rank died: which, last
    // phase and its last words).
    Result<nlohmann::json> result() const;
    // What the script left, whatever its stage. Errors: RunFailed as result().
    Result<nlohmann::json> anyResult() const;
    // The error that a result of another stage than "done" stands for.
    static Error errorOf(const nlohmann::json &result);
    // The sentence for a run that is ended from outside: where it was.
    std::string lastPhase() const;
    void kill() { m_child->killAll(); }

private:
    ProbeSession() = default;
    void readEvents(EventSink &sink);
    void readEvent(const std::string &line, EventSink &sink);

    ProbePaths m_paths;
    std::optional<ProbeProcess> m_child;
    std::string m_label;
    std::size_t m_eventsRead = 0; // bytes
    int m_ready = -1;
    std::string m_phase = "start";
    std::string m_message;
    std::vector<ProbeRepeat> m_repeats;
};

} // namespace tpscope
