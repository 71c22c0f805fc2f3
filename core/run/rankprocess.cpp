// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/rankprocess.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tpscope {
namespace {

constexpr std::size_t tailBytes = 4096;

tl::unexpected<Error> systemError(const std::string &what, int number) {
    return fail(ErrorCode::RunFailed, what + ": " + std::strerror(number));
}

void setNonBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Reads until nothing is there. False: the other end is closed.
template <typename Take> bool drain(int fd, Take take) {
    std::array<char, 65536> buffer;
    for (;;) {
        const ssize_t got = ::read(fd, buffer.data(), buffer.size());
        if (got > 0)
            take(std::span<const char>(buffer.data(), static_cast<std::size_t>(got)));
        else if (got < 0 && errno == EINTR)
            continue;
        else
            return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    }
}

// posix_spawn's two descriptions, destroyed with their scope.
struct SpawnSettings {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    SpawnSettings() {
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
    }
    SpawnSettings(const SpawnSettings &) = delete;
    SpawnSettings &operator=(const SpawnSettings &) = delete;
    ~SpawnSettings() {
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
    }
};

void describe(SpawnSettings &settings, const ProcessStart &start, int frames, int output) {
    ::posix_spawn_file_actions_addopen(&settings.actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&settings.actions, output, 1);
    ::posix_spawn_file_actions_adddup2(&settings.actions, output, 2);
    ::posix_spawn_file_actions_adddup2(&settings.actions, frames, 3);
    int target = 4;
    for (const int fd : start.inherited)
        ::posix_spawn_file_actions_adddup2(&settings.actions, fd, target++);
    ::posix_spawnattr_setflags(&settings.attributes,
                               POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    ::posix_spawnattr_setpgroup(&settings.attributes, start.group);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&settings.attributes, &none);
    sigset_t defaults;
    ::sigemptyset(&defaults);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD})
        ::sigaddset(&defaults, number);
    ::posix_spawnattr_setsigdefault(&settings.attributes, &defaults);
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> out;
    for (std::string &text : texts)
        out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

} // namespace

OwnedFd::OwnedFd(int fd) : m_fd(fd) {
    if (fd >= 0 && fd < 64) {
        if (const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 64); high >= 0) {
            ::close(fd);
            m_fd = high;
        }
    }
}

OwnedFd::~OwnedFd() { reset(); }

void OwnedFd::reset() {
    if (m_fd >= 0)
        ::close(m_fd);
    m_fd = -1;
}

std::string ProcessEnd::text() const {
    if (signal == 0)
        return "ended with exit code " + std::to_string(code);
    return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

Result<RankProcess> RankProcess::start(const ProcessStart &start) {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        return systemError("cannot make a socket for a rank", errno);
    RankProcess child;
    child.m_frames = OwnedFd(sockets[0]);
    OwnedFd childFrames(sockets[1]);
    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0)
        return systemError("cannot make a pipe for a rank", errno);
    child.m_output = OwnedFd(pipe[0]);
    OwnedFd childOutput(pipe[1]);
    setNonBlocking(child.m_frames.get());
    setNonBlocking(child.m_output.get());

    SpawnSettings settings;
    describe(settings, start, childFrames.get(), childOutput.get());
    std::vector<std::string> arguments{start.program.string()};
    arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
    std::vector<std::string> environment = start.environment;
    const int number = ::posix_spawn(&child.m_pid, start.program.c_str(), &settings.actions, &settings.attributes,
                                     pointers(arguments).data(), pointers(environment).data());
    if (number != 0) {
        child.m_pid = -1;
        return systemError("cannot start " + start.program.string(), number);
    }
    return child;
}

RankProcess::RankProcess(RankProcess &&other) noexcept
    : m_pid(std::exchange(other.m_pid, -1)), m_frames(std::move(other.m_frames)), m_output(std::move(other.m_output)),
      m_reader(std::move(other.m_reader)), m_tail(std::move(other.m_tail)), m_end(other.m_end) {}

RankProcess::~RankProcess() {
    kill();
    if (m_pid > 0 && !m_end)
        while (::waitpid(m_pid, nullptr, 0) < 0 && errno == EINTR) {
        }
}

bool RankProcess::send(const nlohmann::json &message, std::chrono::milliseconds patience) {
    const std::string frame = encodeFrame(message);
    std::size_t sent = 0;
    while (m_frames && sent < frame.size()) {
        const ssize_t step = ::send(m_frames.get(), frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
        if (step > 0) {
            sent += static_cast<std::size_t>(step);
        } else if (step < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            pollfd wait{m_frames.get(), POLLOUT, 0};
            if (::poll(&wait, 1, static_cast<int>(patience.count())) == 0)
                return false;
        } else if (!(step < 0 && errno == EINTR)) {
            return false;
        }
    }
    return sent == frame.size();
}

Result<std::vector<nlohmann::json>> RankProcess::receive() {
    if (m_frames && !drain(m_frames.get(), [&](std::span<const char> bytes) { m_reader.feed(bytes); }))
        m_frames.reset();
    std::vector<nlohmann::json> messages;
    for (;;) {
        auto message = m_reader.next();
        if (!message)
            return tl::unexpected(message.error());
        if (!*message)
            return messages;
        messages.push_back(std::move(**message));
    }
}

void RankProcess::readOutput() {
    if (m_output && !drain(m_output.get(), [&](std::span<const char> bytes) {
            m_tail.append(bytes.data(), bytes.size());
            if (m_tail.size() > 2 * tailBytes)
                m_tail.erase(0, m_tail.size() - tailBytes);
        }))
        m_output.reset();
}

std::string RankProcess::outputTail() const {
    std::string tail = m_tail.size() > tailBytes ? m_tail.substr(m_tail.size() - tailBytes) : m_tail;
    if (tail.size() < m_tail.size())
        if (const auto line = tail.find('\n'); line != std::string::npos)
            tail.erase(0, line + 1);
    while (!tail.empty() && std::isspace(static_cast<unsigned char>(tail.back())))
        tail.pop_back();
    return tail;
}

std::optional<ProcessEnd> RankProcess::poll() {
    int status = 0;
    if (!m_end && m_pid > 0 && ::waitpid(m_pid, &status, WNOHANG) == m_pid)
        m_end = WIFSIGNALED(status) ? ProcessEnd{0, WTERMSIG(status)} : ProcessEnd{WEXITSTATUS(status), 0};
    return m_end;
}

bool RankProcess::stopped() const {
    std::ifstream stat("/proc/" + std::to_string(m_pid) + "/stat");
    std::string line;
    std::getline(stat, line);
    const auto close = line.rfind(')'); // the command name may hold anything
    return close != std::string::npos && close + 2 < line.size() && (line[close + 2] == 'T' || line[close + 2] == 't');
}

void RankProcess::kill() {
    if (m_pid > 0 && !m_end)
        ::kill(m_pid, SIGKILL);
}

} // namespace tpscope
