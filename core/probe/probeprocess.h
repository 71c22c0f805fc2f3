// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace tpscope {

// A program and everything it starts. Each descendant inherits a mark in its environment, so that
// killAll() also finds those that moved to a session of their own, as the ranks of torchrun do. The
// kernel kills the program when the thread that started it ends. Move-only; the destructor kills
// what is left. One thread at a time. Linux.
class ProbeProcess {
public:
    struct Options {
        std::vector<std::string> arguments;             // [0] the program, a path
        std::map<std::string, std::string> environment; // added to this process' own
        std::filesystem::path output;                   // gets stdout; empty: discarded
        std::filesystem::path errors;                   // gets stderr; empty: discarded
    };
    // Errors: RunFailed when the process cannot be made or the program cannot be run.
    static Result<ProbeProcess> start(const Options &options);

    ProbeProcess(ProbeProcess &&other) noexcept;
    ProbeProcess &operator=(ProbeProcess &&other) noexcept;
    ~ProbeProcess();

    bool running();                             // reaps it when it has ended
    int exitStatus() const { return m_status; } // 0..255, or 128 + signal; -1 while running
    // Kills the program and all its descendants and waits (up to 5 s) until none is left. Harmless
    // when all ended.
    void killAll();

private:
    ProbeProcess() = default;
    pid_t m_pid = -1; // -1: reaped
    int m_status = -1;
    std::string m_mark;
};

} // namespace tpscope
