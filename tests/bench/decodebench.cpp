// SPDX-License-Identifier: GPL-3.0-or-later
// Decode per token: our executor against its floor (the same products and collectives with nothing around them) and
// against transformers, on the 8-layer Qwen3 of the recorded latencies (hidden 512, float32, batch 1), tp 1 and 2.
// Runs alternate (ours, floor, ours, floor, ...), so that the machine's mood hits both alike.
// usage: decodebench [--rounds N] [--tokens N] [--no-transformers] [--json FILE]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <unistd.h>

#include "exec/processgroup.h"
#include "exec/rankoutlet.h"
#include "measure/statistics.h"
#include "model/modelsource.h"
#include "plan/resolvedplan.h"
#include "probe/transformersrunner.h"
#include "run/gloorunner.h"
#include "shard/shardlayout.h"

using namespace tpscope;
using nlohmann::json;

namespace {

constexpr const char *config = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "dtype": "float32",
  "hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8,
  "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 8192, "max_position_embeddings": 512,
  "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": false, "bos_token_id": 1, "eos_token_id": 2,
  "pad_token_id": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})";

template <typename T> T valueOf(Result<T> result) {
    if (!result) {
        std::fprintf(stderr, "decodebench: %s\n", result.error().text().c_str());
        std::exit(3);
    }
    return std::move(*result);
}

// --- the floor: a rank that does nothing but the products and the collectives of a token ------------------------------
struct Product {
    at::Tensor weight; // transposed view
    at::Tensor in;
    at::Tensor out;
    bool reduces = false;
    bool gathers = false;
};

std::vector<Product> products(const ShardLayout &layout, std::size_t rank) {
    std::vector<Product> out;
    for (const ParameterShard &shard : layout.parameters) {
        const Shape &local = shard.localShapes[rank];
        if (local.size() != 2)
            continue;
        Product product;
        if (shard.name.find("embed_tokens") != std::string::npos) { // a look-up: only its sum
            product.out = at::zeros({1, local[1]});
        } else {
            product.weight = at::randn(local).t();
            product.in = at::randn({1, local[1]});
            product.out = at::empty({1, local[0]});
        }
        const ParallelStyle *style = findStyle(shard.style);
        product.reduces = style && style->output == ParallelStyle::Output::Reduce;
        product.gathers = style && style->output == ParallelStyle::Output::Gather;
        out.push_back(std::move(product));
    }
    return out;
}

double floorToken(std::vector<Product> &list, ProcessGroup *group, at::Tensor &gathered) {
    const auto start = std::chrono::steady_clock::now();
    for (Product &product : list) {
        if (product.weight.defined())
            at::mm_out(product.out, product.in, product.weight);
        if (group && product.reduces)
            group->allReduce(product.out);
        if (group && product.gathers)
            group->allGatherLast(product.out, gathered);
    }
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

struct Subject {
    ModelDescription model;
    ResolvedPlan plan;
};

Subject openSubject(const std::string &path, int tp) {
    ModelDescription model = valueOf(describe(valueOf(ModelConfig::load(path))));
    const BuiltinPlan builtin = valueOf(loadBuiltinPlan(model.modelType));
    ResolvedPlan plan = resolvePlan(model, {}, &builtin, tp);
    return {std::move(model), std::move(plan)};
}

int floorRank() {
    const int rank = std::atoi(std::getenv("RANK"));
    RankOutlet outlet = valueOf(RankOutlet::open(rank));
    const json request = valueOf(outlet.request());
    const int tp = request["tp"];
    at::set_num_threads(1);
    const Subject subject = openSubject(request["config"], tp);
    std::unique_ptr<ProcessGroup> group;
    if (tp > 1)
        group = ProcessGroup::meet("127.0.0.1", static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))),
                                   outlet.listener(),
                                   {rank, tp, valueOf(parseCollectives(request["collectives"])), std::chrono::minutes(5)});
    const c10::InferenceMode inference;
    const ShardLayout layout = shardLayout(subject.model, subject.plan);
    auto list = products(layout, static_cast<std::size_t>(rank));
    at::Tensor gathered = at::empty({1, subject.model.dims.vocab});
    std::vector<double> times;
    const int warmup = 12;
    for (int token = 0; token < warmup + request["tokens"].get<int>(); ++token) {
        outlet.page().status().beat.fetch_add(1);
        if (group)
            group->any(false);
        const double ms = floorToken(list, group.get(), gathered);
        if (token >= warmup)
            times.push_back(ms);
    }
    if (group)
        group->any(false);
    outlet.send({{"type", "times"}, {"ms", times}});
    outlet.send({{"type", "done"}});
    return 0;
}

// --- this side --------------------------------------------------------------------------------------------------------
struct FloorListener : RankListener {
    std::vector<double> ms;
    void message(int rank, const json &message) override {
        if (rank == 0)
            ms = message["ms"].get<std::vector<double>>();
    }
    void events(int, const std::vector<Event> &) override {}
    std::string moduleName(int) const override { return "?"; }
};

struct Quiet : EventSink {
    void progress(const Progress &) override {}
    void events(int, const std::vector<Event> &) override {}
};

struct Options {
    int rounds = 3;
    int tokens = 60;
    bool transformers = true;
    std::string json;
};

struct Row {
    std::string name;
    Summary ours;
    Summary theirs;
    double goal; // ours / theirs; 0: none
};

RunConfig runConfig(const std::string &path, int tp, Collectives collectives, int tokens) {
    RunConfig run;
    run.modelArgument = path;
    run.planArgument = tp == 1 ? "none" : "auto";
    run.tp = tp;
    run.collectives = collectives;
    run.newTokens = tokens;
    run.warmupTokens = 12;
    run.inputIds.emplace_back();
    for (std::int64_t id = 1; id < 33; ++id)
        run.inputIds.back().push_back(id);
    return run;
}

void measure(const std::string &path, const std::filesystem::path &program, const Options &options, int tp,
             Collectives collectives, std::vector<Row> &rows) {
    const Subject subject = openSubject(path, tp);
    const RunConfig run = runConfig(path, tp, collectives, options.tokens);
    Quiet quiet;
    std::vector<double> ours;
    std::vector<double> floor;
    std::vector<double> theirs;
    for (int round = 0; round < options.rounds; ++round) {
        const RunTrace trace = valueOf(GlooRunner(program).run({subject.model, subject.plan, run}, quiet, {}));
        ours.insert(ours.end(), trace.tokenMs.begin(), trace.tokenMs.end());
        LaunchOptions launch;
        launch.arguments = {"--floor-rank"};
        launch.ranks = tp;
        FloorListener listener;
        valueOf(launchRanks(launch,
                            {{"type", "request"}, {"config", path}, {"tp", tp}, {"tokens", options.tokens},
                             {"collectives", name(collectives)}},
                            listener, {})
                    .map([] { return 0; }));
        floor.insert(floor.end(), listener.ms.begin(), listener.ms.end());
        if (!options.transformers || collectives != Collectives::Gloo)
            continue;
        RunConfig eager = run;
        eager.backend = Backend::Transformers;
        eager.compile = false;
        if (const auto probed = TransformersRunner().run({subject.model, subject.plan, eager}, quiet, {}))
            theirs.insert(theirs.end(), probed->tokenMs.begin(), probed->tokenMs.end());
        else if (round == 0)
            std::fprintf(stderr, "decodebench: transformers not measured: %s\n", probed.error().message.c_str());
    }
    const std::string title = "decode tp " + std::to_string(tp) +
                              (tp == 1 ? std::string() : ", " + std::string(name(collectives)));
    rows.push_back({title + " / floor", summarize(ours), summarize(floor), 1.25});
    if (!theirs.empty())
        rows.push_back({title + " / transformers eager", summarize(ours), summarize(theirs), 0.0});
}

void print(const std::vector<Row> &rows, const Options &options) {
    std::printf("%-44s %12s %12s %8s %10s %8s %s\n", "ms a token (median)", "ours", "theirs", "ratio", "MAD ours", "goal",
                "met");
    json list = json::array();
    for (const Row &row : rows) {
        const double ratio = row.theirs.median > 0 ? row.ours.median / row.theirs.median : 0.0;
        const bool met = row.goal == 0.0 || ratio <= row.goal;
        std::printf("%-44s %12.3f %12.3f %8.2f %10.3f ", row.name.c_str(), row.ours.median, row.theirs.median, ratio,
                    row.ours.mad);
        if (row.goal > 0.0)
            std::printf("%8.2f %s\n", row.goal, met ? "yes" : "NO");
        else
            std::printf("%8s\n", "-");
        list.push_back({{"name", row.name},
                        {"ours", row.ours.median},
                        {"theirs", row.theirs.median},
                        {"ratio", ratio},
                        {"goal", row.goal > 0.0 ? json(row.goal) : json()},
                        {"met", met}});
    }
    if (!options.json.empty())
        std::ofstream(options.json) << json{{"rows", list}}.dump(1) << '\n';
}

Options readOptions(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string flag = argv[i];
        const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
        if (flag == "--rounds")
            options.rounds = std::max(1, std::atoi(value()));
        else if (flag == "--tokens")
            options.tokens = std::max(1, std::atoi(value()));
        else if (flag == "--no-transformers")
            options.transformers = false;
        else if (flag == "--json")
            options.json = value();
    }
    return options;
}

} // namespace

int main(int argc, char **argv) {
    if (argc > 1 && std::strcmp(argv[1], "--floor-rank") == 0)
        return floorRank();
    const Options options = readOptions(argc, argv);
    std::string folder = (std::filesystem::temp_directory_path() / "tpscope-bench-XXXXXX").string();
    if (!::mkdtemp(folder.data()))
        return 3;
    const std::string path = folder + "/config.json";
    std::ofstream(path) << config;
    const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "tpscope";
    std::vector<Row> rows;
    measure(path, program, options, 1, Collectives::Gloo, rows);
    measure(path, program, options, 2, Collectives::Gloo, rows);
    measure(path, program, options, 2, Collectives::OneShot, rows);
    std::filesystem::remove_all(folder);
    print(rows, options);
    return 0;
}
