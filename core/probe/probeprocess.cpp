// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/probeprocess.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

extern char **environ;

namespace tpscope {
namespace fs = std::filesystem;

namespace {

constexpr auto kMarkName = "TPSCOPE_CHILD_MARK=";

std::string newMark() {
    static std::atomic<unsigned> counter{0};
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    return kMarkName + std::to_string(::getpid()) + "-" + std::to_string(now) + "-" +
           std::to_string(counter++);
}

std::vector<std::string> environmentWith(const std::map<std::string, std::string> &added,
                                         const std::string &mark) {
    std::vector<std::string> all;
    for (char **entry = environ; *entry; ++entry) {
        const std::string text = *entry;
        if (!added.contains(text.substr(0, text.find('='))) && text.rfind(kMarkName, 0) != 0)
            all.push_back(text);
    }
    for (const auto &[key, value] : added)
        all.push_back(key + "=" + value);
    all.push_back(mark);
    return all;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> found;
    for (std::string &text : texts)
        found.push_back(text.data());
    found.push_back(nullptr);
    return found;
}

int openForWriting(const fs::path &path) {
    const char *name = path.empty() ? "/dev/null" : path.c_str();
    return ::open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

// What runs between fork and exec: async-signal-safe calls only, since other threads may hold
// locks.
[[noreturn]] void becomeProgram(char *const *arguments, char *const *environment, int out, int err,
                                int report, pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent)
        ::_exit(127);
    const int in = ::open("/dev/null", O_RDONLY);
    if (in >= 0 && ::dup2(in, 0) >= 0 && ::dup2(out, 1) >= 0 && ::dup2(err, 2) >= 0)
        ::execve(arguments[0], arguments, environment);
    const int why = errno;
    [[maybe_unused]] const auto written = ::write(report, &why, sizeof why);
    ::_exit(127);
}

std::vector<pid_t> marked(const std::string &mark) {
    std::vector<pid_t> found;
    std::error_code ec;
    for (fs::directory_iterator it("/proc", ec), end; !ec && it != end; it.increment(ec)) {
        const std::string name = it->path().filename();
        if (!std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }))
            continue;
        std::ifstream file(it->path() / "environ", std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        // The entry ends with NUL: a longer mark of another child is none of ours.
        if (bytes.find(mark + '\0') != std::string::npos)
            found.push_back(static_cast<pid_t>(std::stol(name)));
    }
    return found;
}

} // namespace

Result<ProbeProcess> ProbeProcess::start(const Options &options) {
    ProbeProcess child;
    child.m_mark = newMark();
    std::vector<std::string> arguments = options.arguments;
    std::vector<std::string> environment = environmentWith(options.environment, child.m_mark);
    const std::vector<char *> argv = pointers(arguments), envp = pointers(environment);
    const int out = openForWriting(options.output), err = openForWriting(options.errors);
    int report[2] = {-1, -1};
    const auto closeAll = [&] {
        for (const int fd : {out, err, report[0], report[1]})
            if (fd >= 0)
                ::close(fd);
    };
    if (out < 0 || err < 0 || ::pipe2(report, O_CLOEXEC) != 0) {
        const std::string why = std::strerror(errno);
        closeAll();
        return fail(ErrorCode::RunFailed,
                    "cannot prepare to start " + options.arguments[0] + ": " + why);
    }
    const pid_t parent = ::getpid();
    child.m_pid = ::fork();
    if (child.m_pid == 0)
        becomeProgram(argv.data(), envp.data(), out, err, report[1], parent);
    ::close(std::exchange(report[1], -1));
    int why = child.m_pid < 0 ? errno : 0;
    if (child.m_pid > 0) {
        ::setpgid(child.m_pid, child.m_pid); // whichever of the two comes first
        while (::read(report[0], &why, sizeof why) < 0 && errno == EINTR) {
        }
    }
    closeAll();
    if (why != 0)
        return fail(ErrorCode::RunFailed,
                    "cannot start " + options.arguments[0] + ": " + std::strerror(why));
    return child;
}

ProbeProcess::ProbeProcess(ProbeProcess &&other) noexcept
    : m_pid(std::exchange(other.m_pid, -1)), m_status(other.m_status),
      m_mark(std::exchange(other.m_mark, {})) {}

ProbeProcess &ProbeProcess::operator=(ProbeProcess &&other) noexcept {
    if (this != &other) {
        killAll();
        m_pid = std::exchange(other.m_pid, -1);
        m_status = other.m_status;
        m_mark = std::exchange(other.m_mark, {});
    }
    return *this;
}

ProbeProcess::~ProbeProcess() { killAll(); }

bool ProbeProcess::running() {
    if (m_pid < 0)
        return false;
    int status = 0;
    const pid_t ended = ::waitpid(m_pid, &status, WNOHANG);
    if (ended == 0)
        return true;
    m_status = ended < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    m_pid = -1;
    return false;
}

void ProbeProcess::killAll() {
    if (m_mark.empty())
        return;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (std::chrono::steady_clock::now() < deadline) {
        // The program first: it must not start anything new for what is killed below it.
        if (m_pid > 0)
            ::kill(-m_pid, SIGKILL);
        const std::vector<pid_t> left = marked(m_mark);
        for (const pid_t pid : left)
            ::kill(pid, SIGKILL);
        if (!running() && left.empty())
            break;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    m_mark.clear();
}

} // namespace tpscope
