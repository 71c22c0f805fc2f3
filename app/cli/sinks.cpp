// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/sinks.h"

#include <cerrno>
#include <cstring>

namespace tpscope::cli {
namespace {

constexpr auto flushInterval = std::chrono::milliseconds(50);
constexpr auto showInterval = std::chrono::milliseconds(300);

nlohmann::json column(const std::vector<Event> &batch, auto member) {
    nlohmann::json out = nlohmann::json::array();
    for (const Event &event : batch)
        out.push_back(event.*member);
    return out;
}

nlohmann::json batchJson(int rank, const std::vector<Event> &batch) {
    nlohmann::json kinds = nlohmann::json::array();
    for (const Event &event : batch)
        kinds.push_back(name(event.kind));
    return {{"type", "events"},
            {"rank", rank},
            {"start_ns", column(batch, &Event::start)},
            {"duration_ns", column(batch, &Event::duration)},
            {"kind", std::move(kinds)},
            {"token", column(batch, &Event::token)},
            {"layer", column(batch, &Event::layer)},
            {"module", column(batch, &Event::module)},
            {"op", column(batch, &Event::op)},
            {"bytes", column(batch, &Event::bytes)}};
}

} // namespace

Result<std::unique_ptr<CliSink>> CliSink::open(const std::string &eventsPath, bool quiet) {
    std::FILE *file = nullptr;
    const bool toStdout = eventsPath == "-";
    if (toStdout)
        file = stdout;
    else if (!eventsPath.empty() && !(file = std::fopen(eventsPath.c_str(), "w")))
        return fail(ErrorCode::Usage, std::string("--events: cannot be created: ") + std::strerror(errno),
                    Location{eventsPath});
    std::unique_ptr<CliSink> sink(new CliSink(file, toStdout, quiet, eventsPath));
    sink->writeLocked({{"type", "header"},
                       {"version", 1},
                       {"columns", {"start_ns", "duration_ns", "kind", "token", "layer", "module", "op", "bytes"}}});
    return sink;
}

CliSink::CliSink(std::FILE *file, bool toStdout, bool quiet, std::string path)
    : m_file(file), m_stdout(toStdout), m_quiet(quiet), m_path(std::move(path)) {}

CliSink::~CliSink() {
    const std::lock_guard lock(m_mutex);
    flushLocked();
    if (m_file && !m_stdout)
        std::fclose(m_file);
}

void CliSink::progress(const Progress &progress) {
    const std::lock_guard lock(m_mutex);
    // Only what changed is worth a line to a person, and of a quick series the first line and the last.
    const std::string shown = progress.phase + ": " + progress.message;
    const auto now = std::chrono::steady_clock::now();
    const bool due = progress.phase != m_lastPhase || progress.fraction >= 1.0 || now - m_lastShown >= showInterval;
    if (!m_quiet && due && shown != m_lastLine) {
        std::fprintf(stderr, "%s\n", shown.c_str());
        m_lastShown = now;
    }
    m_lastPhase = progress.phase;
    m_lastLine = shown;
    writeLocked({{"type", "progress"},
                 {"phase", progress.phase},
                 {"message", progress.message},
                 {"fraction", progress.fraction}});
}

void CliSink::events(int rank, const std::vector<Event> &batch) {
    const std::lock_guard lock(m_mutex);
    if (!m_file)
        return;
    if (m_pending.size() <= static_cast<std::size_t>(rank))
        m_pending.resize(static_cast<std::size_t>(rank) + 1);
    auto &pending = m_pending[static_cast<std::size_t>(rank)];
    pending.insert(pending.end(), batch.begin(), batch.end());
    if (std::chrono::steady_clock::now() - m_lastFlush >= flushInterval)
        flushLocked();
}

Result<void> CliSink::finish(const nlohmann::json &result) {
    const std::lock_guard lock(m_mutex);
    flushLocked();
    nlohmann::json line = result;
    line["type"] = "result";
    writeLocked(line);
    if (m_failed)
        return fail(ErrorCode::RunFailed, "the event stream could not be written to its end", Location{m_path});
    return {};
}

void CliSink::flushLocked() {
    m_lastFlush = std::chrono::steady_clock::now();
    for (std::size_t rank = 0; rank < m_pending.size(); ++rank) {
        if (m_pending[rank].empty())
            continue;
        writeLocked(batchJson(static_cast<int>(rank), m_pending[rank]));
        m_pending[rank].clear();
    }
}

void CliSink::writeLocked(const nlohmann::json &line) {
    if (!m_file)
        return;
    const std::string text = line.dump() + "\n";
    if (std::fwrite(text.data(), 1, text.size(), m_file) != text.size() || std::fflush(m_file) != 0)
        m_failed = true;
}

} // namespace tpscope::cli
