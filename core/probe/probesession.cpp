// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/probesession.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/resources.h"
#include "probe/pythonlocator.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);

Result<fs::path> privateFolder() {
    std::string pattern = (fs::temp_directory_path() / "tpscope-probe-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
        return fail(ErrorCode::RunFailed, "cannot make a temporary folder like " + pattern);
    return fs::path(pattern);
}

std::vector<std::string> commandLine(const ProbeLaunch &launch, const ProbePaths &paths) {
    std::vector<std::string> words = {launch.python.program.string()};
    if (const int tp = launch.torchrunRanks; tp > 1)
        for (const auto &word :
             {std::string("-m"), std::string("torch.distributed.run"), std::string("--standalone"),
              std::string("--local-addr=127.0.0.1"), "--nproc-per-node=" + std::to_string(tp)})
            words.push_back(word);
    words.push_back((resourceDir() / "probe" / launch.script).string());
    words.push_back("--request=" + paths.request().string());
    return words;
}

// Compiled kernels are kept for the next run, out of the temporary folder that this one leaves
// nothing in.
std::string kernelCache(const ProbePaths &paths) {
    if (const char *given = std::getenv("TORCHINDUCTOR_CACHE_DIR"); given && *given)
        return given;
    if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
        return (fs::path(cache) / "tpscope" / "inductor").string();
    if (const char *home = std::getenv("HOME"); home && *home)
        return (fs::path(home) / ".cache" / "tpscope" / "inductor").string();
    return (paths.temporary() / "inductor").string();
}

std::map<std::string, std::string> environmentFor(const ProbeLaunch &launch, const ProbePaths &paths) {
    std::map<std::string, std::string> environment = {
        {"TMPDIR", paths.temporary().string()}, // of torchrun, compilers and ranks alike
        {"TORCHINDUCTOR_CACHE_DIR", kernelCache(paths)},
        {"OMP_NUM_THREADS", std::to_string(std::max(1, launch.threads))},
        {"HF_HUB_OFFLINE", "1"},
        {"PYTHONUNBUFFERED", "1"},
        {"PYTHONDONTWRITEBYTECODE",
         "1"}, // the script's folder may be read-only, and is never ours to litter
        {"TORCHINDUCTOR_COMPILE_THREADS", "1"},
    };
    if (!launch.python.searchFirst.empty()) {
        const char *given = std::getenv("PYTHONPATH");
        environment["PYTHONPATH"] =
            launch.python.searchFirst.string() + (given && *given ? ":" + std::string(given) : "");
    }
    return environment;
}

std::string firstWords(const std::string &text, std::size_t limit = 700) {
    std::string line;
    for (const char c : text)
        line += c == '\n' ? ' ' : c;
    return line.size() <= limit ? line : line.substr(0, limit) + " ...";
}

// What torchrun says about the rank that failed first: "rank : 1 (local_rank: 1)", "exitcode : -9
// (pid: 7)".
std::string deadRank(const std::string &errors) {
    const auto after = [&](const std::string &key) -> std::string {
        const auto at = errors.rfind(key);
        const auto colon = at == std::string::npos ? at : errors.find(':', at);
        if (colon == std::string::npos)
            return {};
        const auto end = errors.find_first_of("(\n", colon);
        std::string value = errors.substr(colon + 1, end - colon - 1);
        value.erase(0, value.find_first_not_of(' '));
        value.erase(value.find_last_not_of(' ') + 1);
        return value;
    };
    const auto cause = errors.find("Root Cause");
    if (cause == std::string::npos)
        return {};
    const std::string rank = after("\n  rank "), code = after("\n  exitcode ");
    if (rank.empty())
        return {};
    return "rank " + rank +
           (code.rfind('-', 0) == 0 ? " was killed by signal " + code.substr(1)
                                    : " ended with exit code " + code);
}

// The last line that is no part of torchrun's table: where Python and the C++ runtime leave their
// last words.
std::string lastWords(const std::string &errors) {
    std::istringstream lines(errors);
    std::string found;
    for (std::string line; std::getline(lines, line);)
        if (line.find("Error") != std::string::npos &&
            line.find("ChildFailedError") == std::string::npos)
            found = line;
    return firstWords(found, 300);
}

ErrorCode codeOfStage(const std::string &stage) {
    if (stage == "rejected" || stage == "forward-error")
        return ErrorCode::CannotRun;
    return stage == "load-error" ? ErrorCode::BadInput : ErrorCode::RunFailed;
}

} // namespace

Error ProbeSession::errorOf(const nlohmann::json &result) {
    const std::string stage = result.value("stage", "run-failed");
    const auto environment = result.value("environment", nlohmann::json::object());
    const std::string version =
        "transformers " + environment.value("transformers", std::string("(unknown version)"));
    const std::string kind = result.value("type", std::string());
    const std::string what = (kind == "ProbeError" ? "" : kind + ": ") + // the script's own words have no kind
                             firstWords(result.value("message", std::string()));
    const std::string rank = "rank " + std::to_string(result.value("rank", 0));
    if (stage == "rejected")
        return {codeOfStage(stage), version + " rejects the plan at load: " + what, std::nullopt};
    if (stage == "forward-error")
        return {codeOfStage(stage),
                version + " fails in the first forward, on " + rank + ": " + what, std::nullopt};
    if (stage == "load-error")
        return {codeOfStage(stage), version + " cannot load the model: " + what, std::nullopt};
    if (stage == "reference-error")
        return {codeOfStage(stage), version + " fails in one process, without any plan: " + what, std::nullopt};
    return {codeOfStage(stage),
            "the transformers run failed (" + stage + ") on " + rank + ": " + what, std::nullopt};
}

Result<ProbeSession> ProbeSession::start(const RunInput &input, std::string label, bool waitForGo) {
    auto python = findPython();
    if (!python)
        return tl::unexpected(python.error());
    ProbeLaunch launch;
    launch.request = [&](const ProbePaths &paths) { return probeRequest(input, paths, waitForGo); };
    launch.label = std::move(label);
    launch.torchrunRanks = input.config.tp;
    launch.threads = input.config.threads;
    launch.python = {std::move(*python), {}};
    return start(launch);
}

Result<ProbeSession> ProbeSession::start(const ProbeLaunch &launch) {
    auto folder = privateFolder();
    if (!folder)
        return tl::unexpected(folder.error());
    ProbeSession session;
    session.m_paths.folder = *folder;
    session.m_label = launch.label;
    const auto request = launch.request(session.m_paths);
    if (!request)
        return tl::unexpected(request.error());
    std::error_code ec;
    fs::create_directory(session.m_paths.temporary(), ec);
    if (auto written = writeFileAtomically(session.m_paths.request(), request->dump(1)); !written)
        return tl::unexpected(written.error());
    ProbeProcess::Options options;
    options.arguments = commandLine(launch, session.m_paths);
    options.environment = environmentFor(launch, session.m_paths);
    options.output = session.m_paths.output();
    options.errors = session.m_paths.errors();
    auto child = ProbeProcess::start(options);
    if (!child)
        return tl::unexpected(child.error());
    session.m_child = std::move(*child);
    return session;
}

ProbeSession::ProbeSession(ProbeSession &&other) noexcept
    : m_paths(std::exchange(other.m_paths, {})),
      m_child(std::exchange(other.m_child, std::nullopt)), m_label(std::move(other.m_label)),
      m_eventsRead(other.m_eventsRead), m_ready(other.m_ready), m_phase(std::move(other.m_phase)),
      m_message(std::move(other.m_message)), m_repeats(std::move(other.m_repeats)) {}

ProbeSession::~ProbeSession() {
    if (m_child)
        m_child->killAll(); // before its folder goes
    std::error_code ignored;
    if (!m_paths.folder.empty())
        fs::remove_all(m_paths.folder, ignored);
}

bool ProbeSession::poll(EventSink &sink) {
    const bool running =
        m_child->running(); // before reading: what was written last is read in this call
    readEvents(sink);
    return running;
}

Result<void> ProbeSession::waitUntil(EventSink &sink, const ProbeLimits &limits,
                                     const std::function<bool()> &reached) {
    for (;;) {
        const bool running = poll(sink);
        if (!running || reached())
            return {};
        if (limits.stop.stop_requested()) {
            kill();
            return fail(ErrorCode::Cancelled, "cancelled while the transformers run was at " + lastPhase());
        }
        if (std::chrono::steady_clock::now() > limits.deadline) {
            kill();
            return fail(ErrorCode::RunFailed, "the transformers run did not end within " +
                                                  std::to_string(limits.timeout.count()) + " s; it was at " +
                                                  lastPhase());
        }
        std::this_thread::sleep_for(kPollInterval);
    }
}

void ProbeSession::readEvents(EventSink &sink) {
    std::ifstream file(m_paths.events(), std::ios::binary);
    if (!file.seekg(static_cast<std::streamoff>(m_eventsRead)))
        return;
    std::ostringstream bytes;
    bytes << file.rdbuf();
    const std::string text = std::move(bytes).str();
    std::size_t begin = 0;
    for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
        readEvent(text.substr(begin, end - begin), sink);
    m_eventsRead += begin; // a line half written stays for the next time
}

void ProbeSession::readEvent(const std::string &line, EventSink &sink) {
    const auto event = nlohmann::json::parse(line, nullptr, false);
    if (!event.is_object())
        return;
    m_phase = event.value("phase", m_phase);
    m_message = event.value("message", std::string());
    if (m_phase == "ready")
        m_ready = event.value("repeat", m_ready);
    if (event.contains("step_ns")) {
        ProbeRepeat repeat;
        repeat.firstTokenMs = event.value("first_token_ns", 0.0) / 1e6;
        for (const double nanos : event["step_ns"].get<std::vector<double>>())
            repeat.stepMs.push_back(nanos / 1e6);
        repeat.startNanos = event.value("start_ns", std::vector<std::int64_t>());
        m_repeats.push_back(std::move(repeat));
    }
    sink.progress({m_phase, m_label + m_message, event.value("fraction", -1.0)});
}

Result<void> ProbeSession::allowRepeats(int count) {
    return writeFileAtomically(m_paths.go(), std::to_string(count));
}

std::string ProbeSession::lastPhase() const {
    return m_message.empty() ? m_phase : m_phase + ": " + m_message;
}

Result<nlohmann::json> ProbeSession::result() const {
    auto result = anyResult();
    if (result && result->value("stage", std::string()) != "done")
        return tl::unexpected(errorOf(*result));
    return result;
}

Result<nlohmann::json> ProbeSession::anyResult() const {
    const auto text = readFile(m_paths.result());
    if (text) {
        auto result = nlohmann::json::parse(*text, nullptr, false);
        if (!result.is_object())
            return fail(ErrorCode::RunFailed,
                        "the transformers run left a result that cannot be read");
        return result;
    }
    const std::string errors = readFile(m_paths.errors()).value_or("");
    std::string message = "the transformers run ended without a result (exit status " +
                          std::to_string(m_child->exitStatus()) + "), last at " + lastPhase();
    if (const std::string rank = deadRank(errors); !rank.empty())
        message += "; " + rank;
    if (const std::string words = lastWords(errors); !words.empty())
        message += "; " + words;
    return fail(ErrorCode::RunFailed, message);
}

} // namespace tpscope
