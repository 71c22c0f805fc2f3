// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "run/decoderunner.h"

namespace tpscope::cli {

// Writes progress as lines on stderr and, when asked, everything as NDJSON: a header line, then batches at most 20 a
// second, then the result. Thread-safe.
//   {"type":"header","version":1,"columns":["start_ns","duration_ns","kind","token","layer","module","op","bytes"]}
//   {"type":"progress","phase":"decode","message":"...","fraction":0.5}
//   {"type":"events","rank":0,"start_ns":[..],"duration_ns":[..],...}
//   {"type":"result", ...}           what `tpscope run --format json` prints
class CliSink : public EventSink {
public:
    // eventsPath: "" none, "-" standard output, else a file.
    static Result<std::unique_ptr<CliSink>> open(const std::string &eventsPath, bool quiet);
    ~CliSink() override;

    void progress(const Progress &progress) override;
    void events(int rank, const std::vector<Event> &batch) override;
    // Flushes what is pending and writes the last line.
    Result<void> finish(const nlohmann::json &result);
    bool streamsToStdout() const { return m_stdout; }

private:
    CliSink(std::FILE *file, bool toStdout, bool quiet, std::string path);
    void flushLocked();
    void writeLocked(const nlohmann::json &line);

    std::mutex m_mutex;
    std::FILE *m_file = nullptr; // nullptr: no stream
    bool m_stdout = false;
    bool m_quiet = false;
    bool m_failed = false;
    std::string m_path;
    std::string m_lastPhase;
    std::string m_lastLine;
    std::chrono::steady_clock::time_point m_lastShown;
    std::vector<std::vector<Event>> m_pending; // by rank
    std::chrono::steady_clock::time_point m_lastFlush{};
};

} // namespace tpscope::cli
