// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "run/rankprocess.h"

extern char **environ;

namespace tpscope {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds tick{50};        // events are read so often, which also bounds how late an end is noticed
constexpr milliseconds startPatience{60'000}; // until a process that just started reads its request
constexpr milliseconds afterFailure{400}; // how long to wait for other ranks to say more after the first failed

Result<OwnedFd> listenOnLoopback(int port, int &chosen) {
    OwnedFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof address;
    if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr *>(&address), size) != 0 || ::listen(fd.get(), 1024) != 0 ||
        ::getsockname(fd.get(), reinterpret_cast<sockaddr *>(&address), &size) != 0) {
        const std::string where = "port " + std::to_string(port) + " on 127.0.0.1";
        if (errno == EADDRINUSE)
            return fail(ErrorCode::RunFailed,
                        where + " is taken by another program; give another port, or none and any free one is used");
        return fail(ErrorCode::RunFailed, "cannot listen on " + where + ": " + std::strerror(errno));
    }
    chosen = ntohs(address.sin_port);
    return fd;
}

std::vector<std::string> environmentOf(const LaunchOptions &options, int rank, int port) {
    const std::string threads = std::to_string(options.threads);
    std::vector<std::pair<std::string, std::string>> own{
        {"RANK", std::to_string(rank)},
        {"LOCAL_RANK", std::to_string(rank)},
        {"WORLD_SIZE", std::to_string(options.ranks)},
        {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", std::to_string(port)},
        {RankChannelFds::variable, rank == 0 ? "3,4,5" : "3,4"},
        {"TPSCOPE_PARENT", std::to_string(::getpid())},
        // Read once by the thread pools of LibTorch, before any of its functions could say so.
        {"OMP_NUM_THREADS", threads},
        {"MKL_NUM_THREADS", threads},
    };
    if (!std::getenv("TORCH_CPP_LOG_LEVEL"))
        own.emplace_back("TORCH_CPP_LOG_LEVEL", "ERROR"); // else c10d warns of every peer that ends
    std::vector<std::string> out;
    for (char **entry = environ; *entry; ++entry) {
        const std::string_view text(*entry);
        const std::string_view key = text.substr(0, text.find('='));
        if (std::ranges::none_of(own, [&](const auto &pair) { return pair.first == key; }))
            out.emplace_back(text);
    }
    for (const auto &[key, value] : own)
        out.push_back(key + "=" + value);
    return out;
}

// A rank while it runs, and what went wrong with it.
struct Running {
    Running(RankProcess started, RankPage shared) : process(std::move(started)), page(shared) {}
    RankProcess process;
    RankPage page;
    std::uint64_t eventsRead = 0;
    std::uint64_t beat = 0;
    Clock::time_point alive = Clock::now();
    bool done = false;
    std::optional<ProcessEnd> end;
    std::optional<Error> said; // its own error frame
    bool secondary = false;
    std::string garbage;

    bool failed() const { return said || !garbage.empty() || (end && (end->signal != 0 || end->code != 0 || !done)); }
};

class Launch {
public:
    Launch(const LaunchOptions &options, RankListener &listener) : m_options(options), m_listener(listener) {}
    ~Launch() { killAll(); }

    Result<void> start(const nlohmann::json &request);
    Result<void> watch(std::stop_token stop);

private:
    void wait(int wake);
    void pump(Running &rank, int index);
    void take(Running &rank, int index, const nlohmann::json &message);
    void readEvents();
    bool allEnded() const;
    void killAll();
    Result<void> fallOut(const std::string &because, const Running *culprit);
    const Running *firstFailed() const;
    const Running *stalled(Clock::time_point now);
    const Running *slowest() const;
    std::string where(const Running &rank) const;
    int indexOf(const Running &rank) const { return static_cast<int>(&rank - m_ranks.data()); }
    std::string nameOf(const Running &rank) const {
        return "rank " + std::to_string(indexOf(rank)) + " of " + std::to_string(m_options.ranks);
    }

    const LaunchOptions &m_options;
    RankListener &m_listener;
    std::optional<RankBoard> m_board;
    std::vector<Running> m_ranks;
    pid_t m_group = 0;
    Clock::time_point m_started = Clock::now();
    std::uint64_t m_lost = 0;
};

Result<void> Launch::start(const nlohmann::json &request) {
    int port = 0;
    auto listening = listenOnLoopback(m_options.port, port);
    if (!listening)
        return tl::unexpected(listening.error());
    auto board = RankBoard::create(m_options.ranks,
                                   m_options.eventCapacity ? m_options.eventCapacity : RankBoard::defaultCapacity);
    if (!board)
        return tl::unexpected(board.error());
    m_board.emplace(std::move(*board));
    OwnedFd boardFd(::fcntl(m_board->fd(), F_DUPFD_CLOEXEC, 64));
    ProcessStart start;
    start.program = m_options.program;
    std::error_code ec;
    if (start.program.empty())
        start.program = std::filesystem::read_symlink("/proc/self/exe", ec);
    start.arguments = m_options.arguments;
    m_ranks.reserve(static_cast<std::size_t>(m_options.ranks));
    for (int rank = 0; rank < m_options.ranks; ++rank) {
        start.environment = environmentOf(m_options, rank, port);
        start.inherited = {boardFd.get()};
        if (rank == 0)
            start.inherited.push_back(listening->get());
        start.group = m_group;
        auto process = RankProcess::start(start);
        if (!process)
            return tl::unexpected(process.error());
        if (m_group == 0)
            m_group = process->pid();
        m_ranks.emplace_back(std::move(*process), m_board->page(rank));
        m_ranks.back().process.send(request, startPatience); // one that is gone already is noticed by watch()
    }
    return {};
}

Result<void> Launch::watch(std::stop_token stop) {
    const OwnedFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    const std::stop_callback onStop(stop, [&] {
        const std::uint64_t one = 1;
        [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
    });
    std::optional<Clock::time_point> stopping;
    std::optional<Clock::time_point> failing;
    for (;;) {
        wait(stopping ? -1 : wake.get());
        for (std::size_t i = 0; i < m_ranks.size(); ++i)
            pump(m_ranks[i], static_cast<int>(i));
        readEvents();
        const auto now = Clock::now();
        const bool ended = allEnded();
        if (stop.stop_requested() && !stopping) {
            stopping = now;
            for (Running &rank : m_ranks)
                rank.process.send({{"type", "cancel"}}, milliseconds(0));
        }
        if (stopping && (ended || now - *stopping > m_options.grace)) {
            killAll();
            readEvents();
            return fail(ErrorCode::Cancelled, "the run was stopped");
        }
        const Running *bad = firstFailed();
        if (!bad && ended)
            return {};
        if (bad && !failing)
            failing = now;
        if (failing && !stopping && (ended || now - *failing > afterFailure))
            return fallOut("", firstFailed());
        if (stopping || failing)
            continue;
        if (now - m_started > m_options.timeout)
            return fallOut("the run took longer than " +
                               std::to_string(std::chrono::duration_cast<std::chrono::seconds>(m_options.timeout).count()) +
                               " s",
                           slowest());
        if (const Running *stuck = stalled(now))
            return fallOut("nothing happened for " +
                               std::to_string(std::chrono::duration_cast<std::chrono::seconds>(m_options.stall).count()) +
                               " s",
                           stuck);
    }
}

void Launch::wait(int wake) {
    std::vector<pollfd> fds;
    if (wake >= 0)
        fds.push_back({wake, POLLIN, 0});
    for (const Running &rank : m_ranks)
        for (const int fd : {rank.process.framesFd(), rank.process.outputFd()})
            if (fd >= 0)
                fds.push_back({fd, POLLIN, 0});
    // A closed socket comes a moment before the process can be reaped: don't sleep the whole tick then.
    const bool ending = std::ranges::any_of(m_ranks, [](const Running &rank) {
        return rank.process.framesFd() < 0 && !rank.end;
    });
    ::poll(fds.data(), fds.size(), ending ? 5 : static_cast<int>(tick.count()));
}

void Launch::pump(Running &rank, int index) {
    if (!rank.end)
        rank.end = rank.process.poll(); // before reading: what it wrote before it ended is then all there
    rank.process.readOutput();
    if (!rank.garbage.empty())
        return;
    const auto messages = rank.process.receive();
    if (!messages) {
        rank.garbage = messages.error().message;
        return;
    }
    for (const nlohmann::json &message : *messages)
        take(rank, index, message);
}

void Launch::take(Running &rank, int index, const nlohmann::json &message) {
    const auto &type = message["type"].get_ref<const std::string &>();
    if (type == "done") {
        rank.done = true;
    } else if (type == "error") {
        const auto text = message.find("message");
        const auto code = message.find("code");
        Error error;
        error.code = ErrorCode::RunFailed;
        if (text != message.end() && text->is_string())
            error.message = text->get<std::string>();
        if (code != message.end() && code->is_number_integer() && code->get<int>() >= 0 &&
            code->get<int>() <= static_cast<int>(ErrorCode::Cancelled))
            error.code = static_cast<ErrorCode>(code->get<int>());
        rank.said = std::move(error);
        rank.secondary = message.value("secondary", nlohmann::json(false)) == true;
    } else {
        m_listener.message(index, message);
    }
}

void Launch::readEvents() {
    for (std::size_t i = 0; i < m_ranks.size(); ++i) {
        std::vector<Event> batch;
        m_ranks[i].eventsRead = m_ranks[i].page.read(m_ranks[i].eventsRead, batch, m_lost);
        if (!batch.empty())
            m_listener.events(static_cast<int>(i), batch);
    }
}

bool Launch::allEnded() const {
    return std::ranges::all_of(m_ranks, [](const Running &rank) { return rank.end.has_value(); });
}

void Launch::killAll() {
    for (Running &rank : m_ranks)
        rank.process.kill();
    // Whatever a rank itself started shares the group.
    const bool any = std::ranges::any_of(m_ranks, [](Running &rank) { return !rank.process.poll(); });
    if (any && m_group > 0)
        ::kill(-m_group, SIGKILL);
}

// The rank most likely at fault: one that died by a signal, then one with an error of its own, then any other.
const Running *Launch::firstFailed() const {
    const auto weight = [](const Running &rank) {
        if (!rank.failed())
            return 0;
        if (rank.end && rank.end->signal != 0)
            return 4;
        if (rank.said)
            return rank.secondary ? 1 : 3;
        return 2;
    };
    const auto worst = std::ranges::max_element(m_ranks, {}, weight);
    return worst == m_ranks.end() || weight(*worst) == 0 ? nullptr : &*worst;
}

const Running *Launch::stalled(Clock::time_point now) {
    for (Running &rank : m_ranks) {
        const std::uint64_t beat = rank.page.status().beat.load(std::memory_order_relaxed);
        if (beat != rank.beat || rank.end) {
            rank.beat = beat;
            rank.alive = now;
        }
    }
    const auto stuck = [&](const Running &rank) { return now - rank.alive > m_options.stall; };
    for (const Running &rank : m_ranks)
        if (stuck(rank) && rank.page.status().inCollective.load(std::memory_order_relaxed) == 0)
            return &rank;
    return std::ranges::all_of(m_ranks, stuck) ? slowest() : nullptr;
}

// Whom the others wait for: a stopped process, one that is not itself waiting, or the one that got least far.
const Running *Launch::slowest() const {
    const auto key = [](const Running &rank) {
        const RankStatus &status = rank.page.status();
        return std::tuple(rank.end.has_value(), !rank.process.stopped(),
                          status.inCollective.load(std::memory_order_relaxed) != 0,
                          status.beat.load(std::memory_order_relaxed));
    };
    return &*std::ranges::min_element(m_ranks, {}, key);
}

std::string Launch::where(const Running &rank) const {
    const RankStatus &status = rank.page.status();
    std::string out = "in phase " + std::string(name(static_cast<RankPhase>(status.phase.load())));
    if (const int token = status.token.load(); token >= 0)
        out += ", step " + std::to_string(token);
    if (const int module = status.module.load(); module >= 0)
        out += ", last module " + m_listener.moduleName(module);
    if (status.inCollective.load() != 0)
        out += ", waiting for the other ranks";
    if (!rank.end && rank.process.stopped())
        out += ", stopped by a signal";
    return out;
}

// Everything started is killed; the error says who, where and why.
Result<void> Launch::fallOut(const std::string &because, const Running *culprit) {
    std::string message = because;
    const auto add = [&](const std::string &text) { message += (message.empty() ? "" : ": ") + text; };
    ErrorCode code = ErrorCode::RunFailed;
    if (culprit->said) {
        add(nameOf(*culprit) + " failed " + where(*culprit) + ": " + culprit->said->message);
        code = culprit->said->code;
    } else if (!culprit->garbage.empty()) {
        add(nameOf(*culprit) + " sent garbage " + where(*culprit) + ": " + culprit->garbage);
    } else if (culprit->end) {
        add(nameOf(*culprit) + " " + culprit->end->text() + " " + where(*culprit));
    } else {
        add(nameOf(*culprit) + " is " + where(*culprit));
    }
    killAll();
    for (Running &rank : m_ranks)
        rank.process.readOutput();
    readEvents();
    const std::string tail = culprit->process.outputTail();
    // What the rank told us it told its standard error as well.
    if (!culprit->said || tail.find(culprit->said->message) == std::string::npos)
        message += tail.empty() ? "; its standard error is empty" : "; its standard error ends:\n" + tail;
    return fail(code, message);
}

} // namespace

std::optional<RankChannelFds> RankChannelFds::fromEnvironment() {
    const char *text = std::getenv(variable);
    if (!text)
        return std::nullopt;
    std::array<int, 3> fds{-1, -1, -1};
    const char *end = text + std::strlen(text);
    for (std::size_t i = 0; i < fds.size() && text < end; ++i) {
        const auto [next, error] = std::from_chars(text, end, fds[i]);
        if (error != std::errc())
            return std::nullopt;
        text = next + (next < end ? 1 : 0);
    }
    return RankChannelFds{fds[0], fds[1], fds[2]};
}

Result<void> launchRanks(const LaunchOptions &options, const nlohmann::json &request, RankListener &listener,
                         std::stop_token stop) {
    if (stop.stop_requested())
        return fail(ErrorCode::Cancelled, "the run was stopped before it began");
    Launch launch(options, listener);
    if (const auto started = launch.start(request); !started)
        return started;
    return launch.watch(stop);
}

} // namespace tpscope
