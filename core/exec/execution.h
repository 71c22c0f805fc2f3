// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exec/instructions.h"
#include "exec/processgroup.h"
#include "exec/ropefrequencies.h"
#include "exec/shardedmodel.h"

// What the kernels of the forward without gradients see. Internal to core/exec.
namespace tpscope {

// Keys and values of one rank, [batch, local kv heads, capacity, head_dim], allocated once at their first update.
struct KvCache {
    struct Layer {
        at::Tensor keys;
        at::Tensor values;
    };
    std::vector<Layer> layers;
    std::int64_t capacity = 0; // positions
    std::int64_t length = 0;   // positions that are filled
    std::vector<std::int64_t> padding = {}; // [batch] positions in front of each prompt; empty: none has any
};

struct ActivationFunction;

// Attributes of the module an operation belongs to, looked up once.
struct ModuleConstants {
    double eps = 0.0;
    double normOffset = 0.0;       // added to a norm's weight
    double embedScale = 1.0;
    double scaling = 1.0;
    std::int64_t headDim = 0;
    std::int64_t groups = 1;       // configured query heads a kv head
    std::int64_t window = 0;       // positions seen, 0 all
    std::size_t layer = 0;
    std::int64_t topK = 1;         // experts a token
    bool sumsToOne = false;        // their scores
    bool softmaxChosen = false;    // scores: softmax of the chosen alone
    std::int64_t expertGroups = 0; // > 0: sigmoid scores, chosen within the best groups
    std::int64_t chosenGroups = 0;
    double routedScaling = 1.0;
    double gluAlpha = 1.0;
    double gluLimit = 0.0;
    const ActivationFunction *activation = nullptr;
    const RopeFrequencies *rope = nullptr;
};

// Everything about a model that stays the same from call to call.
struct ExecutionModel {
    const ModelDescription &description;
    const InstructionList &list;
    const ShardedModel &weights;
    ProcessGroup *group = nullptr; // nullptr: one rank
    std::string attention;         // "sdpa" or "eager"
    std::map<std::string, RopeFrequencies> ropes = {}; // by layer type; "" where all types rotate alike
    std::vector<const LocalParameter *> parameters = {}; // by InstructionList::parameters
    std::vector<ModuleConstants> constants = {};         // by instruction

    // Binds the list's parameters, computes the rope. Errors: those of ropeFrequencies(), Unsupported for an operation
    // or activation without a kernel.
    static Result<ExecutionModel> make(const ModelDescription &description, const InstructionList &list,
                                       const ShardedModel &weights, ProcessGroup *group, const std::string &attention);
    int ranks() const { return group ? group->size() : 1; }
    int rank() const { return group ? group->rank() : 0; }
};

// The values of one shape of call (batch, tokens): buffers are allocated by the first call and used again by every later
// one, so that a decode step allocates nothing of its own.
struct Execution {
    const ExecutionModel &model;
    KvCache *cache = nullptr;
    std::int64_t batch = 1;
    std::int64_t tokens = 1;   // query tokens T of this call
    bool allLogits = false;    // of every token; else of the last
    std::vector<at::Tensor> slots = {};
    // Views that an instruction needs of its operands.
    struct Scratch {
        at::Tensor a, b, c;
    };
    std::vector<Scratch> scratch = {}; // by instruction
    std::vector<float> scores = {};    // of the attention that runs

    std::int64_t position() const { return cache->length; }           // of the first query token
    std::int64_t positions() const { return cache->length + tokens; } // S, the new tokens included

    at::Tensor &slot(int index) { return slots[static_cast<std::size_t>(index)]; }
    at::Tensor &input(const Instruction &instruction, std::size_t i) { return slot(instruction.in[i]); }
    // The tensor of an output slot, allocated unless it has this shape already.
    at::Tensor &output(const Instruction &instruction, std::size_t i, at::IntArrayRef shape, at::ScalarType type);
    const at::Tensor *parameter(const Instruction &instruction, std::size_t i) const;
    std::size_t indexOf(const Instruction &instruction) const {
        return static_cast<std::size_t>(&instruction - model.list.instructions.data());
    }
    const ModuleConstants &constants(const Instruction &instruction) const {
        return model.constants[indexOf(instruction)];
    }
    Scratch &scratchOf(const Instruction &instruction) { return scratch[indexOf(instruction)]; }
};

// One row a kind of operation, one a step between operations; nullptr: none. A kernel throws std::exception (LibTorch's
// included) where shapes do not meet.
using Kernel = void (*)(const Instruction &, Execution &);
Kernel kernelOf(const Instruction &instruction);

// Which kv head a query head meets.
struct HeadPairing {
    std::int64_t queriesPerKey = 1;
    std::int64_t queriesPerValue = 1;
    std::int64_t heads = 1; // of the output: a single local query head meets all repeated kv heads
};
// As transformers pairs them: sdpa without an explicit mask by local counts when the configured group count is more than
// one, otherwise by the configured count, where torch broadcasts a single head. Throws when the counts do not fit.
HeadPairing pairHeads(std::int64_t queries, std::int64_t keys, std::int64_t values, std::int64_t configuredGroups,
                      bool explicitMask, const std::string &attention);

// The scores and indices of the k chosen experts of each token. x [N,H], weight [E,H].
// correction [E]: of a router whose choice is limited to groups, else nullptr.
std::pair<at::Tensor, at::Tensor> chooseExperts(const at::Tensor &x, const at::Tensor &weight, const at::Tensor *bias,
                                                const at::Tensor *correction, const ModuleConstants &constants);
// The last dimension reordered: channels 0, 2, 4 ..., then 1, 3, 5 ...; contiguous.
at::Tensor firstsThenSeconds(const at::Tensor &x);
// Throws where an expert weight holds another number of experts than the module has on a rank.
void checkExperts(const at::Tensor &weight, const Instruction &instruction);
// Gate and up by turns along the last dimension, as gpt_oss computes them.
at::Tensor gluOfPairs(const at::Tensor &x, const ModuleConstants &constants);
// The local query heads as the pairing meets them, [B,heads,T,D].
at::Tensor pairedQueries(const at::Tensor &q, const HeadPairing &pairing);
// True where query t, which stands at position first + t, does not see the key: what lies ahead or, with a window, too far
// behind, and padding. [T,S], with padding [B,1,T,S]. A query that is padding itself sees what lies behind it, so that no
// row is empty; nobody reads what it gives.
at::Tensor hiddenKeys(std::int64_t first, std::int64_t tokens, std::int64_t window,
                      const std::vector<std::int64_t> &padding);
// softmax(q k^T scaling) v with one more score a head, the sink, whose share is dropped. q, keys, values [B,heads,T|S,D],
// hidden as hiddenKeys() gives it; sinks [heads].
at::Tensor attendWithSinks(const at::Tensor &q, const at::Tensor &keys, const at::Tensor &values, double scaling,
                           const at::Tensor &hidden, const at::Tensor &sinks);

// Rows of attention.cpp.
namespace kernels {
void cacheUpdate(const Instruction &instruction, Execution &execution);
void attend(const Instruction &instruction, Execution &execution);
// Rows of experts.cpp.
void flattenTokens(const Instruction &instruction, Execution &execution);
void batchTokens(const Instruction &instruction, Execution &execution);
void router(const Instruction &instruction, Execution &execution);
void expertProduct(const Instruction &instruction, Execution &execution);
void combineExperts(const Instruction &instruction, Execution &execution);
void interleavedGlu(const Instruction &instruction, Execution &execution);
void ownExperts(const Instruction &instruction, Execution &execution);
} // namespace kernels

} // namespace tpscope
