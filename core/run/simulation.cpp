// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/simulation.h"

#include <algorithm>

#include "base/summary.h"

namespace tpscope {
namespace {

// Ends are rounded, not durations, so that neighbours touch and spans nest. Clocks are never negative.
std::int64_t rounded(double nanoseconds) { return static_cast<std::int64_t>(nanoseconds + 0.5); }

bool growsWithContext(const WorkItem &item) {
    return item.cacheBytesPerPosition > 0.0 || item.flopsPerPosition > 0.0;
}

} // namespace

Simulation::Simulation(const RunInput &input, const HardwareProfile &profile, EventSink &sink, std::stop_token stop)
    : m_input(input), m_config(input.config),
      m_cost(profile, input.model.dtype, input.config.collectives, input.plan.tp, input.config.compile),
      m_sink(sink), m_stop(std::move(stop)), m_moduleOf(input.model.tree.modules.size(), -1) {}

std::int32_t Simulation::moduleIndex(ModuleIndex module) {
    std::int32_t &found = m_moduleOf[module.value];
    if (found < 0) {
        found = static_cast<std::int32_t>(m_trace.moduleNames.size());
        m_trace.moduleNames.push_back(m_input.model.tree.at(module).name);
    }
    return found;
}

std::int32_t Simulation::opIndex(std::string_view op) {
    const auto it = std::ranges::find(m_trace.opNames, op);
    const auto found = static_cast<std::int32_t>(it - m_trace.opNames.begin());
    if (it == m_trace.opNames.end())
        m_trace.opNames.emplace_back(op);
    return found;
}

void Simulation::index(Part &part) {
    for (const WorkItem &item : part.work.kinds.front()) {
        part.ops.push_back(opIndex(item.op));
        moduleIndex(item.module);
    }
    for (const PlacedLaunch &launch : part.launches)
        moduleIndex(launch.module);
    for (const std::vector<WorkItem> &items : part.work.kinds) {
        std::vector<double> &fixed = part.fixed.emplace_back();
        fixed.reserve(items.size());
        for (const WorkItem &item : items)
            fixed.push_back(item.isCollective        ? m_cost.collectiveSeconds(item) * 1e9
                            : growsWithContext(item) ? -1.0
                                                     : m_cost.computeSeconds(item, 0) * 1e9);
    }
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
        m_prefill.launches = placeLaunches(m_input.model, m_prefill.work.kinds.front(), capture->prefill);
        m_step.launches = placeLaunches(m_input.model, m_step.work.kinds.front(), capture->decode);
    }
    m_launchOp = opIndex("graph_launch");
    index(m_prefill);
    index(m_step);
    m_kinds.resize(m_step.work.kinds.size());
    if (m_config.eventsWanted)
        for (int rank = 0; rank < m_input.plan.tp; ++rank)
            m_trace.ranks.push_back({rank, {}});
    return {};
}

void Simulation::add(Kind &kind, double start, const Event &event) {
    if (!m_config.eventsWanted)
        return;
    Event &added = kind.batch.emplace_back(event);
    added.start = rounded(start);
    added.duration = rounded(kind.clock) - added.start;
}

double Simulation::nanoseconds(const Part &part, std::size_t kind, std::size_t item, std::int64_t positions) const {
    const double fixed = part.fixed[kind][item];
    return fixed >= 0.0 ? fixed : m_cost.computeSeconds(part.work.kinds[kind][item], positions) * 1e9;
}

void Simulation::playOperation(const Part &part, std::size_t item, std::int64_t positions, std::int32_t token) {
    for (std::size_t k = 0; k < m_kinds.size(); ++k) {
        const double took = nanoseconds(part, k, item, positions);
        if (took <= 0.0)
            continue; // a view
        const WorkItem &work = part.work.kinds[k][item];
        const std::int32_t module = m_moduleOf[work.module.value];
        const double start = m_kinds[k].clock;
        m_kinds[k].clock += took;
        add(m_kinds[k], start, {0, 0, EventKind::Compute, token, work.layer, module, part.ops[item], 0});
        if (k == 0)
            m_now[static_cast<std::size_t>(module)].computeMs += took / 1e6;
    }
}

// Everyone waits for the last to come; then all leave together.
void Simulation::playCollective(const Part &part, std::size_t item, std::int32_t token) {
    double end = 0.0;
    for (std::size_t k = 0; k < m_kinds.size(); ++k)
        end = std::max(end, m_kinds[k].clock + part.fixed[k][item]);
    for (std::size_t k = 0; k < m_kinds.size(); ++k) {
        const WorkItem &work = part.work.kinds[k][item];
        const std::int32_t module = m_moduleOf[work.module.value];
        const double start = m_kinds[k].clock;
        m_kinds[k].clock = end;
        add(m_kinds[k], start,
            {0, 0, EventKind::Collective, token, work.layer, module, part.ops[item],
             static_cast<std::int64_t>(work.messageBytes)});
        if (k == 0)
            m_now[static_cast<std::size_t>(module)].collectiveMs += (end - start) / 1e6;
    }
}

void Simulation::playLaunch(const PlacedLaunch &launch, std::int32_t token) {
    const double took = m_cost.launchSeconds() * 1e9;
    const std::int32_t module = m_moduleOf[launch.module.value];
    for (Kind &kind : m_kinds) {
        const double start = kind.clock;
        kind.clock += took;
        add(kind, start, {0, 0, EventKind::Launch, token, launch.layer, module, m_launchOp, 0});
    }
    m_now[static_cast<std::size_t>(module)].launchMs += took / 1e6;
}

// Plays one forward and returns rank 0's milliseconds.
double Simulation::play(const Part &part, std::int64_t positions, std::int32_t token, bool measured) {
    const Event whole{0,     0,  token < 0 ? EventKind::Phase : EventKind::Token,      token, -1,
                      -1, opIndex(token < 0 ? "prefill" : "decode_step"), 0};
    std::vector<double> starts;
    for (Kind &kind : m_kinds) {
        starts.push_back(kind.clock);
        kind.batch.clear();
        add(kind, kind.clock, whole); // the enclosing span stands before what it holds; its end is filled in below
    }
    m_now.assign(m_trace.moduleNames.size(), {});
    auto launch = part.launches.begin();
    const std::vector<WorkItem> &items = part.work.kinds.front();
    for (std::size_t item = 0; item < items.size(); ++item) {
        for (; launch != part.launches.end() && launch->beforeItem <= item; ++launch)
            playLaunch(*launch, token);
        if (items[item].isCollective)
            playCollective(part, item, token);
        else
            playOperation(part, item, positions, token);
    }
    for (Kind &kind : m_kinds)
        if (!kind.batch.empty())
            kind.batch.front().duration = rounded(kind.clock) - kind.batch.front().start;
    flush();
    if (measured)
        keepModuleTimes();
    return (m_kinds.front().clock - starts.front()) / 1e6;
}

void Simulation::flush() {
    if (!m_config.eventsWanted)
        return;
    for (std::size_t rank = 0; rank < m_trace.ranks.size(); ++rank) {
        const std::vector<Event> &batch = m_kinds[m_step.work.kindOf[rank]].batch;
        m_sink.events(static_cast<int>(rank), batch);
        std::vector<Event> &kept = m_trace.ranks[rank].events;
        kept.insert(kept.end(), batch.begin(), batch.end());
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
    for (const HookSite &site : hookSites(m_input.model, m_input.plan, m_config.hooks)) {
        if (!site.registeredUnderNoGrad)
            continue;
        // A module hook is one whatever the module holds; the others sit on each parameter.
        const int hooks = site.breaksGraph ? 1 : static_cast<int>(site.parameters.size());
        m_trace.hooksRegistered += hooks;
        const std::int32_t module = moduleIndex(site.module);
        for (Kind &kind : m_kinds)
            for (int i = 0; i < hooks; ++i)
                add(kind, kind.clock, {0, 0, EventKind::HookRegistration, -1, -1, module, opIndex("hook"), 0});
    }
    flush();
    for (Kind &kind : m_kinds)
        kind.batch.clear();
}

Result<void> Simulation::decode() {
    const int steps = m_config.newTokens - 1 + m_config.warmupTokens;
    m_trace.timeToFirstTokenMs.push_back(play(m_prefill, m_prompt, -1, false));
    const int stride = std::max(1, steps / 10);
    for (int step = 0; step < steps; ++step) {
        if (m_stop.stop_requested())
            return fail(ErrorCode::Cancelled, "stopped after " + std::to_string(step) + " simulated tokens");
        const bool measured = step >= m_config.warmupTokens;
        const double milliseconds = play(m_step, m_prompt + step + 1, step, measured);
        if (measured)
            m_trace.tokenMs.push_back(milliseconds);
        // Every step but for the growing cache adds as many events.
        if (step == 0)
            for (RankTrace &rank : m_trace.ranks)
                rank.events.reserve(rank.events.size() + m_kinds.front().batch.size() * static_cast<std::size_t>(steps));
        if (step % stride == 0)
            m_sink.progress({"decode", "simulated token " + std::to_string(step + 1) + " of " + std::to_string(steps),
                             static_cast<double>(step + 1) / steps});
    }
    return {};
}

RunTrace Simulation::finish() {
    m_trace.collectives = totals(m_step.work.kinds.front(), m_prompt).collectives;
    for (std::size_t i = 0; i < m_samples.size(); ++i) {
        ModuleTime time;
        time.module = m_trace.moduleNames[i];
        time.computeMs = summarize(std::move(m_samples[i].compute)).median;
        time.collectiveMs = summarize(std::move(m_samples[i].collective)).median;
        time.launchMs = summarize(std::move(m_samples[i].launch)).median;
        if (time.computeMs + time.collectiveMs + time.launchMs > 0.0)
            m_trace.perModule.push_back(std::move(time));
    }
    return std::move(m_trace);
}

std::vector<std::string> Simulation::gaps() const { return m_cost.gaps(m_step.work.kinds.front()); }

} // namespace tpscope
