// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/launcher.h"

#include <QElapsedTimer>
#include <QTest>

#include <arpa/inet.h>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <fstream>
#include <map>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "run/rankchannel.h"
#include "run/rankrequest.h"

using namespace tpscope;
using nlohmann::json;

namespace {

// --- the other side: this same program, started as a rank that behaves or misbehaves as its argument says ------------
struct FakeRank {
    int rank = std::atoi(std::getenv("RANK"));
    RankChannelFds fds = *RankChannelFds::fromEnvironment();
    RankBoard board = *RankBoard::attach(fds.board);
    RankPage page = board.page(rank);

    void send(const json &message) const {
        const std::string frame = encodeFrame(message);
        if (::write(fds.frames, frame.data(), frame.size()) != static_cast<ssize_t>(frame.size()))
            std::abort();
    }
    json receive() const {
        FrameReader reader;
        for (char byte = 0; ::read(fds.frames, &byte, 1) == 1;) {
            reader.feed({&byte, 1});
            if (auto message = reader.next(); message && *message)
                return **message;
        }
        return nullptr;
    }
    void enter(RankPhase phase, int module) const {
        page.status().phase = static_cast<int>(phase);
        page.status().module = module;
        page.status().token = phase == RankPhase::Decode ? 3 : -1;
        ++page.status().beat;
    }
};

void sleepForever() {
    for (;;)
        std::this_thread::sleep_for(std::chrono::seconds(1));
}

int fakeRank(const std::string &behaviour) {
    const FakeRank self;
    const json request = self.receive();
    const bool odd = self.rank == 1;
    self.enter(RankPhase::Decode, 5);
    if (behaviour == "works") {
        for (int i = 0; i < 1000; ++i)
            self.page.push({i, 1, EventKind::Compute, i, -1, self.rank, 0, 0});
        self.send({{"type", "echo"}, {"request", request}, {"world", std::getenv("WORLD_SIZE")},
                   {"listener", self.fds.listener}, {"port", std::getenv("MASTER_PORT")},
                   {"pid", ::getpid()}, {"group", ::getpgrp()}});
        self.send({{"type", "done"}});
    } else if (behaviour == "killed") {
        self.page.push({7, 1, EventKind::Token, 3, -1, -1, 0, 0});
        if (odd) {
            std::fprintf(stderr, "last words\n");
            ::raise(SIGKILL);
        }
        // The other rank notices by its broken connection, and says so first.
        self.send({{"type", "error"}, {"message", "connection closed by peer"}, {"secondary", true}});
        return 3;
    } else if (behaviour == "exits") {
        if (odd)
            return 7;
        sleepForever();
    } else if (behaviour == "quits without a word") {
        return 0;
    } else if (behaviour == "error") {
        self.enter(RankPhase::Load, -1);
        if (odd) {
            self.send({{"type", "error"}, {"message", "tensor x is cut short"}, {"code", int(ErrorCode::BadInput)}});
            return 3;
        }
        sleepForever();
    } else if (behaviour == "stalls") {
        self.page.status().inCollective = odd ? 0 : 1;
        sleepForever();
    } else if (behaviour == "stops") {
        if (odd)
            ::raise(SIGSTOP);
        self.page.status().inCollective = 1;
        sleepForever();
    } else if (behaviour == "garbage") {
        if (odd)
            [[maybe_unused]] const auto written = ::write(self.fds.frames, "\x05\0\0\0hello", 9);
        sleepForever();
    } else if (behaviour == "heeds cancel") {
        self.send({{"type", "ready"}});
        if (self.receive()["type"] == "cancel")
            return 130;
    } else if (behaviour == "ignores cancel") {
        self.send({{"type", "ready"}});
        sleepForever();
    }
    return 0;
}

// --- this side --------------------------------------------------------------------------------------------------------
struct Heard : RankListener {
    std::map<int, std::vector<json>> messages;
    std::map<int, std::vector<Event>> batches;
    std::function<void()> onMessage = [] {};

    void message(int rank, const json &message) override {
        messages[rank].push_back(message);
        onMessage();
    }
    void events(int rank, const std::vector<Event> &batch) override {
        batches[rank].insert(batches[rank].end(), batch.begin(), batch.end());
    }
    std::string moduleName(int module) const override { return "module" + std::to_string(module); }
};

LaunchOptions optionsFor(const std::string &behaviour, int ranks = 2) {
    LaunchOptions options;
    options.arguments = {"--fake-rank", behaviour};
    options.ranks = ranks;
    options.grace = std::chrono::milliseconds(300);
    return options;
}

std::set<int> childProcesses() {
    std::set<int> found;
    const std::string own = std::to_string(::getpid());
    std::ifstream list("/proc/" + own + "/task/" + own + "/children");
    for (int pid = 0; list >> pid;)
        found.insert(pid);
    return found;
}

std::size_t openDescriptors() {
    std::size_t count = 0;
    DIR *folder = ::opendir("/proc/self/fd");
    while (::readdir(folder))
        ++count;
    ::closedir(folder);
    return count;
}

} // namespace

class LauncherTest : public QObject {
    Q_OBJECT

    std::size_t m_descriptors = 0;

    static QByteArray message(const Result<void> &result) {
        return QByteArray::fromStdString(result ? std::string("no error") : result.error().message);
    }

private slots:
    void init() { m_descriptors = openDescriptors(); }
    void cleanup() {
        // Whatever happened, nothing is left.
        QVERIFY(childProcesses().empty());
        QCOMPARE(openDescriptors(), m_descriptors);
    }

    void ranksGetTheirPlaceTheRequestAndAreHeard() {
        Heard heard;
        const json request{{"type", "request"}, {"x", 42}};
        const auto result = launchRanks(optionsFor("works", 3), request, heard, {});
        QVERIFY2(result, message(result));
        for (int rank = 0; rank < 3; ++rank) {
            QCOMPARE(heard.messages[rank].size(), std::size_t(1));
            const json &echo = heard.messages[rank].front();
            QVERIFY(echo["request"] == request);
            QVERIFY(echo["world"] == "3");
            QVERIFY(echo["port"] == heard.messages[0].front()["port"]);
            QCOMPARE(echo["listener"].get<int>() >= 0, rank == 0);
            QVERIFY(echo["group"] == heard.messages[0].front()["pid"]); // one process group, led by the first
            const auto &events = heard.batches[rank];
            QCOMPARE(events.size(), std::size_t(1000));
            for (int i = 0; i < 1000; ++i) {
                QCOMPARE(events[std::size_t(i)].start, std::int64_t(i));
                QCOMPARE(events[std::size_t(i)].module, rank);
            }
        }
    }

    void namesTheRankAtFault_data() {
        QTest::addColumn<QString>("behaviour");
        QTest::addColumn<QStringList>("words");
        QTest::newRow("signal") << "killed"
                                << QStringList{"rank 1 of 2", "signal 9", "phase decode", "step 3", "module5",
                                               "last words"};
        QTest::newRow("exit code") << "exits" << QStringList{"rank 1 of 2", "exit code 7", "standard error is empty"};
        QTest::newRow("no word") << "quits without a word" << QStringList{"rank", "exit code 0"};
        QTest::newRow("error") << "error" << QStringList{"rank 1 of 2", "phase load", "tensor x is cut short"};
        QTest::newRow("garbage") << "garbage" << QStringList{"rank 1 of 2", "garbage"};
        QTest::newRow("stall") << "stalls" << QStringList{"rank 1 of 2", "nothing happened", "module5"};
        QTest::newRow("stopped") << "stops" << QStringList{"rank 1 of 2", "nothing happened", "stopped by a signal"};
    }

    void namesTheRankAtFault() {
        QFETCH(QString, behaviour);
        QFETCH(QStringList, words);
        Heard heard;
        LaunchOptions options = optionsFor(behaviour.toStdString());
        options.stall = std::chrono::milliseconds(700);
        const auto result = launchRanks(options, {{"type", "request"}}, heard, {});
        QVERIFY(!result);
        for (const QString &word : words)
            QVERIFY2(message(result).contains(word.toUtf8()), message(result));
        QCOMPARE(result.error().code, behaviour == "error" ? ErrorCode::BadInput : ErrorCode::RunFailed);
    }

    void eventsBeforeADeathAreKept() {
        Heard heard;
        QVERIFY(!launchRanks(optionsFor("killed"), {{"type", "request"}}, heard, {}));
        QCOMPARE(heard.batches[1].size(), std::size_t(1));
        QCOMPARE(heard.batches[1].front().start, std::int64_t(7));
    }

    void aRunThatTakesTooLongEnds() {
        Heard heard;
        LaunchOptions options = optionsFor("stalls");
        options.timeout = std::chrono::milliseconds(600);
        QElapsedTimer timer;
        timer.start();
        const auto result = launchRanks(options, {{"type", "request"}}, heard, {});
        QVERIFY(!result);
        QVERIFY2(message(result).contains("longer than") && message(result).contains("rank 1"), message(result));
        QVERIFY(timer.elapsed() < 30000);
    }

    void stopping_data() {
        QTest::addColumn<QString>("behaviour");
        QTest::newRow("heeded") << "heeds cancel";
        QTest::newRow("ignored") << "ignores cancel";
    }

    void stopping() {
        QFETCH(QString, behaviour);
        Heard heard;
        std::stop_source source;
        heard.onMessage = [&] { source.request_stop(); };
        const auto result =
            launchRanks(optionsFor(behaviour.toStdString()), {{"type", "request"}}, heard, source.get_token());
        QVERIFY(!result);
        QCOMPARE(result.error().code, ErrorCode::Cancelled);
    }

    void aTakenPortIsSaid() {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        QCOMPARE(::bind(fd, reinterpret_cast<sockaddr *>(&address), size), 0);
        QCOMPARE(::listen(fd, 1), 0);
        QCOMPARE(::getsockname(fd, reinterpret_cast<sockaddr *>(&address), &size), 0);
        Heard heard;
        LaunchOptions options = optionsFor("works");
        options.port = ntohs(address.sin_port);
        const auto result = launchRanks(options, {{"type", "request"}}, heard, {});
        ::close(fd);
        QVERIFY(!result);
        QCOMPARE(result.error().code, ErrorCode::RunFailed);
        QVERIFY2(message(result).contains(QByteArray::number(options.port)), message(result));
        QVERIFY2(message(result).contains("taken"), message(result));
        QVERIFY(heard.messages.empty());
        // And is free for the next run once its owner is gone.
        const auto again = launchRanks(options, {{"type", "request"}}, heard, {});
        QVERIFY2(again, message(again));
    }

    void aMissingProgramIsSaid() {
        Heard heard;
        LaunchOptions options = optionsFor("works");
        options.program = "/nowhere/tpscope";
        const auto result = launchRanks(options, {{"type", "request"}}, heard, {});
        QVERIFY(!result);
        QVERIFY2(message(result).contains("/nowhere/tpscope"), message(result));
    }

    void framesSurviveAnySplit() {
        const json a{{"type", "a"}, {"list", {1, 2, 3}}};
        const json b{{"type", "b"}, {"bytes", json::binary({0, 1, 255})}};
        const std::string stream = encodeFrame(a) + encodeFrame(b);
        for (std::size_t step = 1; step <= stream.size(); ++step) {
            FrameReader reader;
            std::vector<json> got;
            for (std::size_t at = 0; at < stream.size(); at += step) {
                reader.feed(std::span(stream).subspan(at, std::min(step, stream.size() - at)));
                for (auto message = reader.next(); message && *message; message = reader.next())
                    got.push_back(**message);
            }
            QVERIFY(got == std::vector<json>({a, b}));
        }
        FrameReader reader;
        const std::string huge = "\xff\xff\xff\xff";
        reader.feed(huge);
        QVERIFY(!reader.next());
    }

    void aRingKeepsTheLatestEventsAndCountsTheLost() {
        const auto board = RankBoard::create(1, 16);
        QVERIFY(board);
        const RankPage page = board->page(0);
        for (int i = 0; i < 10; ++i)
            page.push({i, 0, EventKind::Compute, 0, 0, 0, 0, 0});
        std::vector<Event> out;
        std::uint64_t lost = 0;
        std::uint64_t next = page.read(0, out, lost);
        QCOMPARE(out.size(), std::size_t(10));
        QCOMPARE(lost, std::uint64_t(0));
        for (int i = 10; i < 50; ++i)
            page.push({i, 0, EventKind::Compute, 0, 0, 0, 0, 0});
        next = page.read(next, out, lost);
        QCOMPARE(next, std::uint64_t(50));
        QCOMPARE(out.size() + lost, std::size_t(50));
        QCOMPARE(out.back().start, std::int64_t(49));
        QVERIFY(lost > 0);
    }

    void aRequestComesBackAsItWas() {
        RunConfig config;
        config.modelArgument = "qwen3-tiny";
        config.planArgument = "plan.yaml";
        config.planText = "tp_plan: {}\n";
        config.tp = 3;
        config.hooks = HookMode::TensorGrad;
        config.collectives = Collectives::OneShot;
        config.inputIds = {{1, 2, 3}, {4, 5, 6}};
        config.newTokens = 5;
        config.seed = 1234567890123;
        config.logitsFile = "out.safetensors";
        const auto back = requestFromJson(json::parse(requestToJson(config).dump()));
        QVERIFY2(back, back ? "" : back.error().message.c_str());
        QVERIFY(requestToJson(*back) == requestToJson(config));
        json wrong = requestToJson(config);
        wrong["tp"] = 0;
        QVERIFY(!requestFromJson(wrong));
        wrong = requestToJson(config);
        wrong["input_ids"] = json::array({json::array({1, 2}), json::array()});
        QVERIFY(!requestFromJson(wrong));
        wrong.erase("seed");
        QVERIFY(!requestFromJson(wrong));
    }
};

int main(int argc, char **argv) {
    if (argc > 2 && std::string(argv[1]) == "--fake-rank")
        return fakeRank(argv[2]);
    LauncherTest test;
    return QTest::qExec(&test, argc, argv);
}
#include "launchertest.moc"
