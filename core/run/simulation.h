// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "run/decoderunner.h"
#include "run/launchplacement.h"

namespace tpscope {

// Plays decodes on the clocks of the ranks. Ranks of one kind (ForwardWork) run alike, so each kind has one clock and its
// events are given to every rank of it. One use: prepare, registerHooks, decode as often as there are repeats, finish.
class Simulation {
public:
    Simulation(const RunInput &input, const HardwareProfile &profile, EventSink &sink, std::stop_token stop);

    // capture: nullptr when nothing is compiled.
    Result<void> prepare(int batch, int promptTokens, const GraphCapture *capture);
    void registerHooks();
    Result<void> decode(); // prefill and all steps. Errors: Cancelled
    RunTrace finish();     // times, counts, modules and events; who ran it is the caller's to say

    std::vector<std::string> gaps() const; // figures the profile did not have

private:
    // A forward that can be played: its work, the launches that compiling it gives, and the time of what does not grow
    // with the context.
    struct Part {
        ForwardWork work;
        std::vector<PlacedLaunch> launches;
        std::vector<std::int32_t> ops;          // by item: index into RunTrace::opNames
        std::vector<std::vector<double>> fixed; // by kind and item: nanoseconds; negative: grows with the context
    };
    struct Kind {
        double clock = 0.0;       // nanoseconds since the run's start
        std::vector<Event> batch; // of the step being played
    };
    // Milliseconds of one module in each measured step, on rank 0.
    struct ModuleSamples {
        std::vector<double> compute;
        std::vector<double> collective;
        std::vector<double> launch;
    };

    void index(Part &part);
    double nanoseconds(const Part &part, std::size_t kind, std::size_t item, std::int64_t positions) const;
    double play(const Part &part, std::int64_t positions, std::int32_t token, bool measured);
    void playOperation(const Part &part, std::size_t item, std::int64_t positions, std::int32_t token);
    void playCollective(const Part &part, std::size_t item, std::int32_t token);
    void playLaunch(const PlacedLaunch &launch, std::int32_t token);
    void add(Kind &kind, double start, const Event &event);
    void flush();
    void keepModuleTimes();
    std::int32_t moduleIndex(ModuleIndex module);
    std::int32_t opIndex(std::string_view op);

    const RunInput &m_input;
    const RunConfig &m_config;
    CostModel m_cost;
    EventSink &m_sink;
    std::stop_token m_stop;
    RunTrace m_trace;
    Part m_prefill;
    Part m_step;
    std::int64_t m_prompt = 0;             // tokens
    std::vector<Kind> m_kinds;             // [0] is rank 0's
    std::vector<std::int32_t> m_moduleOf;  // by ModuleIndex: index into RunTrace::moduleNames, -1 not yet
    std::vector<ModuleTime> m_now;         // rank 0's times of the step being played, by trace module
    std::vector<ModuleSamples> m_samples;  // by trace module
    std::int32_t m_launchOp = -1;
};

} // namespace tpscope
