// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <iostream>

#include "app/cli/common.h"
#include "app/cli/table.h"
#include "app/cli/verbs.h"
#include "base/sha256.h"
#include "base/text.h"
#include "model/convert.h"
#include "model/weightsource.h"
#include "report/planfacts.h"

namespace tpscope::cli {
namespace {

struct ShardVerbOptions : CommonOptions {
    bool hash = false;
    std::uint64_t seed = 0;
};

nlohmann::json placementJson(const Placement &placement) {
    nlohmann::json out{{"kind", name(placement.kind)}};
    if (placement.kind == PlacementKind::Shard || placement.kind == PlacementKind::StridedShard)
        out["dim"] = placement.dim;
    if (placement.kind == PlacementKind::StridedShard)
        out["split_factor"] = placement.splitFactor;
    return out;
}

// First 16 hex digits of SHA-256 over the local tensor as float32, little-endian, row-major: what the recorded truth
// holds, whatever the dtype of the checkpoint.
Result<std::string> hashOf(WeightSource &weights, const ParameterShard &shard, std::size_t rank) {
    IndexRanges ranges;
    if (shard.dim >= 0)
        for (const Interval &interval : shard.held[rank])
            ranges.emplace_back(interval.begin, interval.end);
    const auto bytes = weights.readSlice(shard.name, shard.dim, ranges);
    if (!bytes)
        return tl::unexpected(bytes.error());
    return sha256Hex(toFloat32(*bytes, shard.dtype)).substr(0, 16);
}

Result<nlohmann::json> parameterJson(const ParameterShard &shard, WeightSource *weights) {
    nlohmann::json out{{"name", shard.name},
                       {"rule", shard.rule.empty() ? nlohmann::json() : nlohmann::json(shard.rule)},
                       {"style", shard.style.empty() ? nlohmann::json() : nlohmann::json(shard.style)},
                       {"placement", placementJson(shard.placement)},
                       {"dtype", torchName(shard.dtype)},
                       {"global_shape", shard.globalShape},
                       {"local_shapes", shard.localShapes},
                       {"bytes", shard.bytes}};
    if (!weights)
        return out;
    nlohmann::json hashes = nlohmann::json::array();
    for (std::size_t rank = 0; rank < shard.localShapes.size(); ++rank) {
        auto hash = hashOf(*weights, shard, rank);
        if (!hash)
            return tl::unexpected(hash.error());
        hashes.push_back(std::move(*hash));
    }
    out["hashes"] = std::move(hashes);
    return out;
}

// Identical layers as one row: parameters with one generic name, placement and shapes.
struct FoldedRow {
    const ParameterShard *first = nullptr;
    std::string genericName;
    int count = 0;
    std::int64_t bytesOnRank0 = 0;
};

std::vector<FoldedRow> folded(const ShardLayout &layout) {
    std::vector<FoldedRow> rows;
    for (const ParameterShard &shard : layout.parameters) {
        const std::string generic = genericName(shard.name);
        auto row = std::ranges::find_if(rows, [&](const FoldedRow &other) {
            return other.genericName == generic && other.first->placement == shard.placement &&
                   other.first->localShapes == shard.localShapes && other.first->style == shard.style;
        });
        if (row == rows.end())
            row = rows.insert(rows.end(), {&shard, generic, 0, 0});
        ++row->count;
        row->bytesOnRank0 += shard.bytes.front();
    }
    return rows;
}

void printText(const ShardLayout &layout) {
    Table table({"parameter", "x", "style", "placement", "global", "local on rank 0", "bytes on rank 0"},
                {Align::Left, Align::Right, Align::Left, Align::Left, Align::Right, Align::Right, Align::Right});
    for (const FoldedRow &row : folded(layout))
        table.add({row.genericName, std::to_string(row.count), row.first->style.empty() ? "-" : row.first->style,
                   placementText(row.first->placement), tpscope::toText(row.first->globalShape),
                   tpscope::toText(row.first->localShapes.front()), grouped(row.bytesOnRank0)});
    std::cout << table.text() << '\n';
    for (std::size_t rank = 0; rank < layout.bytesPerRank.size(); ++rank)
        std::cout << "rank " << rank << "  " << formatBytes(static_cast<std::uint64_t>(layout.bytesPerRank[rank]))
                  << '\n';
    std::cout << fixed(100 * layout.shardedFraction(), 1) << " % of "
              << formatBytes(static_cast<std::uint64_t>(layout.totalBytes)) << " sharded - predicted by rule\n";
}

int runShard(const ShardVerbOptions &options) {
    const auto loaded = load(options);
    if (!loaded)
        return report(loaded.error());
    const ShardLayout layout = shardLayout(loaded->model(), loaded->plan);
    if (!options.json() && !options.hash) {
        printText(layout);
        return 0;
    }
    std::optional<WeightSource> weights;
    if (options.hash) {
        auto opened = WeightSource::open(loaded->workspace->source, loaded->model(), options.seed);
        if (!opened)
            return report(opened.error());
        weights.emplace(std::move(*opened));
    }
    nlohmann::json parameters = nlohmann::json::array();
    for (const ParameterShard &shard : layout.parameters) {
        auto row = parameterJson(shard, weights ? &*weights : nullptr);
        if (!row)
            return report(row.error());
        if (!options.json())
            std::cout << shard.name << "  " << row->at("hashes").dump() << '\n';
        parameters.push_back(std::move(*row));
    }
    if (!options.json())
        return 0;
    return print({{"tp", layout.tp},
                  {"source", "predicted"},
                  {"parameters", std::move(parameters)},
                  {"bytes_per_rank", layout.bytesPerRank},
                  {"sharded_fraction", layout.shardedFraction()}});
}

} // namespace

void addShardVerb(CLI::App &app, int &exitStatus) {
    auto options = std::make_shared<ShardVerbOptions>();
    CLI::App *verb = app.add_subcommand("shard", "Show what each rank holds of each parameter.");
    addModelOption(*verb, *options);
    addPlanOptions(*verb, *options);
    addFormatOption(*verb, *options);
    verb->add_flag("--hash", options->hash, "add a hash of each local tensor (reads the weights)");
    verb->add_option("--seed", options->seed, "seed of random weights");
    verb->footer("Example: tpscope shard --model qwen3-tiny --tp 2 --hash");
    verb->callback([options, &exitStatus] { exitStatus = runShard(*options); });
}

} // namespace tpscope::cli
