// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/simulatedtrace.h"

#include <algorithm>
#include <cstdio>

namespace tpscope {
namespace {

std::string shortNumber(double value) {
    char text[32];
    std::snprintf(text, sizeof text, value >= 1000 ? "%.0f" : "%.4g", value);
    return text;
}

std::string line(const std::string &what, const SourcedNumber &number, const std::string &unit) {
    return what + " " + shortNumber(number.value) + (unit.empty() ? "" : " " + unit) + " - " +
           std::string(name(number.origin)) + ": " + number.basis;
}

void differs(std::vector<std::string> &found, const std::string &what, const std::string &is,
             const std::string &fitted) {
    if (is != fitted)
        found.push_back("extrapolated: " + what + " " + is + ", fitted to " + fitted);
}

bool usesPlanFile(const ResolvedPlan &plan) {
    return std::ranges::any_of(plan.rules,
                               [](const EffectiveRule &rule) { return rule.rule.origin == RuleOrigin::File; });
}

} // namespace

std::vector<std::string> extrapolations(const HardwareProfile &profile, const RunInput &input, int batch,
                                        int launches) {
    std::vector<std::string> found;
    if (!profile.fit)
        return found;
    const FitConditions &fit = *profile.fit;
    const ModelDescription &model = input.model;
    differs(found, "model type", model.modelType, fit.modelType);
    differs(found, "parameters", std::to_string(model.parameterCount()), std::to_string(fit.parameters));
    differs(found, "dtype", std::string(torchName(model.dtype)), fit.dtype);
    differs(found, "tp", std::to_string(input.plan.tp), std::to_string(fit.tp));
    differs(found, "batch", std::to_string(batch), std::to_string(fit.batch));
    if (fit.builtinPlan && (usesPlanFile(input.plan) || input.plan.noPlan))
        found.push_back("extrapolated: another plan than the model's own, to which it was fitted");
    if (std::ranges::find(fit.decodeLaunches, launches) == fit.decodeLaunches.end()) {
        std::string fitted;
        for (const int count : fit.decodeLaunches)
            fitted += (fitted.empty() ? "" : " and ") + std::to_string(count);
        found.push_back("extrapolated: " + std::to_string(launches) + " launches a token, fitted to " + fitted);
    }
    return found;
}

std::vector<std::string> profileStatements(const HardwareProfile &profile) {
    std::vector<std::string> lines{"simulated by the profile " + profile.name + ": " + profile.title};
    lines.insert(lines.end(), profile.statements.begin(), profile.statements.end());
    lines.push_back(line("memory bandwidth", profile.memoryBandwidthGbS, "GB/s"));
    for (const auto &[dtype, eta] : profile.efficiency)
        lines.push_back(line("share of it reached (" + dtype + " dtype)", eta, ""));
    lines.push_back(line("arithmetic", profile.computeGflopS, "GFLOP/s"));
    lines.push_back(line("a kernel", profile.kernelUs, "us"));
    lines.push_back(line("a graph launch", profile.launchUs, "us"));
    if (profile.recompileLimit)
        lines.push_back(line("recompile limit", *profile.recompileLimit, ""));
    for (const CollectiveFigures &row : profile.collectives) {
        const std::string what = row.collective + (row.transport.empty() ? "" : " over " + row.transport) + ", " +
                                 std::to_string(row.ranks) + " ranks:";
        lines.push_back(line(what + " latency", row.alphaUs, "us"));
        lines.push_back(line(what + " bandwidth", row.bandwidthGbS, "GB/s"));
    }
    return lines;
}

Environment simulatedEnvironment(const HardwareProfile &profile, const RunInput &input,
                                 const std::vector<std::string> &extrapolated) {
    Environment environment = currentEnvironment();
    environment.machine = profile.machine;
    environment.versions["transformers rules"] = input.config.upstream.text();
    environment.attention = input.config.attention.empty() ? input.model.attention : input.config.attention;
    environment.dtype = torchName(input.model.dtype);
    environment.seed = input.config.seed;
    environment.threads = input.config.threads;
    environment.notes["profile"] = profile.name;
    std::string all;
    for (const std::string &one : extrapolated)
        all += (all.empty() ? "" : "; ") + one.substr(one.find(": ") + 2);
    if (!all.empty())
        environment.notes["extrapolated"] = all;
    return environment;
}

} // namespace tpscope
