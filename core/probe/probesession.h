// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "probe/probeprocess.h"
#include "probe/proberequest.h"
#include "run/decoderunner.h"

namespace tpscope {

// One timed generation as the probe reports it, before the result is complete.
struct ProbeRepeat {
    double firstTokenMs = 0.0;
    std::vector<double> stepMs;           // decode steps, the warm-up ones first
    std::vector<std::int64_t> startNanos; // prefill first, then the steps; since the probe's start
};

// A probe from its start to its result: a private temporary folder, torchrun in a process group of
// its own, and the progress it writes. The destructor kills whatever still runs and removes the
// folder. One thread at a time.
class ProbeSession {
public:
    // label: put before each progress message ("A: "), may be empty. Errors: those of probeRequest
    // and findPython.
    static Result<ProbeSession> start(const RunInput &input, std::string label, bool waitForGo);

    ProbeSession(ProbeSession &&other) noexcept;
    ProbeSession &operator=(ProbeSession &&) = delete;
    ~ProbeSession();

    // Reads new progress and passes it on; true while the probe runs.
    bool poll(EventSink &sink);
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
