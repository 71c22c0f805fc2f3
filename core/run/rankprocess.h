// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/error.h"
#include "run/rankchannel.h"

namespace tpscope {

// A file descriptor that is closed with its owner. Made high (64 on) and close-on-exec, so that a child's 3, 4, 5 never
// collide with it.
class OwnedFd {
public:
    OwnedFd() = default;
    explicit OwnedFd(int fd);
    OwnedFd(OwnedFd &&other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    OwnedFd &operator=(OwnedFd &&other) noexcept {
        std::swap(m_fd, other.m_fd);
        return *this;
    }
    ~OwnedFd();
    int get() const { return m_fd; }
    explicit operator bool() const { return m_fd >= 0; }
    void reset();

private:
    int m_fd = -1;
};

// How a process ended: by an exit code or a signal.
struct ProcessEnd {
    int code = 0;
    int signal = 0; // 0: none
    std::string text() const; // "ended with exit code 3", "was killed by signal 9 (Killed)"
};

struct ProcessStart {
    std::filesystem::path program;
    std::vector<std::string> arguments;
    std::vector<std::string> environment; // complete, "NAME=value"
    pid_t group = 0;                      // process group to join; 0: a new one of its own
    std::vector<int> inherited;           // descriptors the child sees as 4, 5, ...; 3 is its socket of frames
};

// One started process with its socket of frames and its standard output and error. Destruction kills and reaps it.
class RankProcess {
public:
    static Result<RankProcess> start(const ProcessStart &start);
    RankProcess(RankProcess &&) noexcept;
    RankProcess &operator=(RankProcess &&) = delete;
    ~RankProcess();

    pid_t pid() const { return m_pid; }
    int framesFd() const { return m_frames.get(); } // -1 once closed
    int outputFd() const { return m_output.get(); } // -1 once closed

    // Sends one frame. False when the child does not take it: it is gone, or reads nothing for so long.
    bool send(const nlohmann::json &message, std::chrono::milliseconds patience);
    // Reads what has arrived without waiting. Error: BadInput, garbage instead of frames.
    Result<std::vector<nlohmann::json>> receive();
    void readOutput();
    std::string outputTail() const; // the last whole lines of standard output and error
    std::optional<ProcessEnd> poll(); // how it ended, if it has; reaps it
    bool stopped() const;             // by a signal such as SIGSTOP
    void kill();

private:
    RankProcess() = default;
    pid_t m_pid = -1;
    OwnedFd m_frames;
    OwnedFd m_output;
    FrameReader m_reader;
    std::string m_tail;
    std::optional<ProcessEnd> m_end;
};

} // namespace tpscope
