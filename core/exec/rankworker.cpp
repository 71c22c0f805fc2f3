// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/rankworker.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/resources.h"
#include "exec/decode.h"
#include "exec/gradienthooks.h"
#include "exec/oraclejob.h"
#include "exec/rankoutlet.h"
#include "exec/ranksubject.h"
#include "model/safetensors.h"
#include "run/prompts.h"
#include "run/oraclemessages.h"
#include "run/rankrequest.h"

namespace tpscope {
namespace {

// Memory of this process that no file stands behind: what its weights, cache and buffers really take. 0: not told.
std::uint64_t anonymousBytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("RssAnon:"))
            return std::strtoull(line.c_str() + sizeof "RssAnon:", nullptr, 10) * 1024;
    return 0;
}

using nlohmann::json;

int numberFrom(const char *variable, int low, int high) {
    const char *text = std::getenv(variable);
    int value = 0;
    if (!text)
        throw Stopped{{ErrorCode::Usage, std::string(variable) + " is not set; ranks are started by tpscope run, or by "
                                                                 "torchrun with TPSCOPE_REQUEST naming a request file",
                       {}}};
    const auto [end, error] = std::from_chars(text, text + std::strlen(text), value);
    if (error != std::errc() || *end != '\0' || value < low || value > high)
        throw Stopped{{ErrorCode::Usage, std::string(variable) + " is \"" + text + "\"; expected " +
                                             std::to_string(low) + " to " + std::to_string(high), {}}};
    return value;
}

// A rank must not outlive the program that started it.
void dieWithParent() {
    const char *parent = std::getenv("TPSCOPE_PARENT");
    if (!parent)
        return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (std::to_string(::getppid()) != parent) // it ended before that call
        std::_Exit(3);
}

class Worker {
public:
    Worker(RankOutlet &outlet, int rank, int size) : m_outlet(outlet), m_page(outlet.page()), m_rank(rank), m_size(size) {}

    void run(const RunConfig &config);
    void check(const OracleRequest &request);

private:
    RankSubject begin(const RunConfig &config);
    void enter(RankPhase phase, const std::string &message = {}, double fraction = -1.0);
    std::unique_ptr<ProcessGroup> meet(const RunConfig &config);
    ShardedModel load(const RunConfig &config, const RankSubject &subject, const ShardLayout &layout,
                      const InstructionList &list);
    void report(const RunConfig &config, const ExecutionModel &execution, const DecodeResult &result, int hooks);
    void writeLogits(const RunConfig &config, const KeptLogits &logits) const;
    void noteHook(ModuleIndex module);

    RankOutlet &m_outlet;
    RankPage m_page;
    int m_rank;
    int m_size;
    RunClock m_clock;
    bool m_random = false;
    std::uint64_t m_bytesRead = 0;
};

void Worker::enter(RankPhase phase, const std::string &message, double fraction) {
    m_page.status().phase.store(static_cast<int>(phase), std::memory_order_relaxed);
    m_page.status().beat.fetch_add(1, std::memory_order_relaxed);
    if (m_rank == 0 && !message.empty())
        m_outlet.send({{"type", "progress"}, {"phase", name(phase)}, {"message", message}, {"fraction", fraction}});
}

std::unique_ptr<ProcessGroup> Worker::meet(const RunConfig &config) {
    if (m_size == 1)
        return nullptr;
    const char *host = std::getenv("MASTER_ADDR");
    const int port = numberFrom("MASTER_PORT", 1, 65535);
    enter(RankPhase::Rendezvous, std::to_string(m_size) + " ranks meet");
    m_page.status().inCollective.store(1, std::memory_order_relaxed);
    auto group = ProcessGroup::meet(host ? host : "127.0.0.1", static_cast<std::uint16_t>(port), m_outlet.listener(),
                                    {m_rank, m_size, config.collectives, config.timeout, &m_page.status()});
    m_page.status().inCollective.store(0, std::memory_order_relaxed);
    return group;
}

ShardedModel Worker::load(const RunConfig &config, const RankSubject &subject, const ShardLayout &layout,
                          const InstructionList &list) {
    enter(RankPhase::Load, "each rank loads its shard");
    const std::int64_t start = m_clock.now();
    const WeightSource source = valueOf(WeightSource::open(subject.source, subject.model, config.seed));
    std::vector<std::vector<std::string>> together;
    for (const auto &group : list.together) {
        together.emplace_back();
        for (const int parameter : group)
            together.back().push_back(list.parameters[static_cast<std::size_t>(parameter)]);
    }
    ShardedModel shards = valueOf(ShardedModel::load(subject.model, layout, Rank(m_rank), source, together,
                                                     [this](const std::string &) {
                                                         m_page.status().beat.fetch_add(1, std::memory_order_relaxed);
                                                         if (m_outlet.stopWanted())
                                                             throw Stopped{{ErrorCode::Cancelled, "stopped", {}}};
                                                     }));
    m_random = source.isRandom();
    m_bytesRead = source.bytesCopied();
    Event event;
    event.start = start;
    event.duration = m_clock.now() - start;
    event.kind = EventKind::Phase;
    event.bytes = shards.bytes();
    m_page.push(event);
    return shards;
}

void Worker::noteHook(ModuleIndex module) {
    Event event;
    event.start = m_clock.now();
    event.kind = EventKind::HookRegistration;
    event.module = static_cast<std::int32_t>(module.value);
    event.op = opIndex(BoundaryOp::Register);
    m_page.push(event);
}

RankSubject Worker::begin(const RunConfig &config) {
    at::set_num_threads(config.threads);
    at::set_num_interop_threads(1);
    enter(RankPhase::Describe);
    if (config.tp != m_size)
        throw Stopped{{ErrorCode::Usage, "WORLD_SIZE is " + std::to_string(m_size) + ", but the request asks for tp " +
                                             std::to_string(config.tp), {}}};
    return RankSubject::open(config);
}

void Worker::check(const OracleRequest &request) {
    const RankSubject subject = begin(request.config);
    const std::unique_ptr<ProcessGroup> group = meet(request.config);
    const auto say = [this](RankPhase phase, const std::string &message) { enter(phase, message); };
    runOracleJob({request, subject, group.get(), m_rank, m_outlet, m_clock, say});
    if (m_rank == 0)
        m_outlet.send({{"type", oracle::environmentMessage},
                       {"versions", {{"torch", TORCH_VERSION}, {"gloo", "as in torch " TORCH_VERSION}}}});
    if (group)
        group->any(false); // the store lives with rank 0: nobody leaves before everybody is through
    enter(RankPhase::Done);
}

void Worker::run(const RunConfig &config) {
    const RankSubject subject = begin(config);
    const ShardLayout layout = shardLayout(subject.model, subject.plan);
    const InstructionList list = valueOf(lower(subject.model, subject.plan, layout));
    const std::unique_ptr<ProcessGroup> group = meet(config);
    GradientHooks hooks(config.hooks, hookSites(subject.model, subject.plan, config.hooks), group.get(),
                        [this](ModuleIndex module) { noteHook(module); });
    const ShardedModel shards = load(config, subject, layout, list);
    enter(RankPhase::Hooks);
    hooks.loaded(shards);
    const ExecutionModel execution =
        valueOf(ExecutionModel::make(subject.model, list, shards, group.get(), config.attention));
    KeptLogits logits;
    logits.wanted = !config.logitsFile.empty(); // on every rank: it decides what is gathered
    DecodeCallbacks callbacks;
    callbacks.stopWanted = [this] { return m_outlet.stopWanted(); };
    std::int64_t told = 0;
    callbacks.progress = [&](int done, int all) {
        if (done == all || m_clock.now() - told > 50'000'000) { // at most 20 a second
            told = m_clock.now();
            enter(RankPhase::Decode, "step " + std::to_string(done) + " of " + std::to_string(all),
                  static_cast<double>(done) / all);
        }
    };
    enter(RankPhase::Prefill, "prefill");
    const DecodeResult result = decode(execution, config, m_clock, m_page, logits, callbacks);
    if (result.cancelled)
        throw Stopped{{ErrorCode::Cancelled, "the run was stopped", {}}};
    enter(RankPhase::Report);
    if (logits.wanted && m_rank == 0)
        writeLogits(config, logits);
    if (m_rank == 0)
        report(config, execution, result, hooks.registered());
    if (group)
        group->any(false); // the store lives with rank 0: nobody leaves before everybody is through
    enter(RankPhase::Done);
}

void Worker::writeLogits(const RunConfig &config, const KeptLogits &logits) const {
    const PromptBatch prompts = PromptBatch::of(config.inputIds);
    const std::int64_t batch = prompts.rows, prompt = prompts.tokens;
    const std::int64_t width = logits.vocabulary;
    const auto rows = static_cast<std::int64_t>(logits.decode.size()) / width / batch;
    const Shape decoded = batch == 1 ? Shape{rows, width} : Shape{batch, rows, width};
    const auto written = writeSafetensors(
        config.logitsFile, {{"input_ids", DType::I64, {batch, prompt}, std::as_bytes(std::span(prompts.ids))},
                            {"logits", DType::F32, {batch, prompt, width}, std::as_bytes(std::span(logits.prefill))},
                            {"decode_logits", DType::F32, decoded, std::as_bytes(std::span(logits.decode))}});
    if (!written)
        throw Stopped{written.error()};
}

void Worker::report(const RunConfig &config, const ExecutionModel &execution, const DecodeResult &result, int hooks) {
    json message{{"type", "result"},
                 {"output_ids", result.ids},
                 {"token_ms", result.tokenMs},
                 {"time_to_first_token_ms", result.firstTokenMs},
                 {"collectives", json::object()},
                 {"hooks_registered", hooks},
                 {"modules", json::array()},
                 {"module_names", eventModuleNames(execution)},
                 {"versions", {{"torch", TORCH_VERSION}, {"gloo", "as in torch " TORCH_VERSION}}},
                 {"attention", execution.attention},
                 {"dtype", torchName(execution.description.dtype)}};
    for (const auto &[kind, count] : result.collectives)
        if (count.count > 0)
            message["collectives"][kind] = {{"count", count.count}, {"bytes", count.bytes}};
    for (const ModuleTime &time : result.modules)
        message["modules"].push_back(
            {{"module", time.module}, {"compute_ms", time.computeMs}, {"collective_ms", time.collectiveMs}});
    message["notes"] = {{"weights", m_random ? "random, seed " + std::to_string(config.seed) : "checkpoint"},
                        {"shard_bytes_rank_0", std::to_string(execution.weights.bytes())},
                        {"bytes_read_rank_0", std::to_string(m_bytesRead)},
                        {"anonymous_bytes_rank_0", std::to_string(anonymousBytes())}};
    if (!m_outlet.hasLauncher())
        std::cout << message.dump() << std::endl;
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(result.lastLogits.data());
    message["last_logits"] =
        json::binary(std::vector<std::uint8_t>(bytes, bytes + result.lastLogits.size() * sizeof(float)));
    m_outlet.send(message);
}

json requestOf(RankOutlet &outlet) {
    if (outlet.hasLauncher())
        return valueOf(outlet.request());
    const char *path = std::getenv("TPSCOPE_REQUEST");
    if (!path)
        throw Stopped{{ErrorCode::Usage, "TPSCOPE_REQUEST names no request file and no launcher started this rank", {}}};
    json request = json::parse(valueOf(readFile(path)), nullptr, false);
    if (!request.is_object())
        throw Stopped{{ErrorCode::BadInput, "expected a JSON object", Location{path}}};
    return request;
}

} // namespace

int runRank() {
    dieWithParent();
    std::signal(SIGPIPE, SIG_IGN);
    std::optional<RankOutlet> outlet;
    Stopped why{{ErrorCode::RunFailed, {}, {}}};
    try {
        const int size = numberFrom("WORLD_SIZE", 1, 1 << 16);
        const int rank = numberFrom("RANK", 0, size - 1);
        outlet.emplace(valueOf(RankOutlet::open(rank)));
        const json request = requestOf(*outlet);
        if (const auto asked = valueOf(oracleRequestFromJson(request)))
            Worker(*outlet, rank, size).check(*asked);
        else
            Worker(*outlet, rank, size).run(valueOf(requestFromJson(request)));
        outlet->send({{"type", "done"}});
        return 0;
    } catch (const Stopped &stopped) {
        why = stopped;
    } catch (const std::exception &error) {
        const std::string what = error.what();
        why.error.message = what.substr(0, what.find('\n'));
        why.secondary = outlet && outlet->page().status().inCollective.load(std::memory_order_relaxed) != 0;
    }
    std::cerr << "tpscope rank: " << why.error.text() << std::endl;
    if (outlet)
        outlet->send({{"type", "error"},
                      {"message", why.error.text()},
                      {"code", static_cast<int>(why.error.code)},
                      {"secondary", why.secondary}});
    return exitCode(why.error.code);
}

} // namespace tpscope
