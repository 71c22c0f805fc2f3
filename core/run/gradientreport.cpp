// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/gradientreport.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/moduletree.h"

namespace tpscope {
namespace {

using nlohmann::json;

struct Tolerance {
    double relative = 1e-3; // as the recorded plans were judged
    double noise = 1e-6;    // an error below this share of the largest gradient is rounding: some gradients are zero by
                            // mathematics (a bias of keys) and noise in floats
};

Tolerance toleranceOf(DType dtype) {
    return dtype == DType::F32 || dtype == DType::F64 ? Tolerance{} : Tolerance{5e-2, 5e-3};
}

// Sums over the ranks.
struct Totals {
    double projection = 0.0;
    double truth = 0.0;
    double error = 0.0;
};

Totals totalsOf(const GradientFacts &facts) {
    Totals totals;
    for (const auto &rank : facts.ranks) {
        totals.projection += rank.projection;
        totals.truth += rank.truth;
        totals.error += rank.error;
    }
    return totals;
}

int reductionsOf(const GradientFacts &facts) {
    int most = 0;
    for (const auto &rank : facts.ranks)
        most = std::max(most, rank.reductions);
    return most;
}

class Judge {
public:
    Judge(const std::vector<GradientFacts> &facts, int microSteps, DType dtype)
        : m_microSteps(microSteps), m_tolerance(toleranceOf(dtype)) {
        double largest = 0.0;
        for (const GradientFacts &fact : facts)
            for (const auto &rank : fact.ranks)
                largest = std::max(largest, rank.truth);
        m_noise = m_tolerance.noise * m_tolerance.noise * largest;
    }

    std::optional<GradientCause> cause(const GradientFacts &facts) const;
    double tolerance() const { return m_tolerance.relative; }
    // Nothing summed it, and the ranks' parts together are the truth.
    bool addsUp(const GradientFacts &facts) const {
        return facts.whole && reductionsOf(facts) == 0 && isNothing(facts.sumError, facts.ranks.front().truth);
    }

private:
    // Both squared.
    bool isNothing(double error, double truth) const {
        return error <= std::max(m_tolerance.relative * m_tolerance.relative * truth, m_noise);
    }
    bool isRight(const GradientFacts &facts) const {
        return std::ranges::all_of(facts.ranks, [&](const auto &rank) { return isNothing(rank.error, rank.truth); });
    }
    // Each rank's gradient is the truth times a factor.
    bool isTimes(const GradientFacts &facts, double factor) const {
        return totalsOf(facts).truth > m_noise && std::ranges::all_of(facts.ranks, [&](const auto &rank) {
            const double error = rank.gradient - 2.0 * factor * rank.projection + factor * factor * rank.truth;
            return isNothing(error, factor * factor * rank.truth);
        });
    }

    int m_microSteps;
    Tolerance m_tolerance;
    double m_noise = 0.0; // squared
};

std::optional<GradientCause> Judge::cause(const GradientFacts &facts) const {
    if (isRight(facts))
        return std::nullopt;
    const auto p = static_cast<double>(facts.ranks.size());
    const int reductions = reductionsOf(facts);
    // Whole on every rank and summed all the same: itself, or what flowed into it, once or more.
    for (double factor = p; factor <= p * p * p * p && p > 1; factor *= p)
        if (isTimes(facts, factor))
            return GradientCause::NeedlessSync;
    if (m_microSteps > 1 && reductions > 1) {
        // What was summed before is summed again with each backward: 1 + p + p^2 + ... instead of 1 + 1 + 1 + ...
        const double again = (std::pow(p, m_microSteps) - 1) / ((p - 1) * m_microSteps);
        return isTimes(facts, again * p) ? GradientCause::NeedlessSync : GradientCause::RepeatedReduction;
    }
    if (addsUp(facts))
        return facts.asksSync ? GradientCause::NeverSynchronised : GradientCause::Partial;
    if (facts.whole && facts.asksSync && reductions < m_microSteps)
        return GradientCause::NeverSynchronised;
    // Not even the sum is right, since something behind it is wrong; but each rank holds another part.
    if (facts.whole && reductions == 0 && !isNothing(facts.spread, facts.ranks.front().truth))
        return GradientCause::Partial;
    return GradientCause::WronglySharded;
}

std::string explain(const GradientFacts &facts, GradientCause cause, int microSteps, bool addsUp) {
    const std::string p = std::to_string(facts.ranks.size());
    const int reductions = reductionsOf(facts);
    switch (cause) {
    case GradientCause::Partial:
        return "each of the " + p + " ranks has a part of it" +
               (addsUp ? "; the parts add up to the truth and nothing sums them"
                       : ", since a partial gradient flows into it");
    case GradientCause::NeedlessSync:
        return (reductions > 0 ? "it is whole on each of the " : "what flows into it was whole on each of the ") + p +
               " ranks and was summed over them all the same";
    case GradientCause::RepeatedReduction:
        return "in " + std::to_string(reductions) + " all-reduces over " + std::to_string(microSteps) +
               " accumulated backwards, what was already summed was summed again";
    case GradientCause::NeverSynchronised:
        return reductions == 0 ? "the plan asks for its sum over the ranks, and no all-reduce of it was counted"
                               : "the plan asks for its sum over the ranks; " + std::to_string(reductions) + " of " +
                                     std::to_string(microSteps) + " backwards were summed";
    case GradientCause::WronglySharded:
        return facts.whole ? "all ranks have the same wrong gradient: a wrong one flows into it"
                           : "the gradient of a rank's shard is not its slice of the truth";
    }
    return {};
}

ParameterGradient judged(const GradientFacts &facts, const Judge &judge, int microSteps) {
    ParameterGradient out;
    out.name = facts.name;
    out.whole = facts.whole;
    out.reductions = reductionsOf(facts);
    const Totals totals = totalsOf(facts);
    for (const auto &rank : facts.ranks)
        out.maxAbsError = std::max(out.maxAbsError, std::isfinite(rank.maxAbsError) ? rank.maxAbsError : INFINITY);
    if (totals.truth > 0.0) {
        out.ratio = totals.projection / totals.truth;
        for (const auto &rank : facts.ranks)
            out.ratios.push_back(rank.truth > 0.0 ? rank.projection / rank.truth : 1.0);
        if (facts.whole)
            out.ratio = *std::ranges::max_element(out.ratios, {}, [](double ratio) { return std::abs(ratio - 1.0); });
    }
    out.cause = judge.cause(facts);
    if (out.cause)
        out.explanation = explain(facts, *out.cause, microSteps, judge.addsUp(facts));
    return out;
}

bool alike(const ParameterGradient &a, const ParameterGradient &b) {
    return a.cause == b.cause && a.reductions == b.reductions && a.ratio.has_value() == b.ratio.has_value() &&
           (!a.ratio || std::abs(*a.ratio - *b.ratio) < 5e-4);
}

json number(double value) { return std::isfinite(value) ? json(value) : json(nullptr); }

} // namespace

std::string_view name(GradientCause cause) {
    constexpr std::array<std::string_view, 5> names{"partial", "needless sync p times", "repeated reduction",
                                                    "never synchronised", "wrongly sharded"};
    return names[static_cast<std::size_t>(cause)];
}

bool GradientReport::exact() const {
    return std::ranges::all_of(parameters, [](const ParameterGradient &parameter) { return !parameter.cause; });
}

GradientReport judgeGradients(const std::vector<GradientFacts> &facts, int microSteps, DType dtype) {
    const Judge judge(facts, microSteps, dtype);
    GradientReport report;
    report.microSteps = microSteps;
    report.tolerance = judge.tolerance();
    for (const GradientFacts &fact : facts) {
        for (std::size_t rank = 0; rank < (fact.whole ? 1 : fact.ranks.size()); ++rank) {
            report.reportedNorm += fact.ranks[rank].gradient;
            report.trueNorm += fact.ranks[rank].truth;
        }
        report.parameters.push_back(judged(fact, judge, microSteps));
    }
    report.reportedNorm = std::sqrt(report.reportedNorm);
    report.trueNorm = std::sqrt(report.trueNorm);
    return report;
}

std::vector<GradientFold> foldLayers(const GradientReport &report) {
    std::vector<GradientFold> folds;
    for (const ParameterGradient &parameter : report.parameters) {
        const std::string generic = genericName(parameter.name);
        const auto same = std::ranges::find_if(folds, [&](const GradientFold &fold) {
            return genericName(fold.first->name) == generic && alike(*fold.first, parameter);
        });
        if (same == folds.end()) {
            folds.push_back({parameter.name, 1, parameter.maxAbsError, &parameter});
        } else {
            same->name = generic;
            ++same->count;
            same->maxAbsError = std::max(same->maxAbsError, parameter.maxAbsError);
        }
    }
    return folds;
}

json toJson(const GradientFacts &facts) {
    json ranks = json::array();
    for (const auto &rank : facts.ranks)
        ranks.push_back(
            {rank.projection, rank.truth, rank.gradient, rank.error, rank.maxAbsError, rank.reductions});
    return {{"name", facts.name},
            {"whole", facts.whole},
            {"asks_sync", facts.asksSync},
            {"sum_error", facts.sumError},
            {"spread", facts.spread},
            {"ranks", std::move(ranks)}};
}

GradientFacts gradientFactsFromJson(const json &json) {
    GradientFacts facts;
    json.at("name").get_to(facts.name);
    json.at("whole").get_to(facts.whole);
    json.at("asks_sync").get_to(facts.asksSync);
    // JSON has no infinity.
    const auto real = [](const nlohmann::json &value) { return value.is_null() ? INFINITY : value.get<double>(); };
    facts.sumError = real(json.at("sum_error"));
    facts.spread = real(json.at("spread"));
    for (const auto &row : json.at("ranks"))
        facts.ranks.push_back({real(row.at(0)), real(row.at(1)), real(row.at(2)), real(row.at(3)), real(row.at(4)),
                               row.at(5).get<int>()});
    return facts;
}

json toJson(const ParameterGradient &parameter) {
    json ratios = json::array();
    for (const double ratio : parameter.ratios)
        ratios.push_back(number(ratio));
    json out{{"name", parameter.name},
             {"placement", parameter.whole ? "whole" : "sharded"},
             {"ratio", parameter.ratio ? number(*parameter.ratio) : json(nullptr)},
             {"ratio_per_rank", std::move(ratios)},
             {"max_abs_error", number(parameter.maxAbsError)},
             {"reductions", parameter.reductions},
             {"cause", nullptr}};
    if (parameter.cause) {
        out["cause"] = name(*parameter.cause);
        out["explanation"] = parameter.explanation;
    }
    return out;
}

} // namespace tpscope
