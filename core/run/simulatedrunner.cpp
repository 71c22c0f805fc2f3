// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/simulatedrunner.h"

#include <algorithm>
#include <cmath>

#include "base/summary.h"
#include "run/launchplacement.h"
#include "run/predictedgraphs.h"
#include "run/simulatedtrace.h"

namespace tpscope {
namespace {

// A forward that can be played: its work, and the launches that compiling it gives.
struct Part {
    ForwardWork work;
    std::vector<PlacedLaunch> launches;
    std::vector<std::int32_t> ops; // by item: index into RunTrace::opNames
};

// Milliseconds of one module in each measured step, on rank 0.
struct ModuleSamples {
    std::vector<double> compute;
    std::vector<double> collective;
    std::vector<double> launch;
};

class Simulation {
public:
    Simulation(const RunInput &input, const HardwareProfile &profile, EventSink &sink, std::stop_token stop)
        : m_input(input), m_config(input.config),
          m_cost(profile, input.model.dtype, input.config.collectives, input.plan.tp, input.config.compile),
          m_sink(sink), m_stop(std::move(stop)), m_clock(static_cast<std::size_t>(input.plan.tp), 0.0),
          m_batch(static_cast<std::size_t>(input.plan.tp)), m_moduleOf(input.model.tree.modules.size(), -1) {}

    Result<void> prepare(int batch, int promptTokens, const GraphCapture *capture);
    void registerHooks();
    Result<void> decode(); // one whole decode: prefill and all steps
    RunTrace finish();

    RunTrace trace;
    std::vector<std::string> gaps() const { return m_cost.gaps(m_step.work.items.front()); }

private:
    double play(const Part &part, std::int64_t positions, std::int32_t token, bool measured);
    void playOperation(const Part &part, std::size_t item, std::int64_t positions, std::int32_t token);
    void playCollective(const Part &part, std::size_t item, std::int32_t token);
    void playLaunch(const PlacedLaunch &launch, std::int32_t token);
    void add(std::size_t rank, double start, EventKind kind, std::int32_t token, const WorkItem *item,
             std::int32_t module, std::int32_t op);
    void flush();
    void keepModuleTimes();
    std::int32_t moduleIndex(ModuleIndex module);
    std::int32_t opIndex(std::string_view op);
    void indexOps(Part &part);

    const RunInput &m_input;
    const RunConfig &m_config;
    CostModel m_cost;
    EventSink &m_sink;
    std::stop_token m_stop;
    Part m_prefill;
    Part m_step;
    std::int64_t m_prompt = 0;
    std::vector<double> m_clock;               // nanoseconds, by rank
    std::vector<std::vector<Event>> m_batch;   // by rank, of the step being played
    std::vector<std::int32_t> m_moduleOf;      // by ModuleIndex: index into trace.moduleNames
    std::vector<ModuleTime> m_now;             // rank 0's times of the step being played, by trace module
    std::vector<ModuleSamples> m_samples;      // by trace module
};

std::int32_t Simulation::moduleIndex(ModuleIndex module) {
    std::int32_t &index = m_moduleOf[module.value];
    if (index < 0) {
        index = static_cast<std::int32_t>(trace.moduleNames.size());
        trace.moduleNames.push_back(m_input.model.tree.at(module).name);
    }
    return index;
}

std::int32_t Simulation::opIndex(std::string_view op) {
    const auto it = std::ranges::find(trace.opNames, op);
    if (it == trace.opNames.end())
        trace.opNames.emplace_back(op);
    return static_cast<std::int32_t>(it - trace.opNames.begin());
}

void Simulation::indexOps(Part &part) {
    for (const WorkItem &item : part.work.items.front()) {
        part.ops.push_back(opIndex(item.op));
        moduleIndex(item.module);
    }
    for (const PlacedLaunch &launch : part.launches)
        moduleIndex(launch.module);
}

Result<void> Simulation::prepare(int batch, int promptTokens, const GraphCapture *capture) {
    m_prompt = promptTokens;
    auto prefill = forwardWork(m_input.model, m_input.plan, batch, promptTokens);
    if (!prefill)
        return tl::unexpected(prefill.error());
    auto step = forwardWork(m_input.model, m_input.plan, batch, 1);
    if (!step)
        return tl::unexpected(step.error());
    m_prefill.work = std::move(*prefill);
    m_step.work = std::move(*step);
    if (capture) {
        m_prefill.launches = placeLaunches(m_input.model, m_prefill.work.items.front(), capture->prefill);
        m_step.launches = placeLaunches(m_input.model, m_step.work.items.front(), capture->decode);
    }
    indexOps(m_prefill);
    indexOps(m_step);
    if (m_config.eventsWanted)
        for (int rank = 0; rank < m_input.plan.tp; ++rank)
            trace.ranks.push_back({rank, {}});
    return {};
}

void Simulation::add(std::size_t rank, double start, EventKind kind, std::int32_t token, const WorkItem *item,
                     std::int32_t module, std::int32_t op) {
    if (!m_config.eventsWanted)
        return;
    // Ends are rounded, not durations, so that neighbours touch and spans nest.
    Event event;
    event.start = std::llround(start);
    event.duration = std::llround(m_clock[rank]) - event.start;
    event.kind = kind;
    event.token = token;
    event.layer = item ? item->layer : -1;
    event.module = module;
    event.op = op;
    event.bytes = item && item->isCollective ? static_cast<std::int64_t>(item->messageBytes) : 0;
    m_batch[rank].push_back(event);
}

void Simulation::playOperation(const Part &part, std::size_t item, std::int64_t positions, std::int32_t token) {
    for (std::size_t rank = 0; rank < m_clock.size(); ++rank) {
        const WorkItem &work = part.work.items[rank][item];
        const double start = m_clock[rank];
        const double nanoseconds = m_cost.computeSeconds(work, positions) * 1e9;
        if (nanoseconds <= 0.0)
            continue; // a view
        m_clock[rank] += nanoseconds;
        const std::int32_t module = m_moduleOf[work.module.value];
        add(rank, start, EventKind::Compute, token, &work, module, part.ops[item]);
        if (rank == 0)
            m_now[static_cast<std::size_t>(module)].computeMs += nanoseconds / 1e6;
    }
}

// Everyone waits for the last to come; then all leave together.
void Simulation::playCollective(const Part &part, std::size_t item, std::int32_t token) {
    double end = 0.0;
    for (std::size_t rank = 0; rank < m_clock.size(); ++rank)
        end = std::max(end, m_clock[rank] + m_cost.collectiveSeconds(part.work.items[rank][item]) * 1e9);
    for (std::size_t rank = 0; rank < m_clock.size(); ++rank) {
        const WorkItem &work = part.work.items[rank][item];
        const double start = m_clock[rank];
        m_clock[rank] = end;
        const std::int32_t module = m_moduleOf[work.module.value];
        add(rank, start, EventKind::Collective, token, &work, module, part.ops[item]);
        if (rank == 0)
            m_now[static_cast<std::size_t>(module)].collectiveMs += (end - start) / 1e6;
    }
}

void Simulation::playLaunch(const PlacedLaunch &launch, std::int32_t token) {
    const double nanoseconds = m_cost.launchSeconds() * 1e9;
    const std::int32_t module = m_moduleOf[launch.module.value];
    const std::int32_t op = opIndex("graph_launch");
    for (std::size_t rank = 0; rank < m_clock.size(); ++rank) {
        const double start = m_clock[rank];
        m_clock[rank] += nanoseconds;
        add(rank, start, EventKind::Launch, token, nullptr, module, op);
    }
    m_now[static_cast<std::size_t>(module)].launchMs += nanoseconds / 1e6;
}

// Plays one forward and returns rank 0's milliseconds.
double Simulation::play(const Part &part, std::int64_t positions, std::int32_t token, bool measured) {
    const std::vector<double> start = m_clock;
    m_now.assign(trace.moduleNames.size(), {});
    for (std::vector<Event> &batch : m_batch) { // the enclosing span comes before what it holds
        batch.clear();
        batch.emplace_back();
    }
    auto launch = part.launches.begin();
    const std::vector<WorkItem> &items = part.work.items.front();
    for (std::size_t item = 0; item < items.size(); ++item) {
        for (; launch != part.launches.end() && launch->beforeItem <= item; ++launch)
            playLaunch(*launch, token);
        if (items[item].isCollective)
            playCollective(part, item, token);
        else
            playOperation(part, item, positions, token);
    }
    for (std::size_t rank = 0; rank < m_clock.size(); ++rank) {
        add(rank, start[rank], token < 0 ? EventKind::Phase : EventKind::Token, token, nullptr, -1,
            opIndex(token < 0 ? "prefill" : "decode_step"));
        if (m_config.eventsWanted) {
            m_batch[rank].front() = m_batch[rank].back();
            m_batch[rank].pop_back();
        }
    }
    flush();
    if (measured)
        keepModuleTimes();
    return (m_clock[0] - start[0]) / 1e6;
}

void Simulation::flush() {
    if (!m_config.eventsWanted)
        return;
    for (std::size_t rank = 0; rank < m_batch.size(); ++rank) {
        m_sink.events(static_cast<int>(rank), m_batch[rank]);
        std::vector<Event> &kept = trace.ranks[rank].events;
        kept.insert(kept.end(), m_batch[rank].begin(), m_batch[rank].end());
    }
}

void Simulation::keepModuleTimes() {
    m_samples.resize(m_now.size());
    for (std::size_t i = 0; i < m_now.size(); ++i) {
        m_samples[i].compute.push_back(m_now[i].computeMs);
        m_samples[i].collective.push_back(m_now[i].collectiveMs);
        m_samples[i].launch.push_back(m_now[i].launchMs);
    }
}

void Simulation::registerHooks() {
    const auto sites = hookSites(m_input.model, m_input.plan, m_config.hooks);
    for (std::vector<Event> &batch : m_batch)
        batch.clear();
    for (const HookSite &site : sites) {
        if (!site.registeredUnderNoGrad)
            continue;
        // A module hook is one whatever the module holds; the others sit on each parameter.
        const int hooks = site.breaksGraph ? 1 : static_cast<int>(site.parameters.size());
        trace.hooksRegistered += hooks;
        for (std::size_t rank = 0; rank < m_clock.size(); ++rank)
            for (int i = 0; i < hooks; ++i)
                add(rank, m_clock[rank], EventKind::HookRegistration, -1, nullptr, moduleIndex(site.module),
                    opIndex("hook"));
    }
    flush();
}

Result<void> Simulation::decode() {
    const int steps = m_config.newTokens - 1 + m_config.warmupTokens;
    trace.timeToFirstTokenMs.push_back(play(m_prefill, m_prompt, -1, false));
    const int stride = std::max(1, steps / 10);
    for (int step = 0; step < steps; ++step) {
        if (m_stop.stop_requested())
            return fail(ErrorCode::Cancelled, "stopped after " + std::to_string(step) + " simulated tokens");
        const bool measured = step >= m_config.warmupTokens;
        const double milliseconds = play(m_step, m_prompt + step + 1, step, measured);
        if (measured)
            trace.tokenMs.push_back(milliseconds);
        if (step % stride == 0)
            m_sink.progress({"decode", "simulated token " + std::to_string(step + 1) + " of " + std::to_string(steps),
                             static_cast<double>(step + 1) / steps});
    }
    return {};
}

RunTrace Simulation::finish() {
    trace.collectives = totals(m_step.work.items.front(), m_prompt).collectives;
    for (std::size_t i = 0; i < m_samples.size(); ++i) {
        ModuleTime time;
        time.module = trace.moduleNames[i];
        time.computeMs = summarize(std::move(m_samples[i].compute)).median;
        time.collectiveMs = summarize(std::move(m_samples[i].collective)).median;
        time.launchMs = summarize(std::move(m_samples[i].launch)).median;
        if (time.computeMs + time.collectiveMs + time.launchMs > 0.0)
            trace.perModule.push_back(std::move(time));
    }
    return std::move(trace);
}

// The prompts' shape; 8 tokens, as graph capture assumes, when none is given.
Result<std::pair<int, int>> promptShape(const RunConfig &config) {
    if (config.inputIds.empty())
        return std::pair{1, CaptureOptions{}.prefillTokens};
    const std::size_t tokens = config.inputIds.front().size();
    for (const auto &row : config.inputIds)
        if (row.size() != tokens || tokens == 0)
            return fail(ErrorCode::Usage, "the prompts of a batch must have one length of at least 1 token; found " +
                                              std::to_string(tokens) + " and " + std::to_string(row.size()));
    return std::pair{static_cast<int>(config.inputIds.size()), static_cast<int>(tokens)};
}

Result<std::optional<GraphCapture>> captureFor(const RunInput &input, const HardwareProfile &profile) {
    if (!input.config.compile)
        return std::nullopt;
    CaptureOptions options;
    options.upstream = input.config.upstream;
    options.recompileLimit = profile.recompileLimit ? static_cast<int>(profile.recompileLimit->value)
                                                    : input.config.recompileLimit;
    auto capture = captureGraphs(input.model, input.plan, input.config.hooks, options);
    if (!capture)
        return tl::unexpected(capture.error());
    return std::optional(std::move(*capture));
}

} // namespace

Result<RunTrace> SimulatedRunner::run(const RunInput &input, EventSink &sink, std::stop_token stop) {
    const RunConfig &config = input.config;
    const auto profile = loadProfile(config.profile);
    if (!profile)
        return tl::unexpected(profile.error());
    const auto prompt = promptShape(config);
    if (!prompt)
        return tl::unexpected(prompt.error());
    const auto capture = captureFor(input, *profile);
    if (!capture)
        return tl::unexpected(capture.error());

    Simulation simulation(input, *profile, sink, stop);
    const auto [batch, tokens] = *prompt;
    if (const auto ready = simulation.prepare(batch, tokens, *capture ? &**capture : nullptr); !ready)
        return tl::unexpected(ready.error());
    simulation.registerHooks();
    for (int repeat = 0; repeat < config.repeat; ++repeat)
        if (const auto decoded = simulation.decode(); !decoded)
            return tl::unexpected(decoded.error());

    const std::vector<std::string> gaps = simulation.gaps();
    RunTrace trace = simulation.finish();
    trace.backend = Backend::Simulated;
    trace.source = Source::Simulated;
    trace.tp = input.plan.tp;
    trace.hooks = config.hooks;
    trace.collectivesKind = config.collectives;
    if (*capture) {
        trace.graphs = graphNumbers(**capture);
        trace.launchesPerToken = (*capture)->decode.launches;
    }
    std::vector<std::string> outside = extrapolations(*profile, input, batch, trace.launchesPerToken);
    outside.insert(outside.end(), gaps.begin(), gaps.end());
    trace.statements = profileStatements(*profile);
    trace.statements.insert(trace.statements.end(), outside.begin(), outside.end());
    trace.environment = simulatedEnvironment(*profile, input, outside);
    return trace;
}

} // namespace tpscope
