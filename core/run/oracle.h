// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "run/decoderunner.h"
#include "run/gradientreport.h"

// What `tpscope verify` and `tpscope gradcheck` ask: is a model under a plan on tp ranks what it is on one rank?
namespace tpscope {

struct OracleRequest {
    RunConfig config;       // model, plan, prompt, hooks; newTokens and repeat are not read
    bool logits = true;     // compare the prefill and decodeSteps steps after it
    bool gradients = false; // compare gradients, when the logits are right or not asked for
    int decodeSteps = 4;    // fed with the ids one rank chooses, so that both sides see the same tokens
    int microSteps = 1;     // backwards accumulated before the gradients are looked at
    std::vector<std::string> trainable; // patterns of parameters; empty: all
    bool gradientCheckpointing = false; // layers are computed again in the backward
    std::string python;                 // transformers: what --python names; empty: the Python that is found
};

// A RunConfig's request (run/rankrequest.h) with the entry "oracle".
nlohmann::json requestToJson(const OracleRequest &request);
// nullopt: the request is a run's. Errors: BadInput naming the key.
Result<std::optional<OracleRequest>> oracleRequestFromJson(const nlohmann::json &json);

// The first value, in call order, that is neither one rank's whole value, nor this rank's shard of it, nor a term whose
// sum over the ranks is one rank's value.
struct Divergence {
    std::string module;    // full name, the class where a module has none
    std::string operation; // "linear", "attend", "all_reduce", ...
    int rank = 0;          // where it is worst
    // The element that is furthest off: both values and its index in one rank's value. Not set where shapes differ.
    std::optional<double> expected;
    std::optional<double> found;
    std::vector<std::int64_t> index;
    std::vector<std::int64_t> expectedShape; // of one rank
    std::vector<std::int64_t> foundShape;    // of that rank
};

struct LogitComparison {
    double maxAbsError = 0.0;    // over prefill, decode steps and ranks; infinite where a logit is no number
    double tolerance = 0.0;      // of that error: a share of the largest logit, by dtype
    std::optional<int> wrongStep; // the first wrong one: -1 the prefill, then decode steps from 0
    bool shapesDiffer = false;   // maxAbsError then says nothing
    std::vector<std::int64_t> expectedShape; // of the prefill's logits
    std::vector<std::int64_t> foundShape;
    bool right() const { return !shapesDiffer && maxAbsError <= tolerance; }
};

// Share of the largest value that rounding may take.
double oracleTolerance(DType dtype);

struct OracleReport {
    enum class Verdict { Right, WrongLogits, WrongGradients, Failed };
    Verdict verdict = Verdict::Failed;
    // A forward or backward that raises: where ("load", "forward", "training") and what it says. "" none.
    std::string failedStage;
    std::string failure;
    std::string failureKind;         // transformers: the exception's class
    std::optional<int> failureRank;  // transformers: whose words these are
    std::optional<LogitComparison> logits;    // not set: not asked for, or not reached
    std::optional<Divergence> divergence;     // not set: none, or none was found
    std::optional<GradientReport> gradients;  // not set: not asked for, or not reached
    std::optional<std::map<std::string, CollectiveCount>> predictedCollectives; // of a micro-step; see predictCollectives()
    std::string attention;
    std::string dtype;
    Environment environment;
    std::vector<std::string> statements; // what a reader must know beside the numbers
};
// What rank 0 exchanges in one micro-step, by rule. nullopt where no rule says it: some parameters do not train, layers are
// computed again, tokens travel to experts, the flow is not described.
std::optional<std::map<std::string, CollectiveCount>> predictCollectives(const RunInput &input,
                                                                         const OracleRequest &request);
// From what the report holds, by the same rule for every backend.
OracleReport::Verdict judge(const OracleReport &report, const OracleRequest &request);
std::string_view name(OracleReport::Verdict verdict); // "right", "wrong-logits", "wrong-gradients", "failed"

// The JSON of `tpscope verify`.
nlohmann::json toJson(const OracleReport &report, const OracleRequest &request);
// The JSON of `tpscope gradcheck`: of the gradients alone.
nlohmann::json gradientsToJson(const OracleReport &report, const OracleRequest &request);


// Runs config.tp processes of this program that meet through Gloo; rank 0 also computes the reference on its own. What
// comes back is measured. A forward or backward that raises is a report, no error. Blocking.
// program: one that runs a rank when called with "rank"; empty: the one that is running.
// Errors: those of launchRanks(), Unsupported (no description of the flow), Usage (prompts).
Result<OracleReport> runOracle(const RunInput &input, const OracleRequest &request, EventSink &sink,
                               std::stop_token stop, const std::filesystem::path &program = {});

} // namespace tpscope
