// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/hardwareprofile.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/resources.h"
#include "base/text.h"
#include "model/jsonreader.h"
#include "run/jsonfields.h"

namespace tpscope {
namespace fs = std::filesystem;
namespace {

struct OriginName {
    Origin origin;
    std::string_view name;
};
constexpr std::array originNames{
    OriginName{Origin::Measured, "measured"},
    OriginName{Origin::Fitted, "fitted"},
    OriginName{Origin::Reported, "reported"},
    OriginName{Origin::Assumed, "assumed"},
};

SourcedNumber readNumber(JsonFields reader) {
    SourcedNumber number;
    number.value = reader.number("value");
    number.basis = reader.text("basis");
    const std::string source = reader.text("source");
    const auto row = std::ranges::find(originNames, source, &OriginName::name);
    if (row != originNames.end())
        number.origin = row->origin;
    else
        reader.reject("source", "says '" + shortened(source) + "', expected measured, fitted, reported or assumed");
    if (number.basis.empty())
        reader.reject("basis", "is empty: say where the number comes from");
    return number;
}

SourcedNumber readPositive(JsonFields &parent, const std::string &key) {
    const SourcedNumber number = readNumber(parent.object(key));
    if (number.value <= 0.0)
        parent.reject(key, "must be more than 0");
    return number;
}

// A cost that may be nothing.
SourcedNumber readCost(JsonFields &parent, const std::string &key) {
    const SourcedNumber number = readNumber(parent.object(key));
    if (number.value < 0.0)
        parent.reject(key, "must not be negative");
    return number;
}

CollectiveFigures readFigures(JsonFields reader) {
    CollectiveFigures figures;
    figures.collective = reader.text("collective");
    figures.transport = reader.text("transport", "");
    if (!figures.transport.empty() && !parseCollectives(figures.transport))
        reader.reject("transport", "says '" + shortened(figures.transport) + "', expected gloo or one-shot");
    figures.ranks = reader.count("ranks");
    if (figures.ranks < 2)
        reader.reject("ranks", "must be 2 or more");
    figures.alphaUs = readCost(reader, "alpha_us");
    figures.bandwidthGbS = readPositive(reader, "bandwidth_gb_s");
    return figures;
}

FitConditions readFit(JsonFields reader) {
    FitConditions fit;
    fit.modelType = reader.text("model_type");
    fit.parameters = reader.integer("parameters");
    fit.dtype = reader.text("dtype");
    fit.tp = reader.count("tp");
    fit.batch = reader.count("batch");
    fit.builtinPlan = reader.flag("builtin_plan", true);
    fit.decodeLaunches = reader.counts("decode_launches");
    return fit;
}

} // namespace

std::string_view name(Origin origin) {
    const auto row = std::ranges::find(originNames, origin, &OriginName::origin);
    return row == originNames.end() ? "?" : row->name;
}

double HardwareProfile::effectiveBandwidth(const std::string &torchDtype) const {
    const auto exact = efficiency.find(torchDtype);
    const auto any = efficiency.find("any");
    const double eta = exact != efficiency.end() ? exact->second.value
                       : any != efficiency.end() ? any->second.value
                                                 : 1.0;
    return eta * memoryBandwidthGbS.value * 1e9;
}

const CollectiveFigures *HardwareProfile::figures(std::string_view collective, Collectives transport,
                                                  int ranks) const {
    const CollectiveFigures *best = nullptr;
    for (const CollectiveFigures &row : collectives) {
        if (row.collective != collective || (!row.transport.empty() && row.transport != tpscope::name(transport)))
            continue;
        if (!best || std::abs(row.ranks - ranks) < std::abs(best->ranks - ranks))
            best = &row;
    }
    return best;
}

Result<HardwareProfile> profileFromJson(const nlohmann::json &json, const std::string &where) {
    JsonFields reader(json, where);
    HardwareProfile profile;
    profile.name = reader.text("name");
    profile.title = reader.text("title");
    profile.machine = reader.text("machine");
    profile.memoryBandwidthGbS = readPositive(reader, "memory_bandwidth_gb_s");
    JsonFields efficiency = reader.object("efficiency");
    for (const std::string &dtype : efficiency.keys())
        profile.efficiency[dtype] = readPositive(efficiency, dtype);
    if (profile.efficiency.empty())
        reader.reject("efficiency", "needs an entry for a dtype, or `any`");
    profile.computeGflopS = readPositive(reader, "compute_gflop_s");
    profile.kernelUs = readCost(reader, "kernel_us");
    profile.launchUs = readCost(reader, "launch_us");
    if (reader.has("recompile_limit")) {
        profile.recompileLimit = readPositive(reader, "recompile_limit");
        if (profile.recompileLimit->value > 1e6)
            reader.reject("recompile_limit", "must be at most 1000000");
    }
    for (const JsonFields &row : reader.objects("collectives"))
        profile.collectives.push_back(readFigures(row));
    if (reader.has("fit"))
        profile.fit = readFit(reader.object("fit"));
    profile.statements = reader.texts("statements");
    if (const auto checked = reader.error(); !checked)
        return tl::unexpected(checked.error());
    return profile;
}

std::vector<std::string> bundledProfileNames() {
    std::vector<std::string> names;
    std::error_code ec;
    for (const auto &entry : fs::directory_iterator(resourceDir() / "profiles", ec))
        if (entry.path().extension() == ".json")
            names.push_back(entry.path().stem().string());
    std::ranges::sort(names);
    return names;
}

Result<HardwareProfile> loadProfile(const std::string &nameOrFile) {
    const std::vector<std::string> names = bundledProfileNames();
    const bool bundled = std::ranges::find(names, nameOrFile) != names.end();
    const fs::path path = bundled ? resourceDir() / "profiles" / (nameOrFile + ".json") : fs::path(nameOrFile);
    std::error_code ec;
    if (!bundled && !fs::exists(path, ec)) {
        std::string known;
        for (const std::string &candidate : names)
            known += (known.empty() ? "" : ", ") + candidate;
        return fail(ErrorCode::NotFound, "no hardware profile '" + shortened(nameOrFile) +
                                             "': neither a file nor one of " + known);
    }
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    const auto json = parseJson(*text, path.string());
    if (!json)
        return tl::unexpected(json.error());
    return profileFromJson(*json, path.string());
}

} // namespace tpscope
