// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "run/runtrace.h"

// Is a gradient right, and if not, why: by rule, from what was measured on the ranks. No tensors in here.
namespace tpscope {

// What the ranks measured of one parameter. Truth: the number of micro-steps times the gradient of one backward on one
// rank, of which a rank that holds a shard has its slice.
struct GradientFacts {
    struct OfRank {
        double projection = 0.0; // <gradient, truth>
        double truth = 0.0;      // <truth, truth>, of this rank's slice
        double gradient = 0.0;   // <gradient, gradient>
        double error = 0.0;      // |gradient - truth|^2
        double maxAbsError = 0.0;
        int reductions = 0;      // all-reduces of it that were counted
    };
    std::string name;
    bool whole = true;        // every rank holds all of it
    bool asksSync = false;    // the plan's style says that its gradients are to be summed over the ranks
    // Whole parameters only.
    double sumError = 0.0;    // |sum of the ranks' gradients - truth|^2
    double spread = 0.0;      // the largest |gradient - mean of the ranks' gradients|^2
    std::vector<OfRank> ranks;
};

enum class GradientCause { Partial, NeedlessSync, RepeatedReduction, NeverSynchronised, WronglySharded };
std::string_view name(GradientCause cause); // "partial", "needless sync p times", "repeated reduction", ...

struct ParameterGradient {
    std::string name;
    bool whole = true;
    std::optional<double> ratio; // projection on the truth; not set where the truth is nothing. Of a whole parameter
                                 // that of the rank furthest from 1
    std::vector<double> ratios;  // by rank; empty where ratio is not set
    double maxAbsError = 0.0;
    int reductions = 0;          // the most of any rank
    std::optional<GradientCause> cause; // not set: exact
    std::string explanation;            // of the cause, a sentence
};

struct GradientReport {
    int microSteps = 1;
    double reportedNorm = 0.0; // of all gradients as training sees them: shards of all ranks, whole ones of rank 0
    double trueNorm = 0.0;
    double tolerance = 0.0;    // of |gradient - truth| / |truth|
    std::vector<ParameterGradient> parameters; // those that train, in the order of named_parameters()
    std::vector<double> losses;                // of rank 0, one a micro-step
    double trueLoss = 0.0;
    std::map<std::string, CollectiveCount> collectives; // of rank 0 in one micro-step, forward, backward and hooks
    bool exact() const;
};

// dtype: what the model computes in; decides the tolerance.
GradientReport judgeGradients(const std::vector<GradientFacts> &facts, int microSteps, DType dtype);

// Identical layers as one row: "model.layers.*.input_layernorm.weight" and how many.
struct GradientFold {
    std::string name;
    int count = 0;
    double maxAbsError = 0.0;                 // of all of them
    const ParameterGradient *first = nullptr; // borrows from the report
};
// Parameters of one generic name with the same cause and reductions, and ratios alike to three digits. In the order of
// the report.
std::vector<GradientFold> foldLayers(const GradientReport &report);

nlohmann::json toJson(const GradientFacts &facts);
GradientFacts gradientFactsFromJson(const nlohmann::json &json); // throws nlohmann::json::exception
nlohmann::json toJson(const ParameterGradient &parameter);

} // namespace tpscope
