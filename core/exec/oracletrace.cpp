// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/oracletrace.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "exec/exchange.h"
#include "run/prompts.h"
#include "shard/shardlayout.h"

namespace tpscope {
namespace {

bool isEdge(Step step) { return step == Step::AllReduce || step == Step::AllGather || step == Step::AddBias; }

// What a value is on a rank.
struct Judged {
    bool right = false;    // one rank's whole value, or this rank's shard of it
    bool sameShape = false;
    double error = 0.0;    // of the element that is furthest off
    double expected = 0.0;
    double found = 0.0;
    double position = -1.0; // of that element in the reference, row-major; -1: shapes cannot be compared
};

class Comparer {
public:
    Comparer(DType dtype, ProcessGroup *group)
        : m_group(group), m_share(oracleTolerance(dtype)) {}

    // The ranks' views of one value; nullopt: it is right, or becomes so when summed.
    std::optional<Divergence> compare(const at::Tensor &truth, const at::Tensor &own) const;

private:
    Judged judge(const at::Tensor &truth, const at::Tensor &own) const;
    Judged against(const at::Tensor &truth, const at::Tensor &positions, const at::Tensor &expected,
                   const at::Tensor &own) const;
    double tolerance(const at::Tensor &truth) const {
        return truth.numel() ? m_share * truth.abs().max().item<double>() : 0.0;
    }
    int size() const { return m_group ? m_group->size() : 1; }
    int rank() const { return m_group ? m_group->rank() : 0; }

    ProcessGroup *m_group;
    double m_share; // of the largest element, that rounding may take
};

Judged Comparer::against(const at::Tensor &truth, const at::Tensor &positions, const at::Tensor &expected,
                         const at::Tensor &own) const {
    Judged out;
    if (own.numel() == 0) {
        out.right = true;
        return out;
    }
    const at::Tensor error = at::nan_to_num((own - expected).abs(), INFINITY, INFINITY).reshape({-1});
    const auto worst = error.argmax().item<std::int64_t>();
    out.error = error[worst].item<double>();
    out.right = out.error <= tolerance(truth);
    out.expected = expected.reshape({-1})[worst].item<double>();
    out.found = own.reshape({-1})[worst].item<double>();
    out.position = static_cast<double>(positions.reshape({-1})[worst].item<std::int64_t>());
    return out;
}

Judged Comparer::judge(const at::Tensor &truth, const at::Tensor &own) const {
    const at::Tensor positions = at::arange(truth.numel(), at::kLong).view(truth.sizes());
    if (own.sizes() == truth.sizes()) {
        Judged out = against(truth, positions, truth, own);
        out.sameShape = true;
        return out;
    }
    std::optional<std::int64_t> dim;
    bool one = own.dim() == truth.dim();
    for (std::int64_t d = 0; one && d < own.dim(); ++d)
        if (own.size(d) != truth.size(d))
            one = !std::exchange(dim, d).has_value();
    Judged best;
    if (!one)
        return best;
    for (const int groups : {1, 2}) {
        std::vector<at::Tensor> values;
        std::vector<at::Tensor> places;
        std::int64_t held = 0;
        for (const Interval &interval : heldIntervals(truth.size(*dim), size(), Rank(rank()), groups)) {
            values.push_back(truth.narrow(*dim, interval.begin, interval.size()));
            places.push_back(positions.narrow(*dim, interval.begin, interval.size()));
            held += interval.size();
        }
        if (held != own.size(*dim) || values.empty())
            continue;
        const Judged judged = against(truth, at::cat(places, *dim), at::cat(values, *dim), own);
        if (best.position < 0.0 || judged.error < best.error)
            best = judged;
    }
    if (own.numel() == 0)
        best.right = true;
    return best;
}

std::optional<Divergence> Comparer::compare(const at::Tensor &truth, const at::Tensor &own) const {
    const Judged judged = judge(truth, own);
    const auto rows = exchange::ofAll({judged.right ? 1.0 : 0.0, judged.sameShape ? 1.0 : 0.0, judged.error,
                                       judged.expected, judged.found, judged.position}, m_group);
    const auto all = [&](std::size_t column) {
        return std::ranges::all_of(rows, [&](const auto &row) { return row[column] != 0.0; });
    };
    if (all(0))
        return std::nullopt;
    if (all(1) && m_group) { // a term of a sum that is still to come
        const at::Tensor apart = (exchange::sum(own, m_group) - truth).abs().max();
        if (apart.item<double>() <= tolerance(truth))
            return std::nullopt;
    }
    Divergence out;
    const auto badness = [](const std::vector<double> &row) {
        return row[0] != 0.0 ? -1.0 : row[5] < 0.0 ? std::numeric_limits<double>::infinity() : row[2];
    };
    out.rank = static_cast<int>(std::ranges::max_element(rows, {}, badness) - rows.begin());
    const std::vector<double> &row = rows[static_cast<std::size_t>(out.rank)];
    out.expectedShape = truth.sizes().vec();
    std::vector<double> shape(8, 0.0);
    shape[0] = static_cast<double>(own.dim());
    std::ranges::copy(own.sizes(), shape.begin() + 1);
    const std::vector<double> itsShape = exchange::ofAll(shape, m_group)[static_cast<std::size_t>(out.rank)];
    for (std::size_t d = 0; d < static_cast<std::size_t>(itsShape[0]); ++d)
        out.foundShape.push_back(static_cast<std::int64_t>(itsShape[d + 1]));
    if (row[5] < 0.0)
        return out;
    out.expected = row[3];
    out.found = row[4];
    auto position = static_cast<std::int64_t>(row[5]);
    for (std::size_t d = out.expectedShape.size(); d-- > 0;) {
        out.index.insert(out.index.begin(), position % out.expectedShape[d]);
        position /= out.expectedShape[d];
    }
    return out;
}

// Which value of the reference a value must be: by module and number of the operation; an edge passes on its operand's.
class Pairing {
public:
    explicit Pairing(const std::vector<TracedValue> &own) {
        for (const TracedValue &value : own) {
            Key key{value.module.value, value.number};
            if (value.step != Step::Operation)
                if (const auto from = m_bySlot.find(value.in); from != m_bySlot.end())
                    key = from->second;
            m_bySlot[value.out] = key;
            m_keys.push_back(key);
        }
    }
    // Position in the reference of own[i]; -1 none.
    double positionOf(std::size_t i, const std::vector<TracedValue> &reference) const {
        for (std::size_t at = 0; at < reference.size(); ++at)
            if (reference[at].step == Step::Operation && reference[at].module.value == m_keys[i].first &&
                reference[at].number == m_keys[i].second)
                return reference[at].value.defined() ? static_cast<double>(at) : -1.0;
        return -1.0;
    }

private:
    using Key = std::pair<std::size_t, int>;
    std::map<int, Key> m_bySlot;
    std::vector<Key> m_keys;
};

// The edges of the same module come first: until then a value is a part.
bool isUnfinished(const std::vector<TracedValue> &own, std::size_t i) {
    return i + 1 < own.size() && isEdge(own[i + 1].step) && own[i + 1].in == own[i].out &&
           own[i + 1].module.value == own[i].module.value;
}

std::string operationOf(const TracedValue &value) {
    switch (value.step) {
    case Step::Operation: return std::string(name(value.kind));
    case Step::AllReduce: return "all_reduce";
    case Step::AllGather: return "all_gather";
    case Step::AddBias: return "add_bias";
    case Step::SplitInput: return "split_input";
    case Step::DivideInput: return "divide_input";
    default: return "?";
    }
}

} // namespace

std::vector<TracedValue> traceValues(const ExecutionModel &model, const std::vector<std::vector<std::int64_t>> &ids,
                                     const RunClock &clock, RankPage page) {
    const PromptBatch prompts = PromptBatch::of(ids);
    KvCache cache;
    cache.padding = prompts.padding;
    cache.capacity = prompts.tokens;
    cache.layers.resize(static_cast<std::size_t>(model.description.dims.layers));
    std::vector<TracedValue> values;
    std::map<std::size_t, int> numbers; // by module
    Inference prompt(model, prompts.rows, prompts.tokens, false, clock, page);
    prompt.observe([&](const Instruction &instruction, Execution &execution) {
        const bool operation = instruction.step == Step::Operation;
        for (const int slot : instruction.out) {
            TracedValue value;
            value.step = instruction.step;
            value.kind = operation ? instruction.operation->kind : OpKind::Add;
            value.module = instruction.module;
            value.out = slot;
            value.in = instruction.in.empty() ? -1 : instruction.in.front();
            value.number = operation ? numbers[instruction.module.value]++ : -1;
            // The cache holds what went in, and places nobody wrote yet.
            if (const at::Tensor &result = execution.slot(slot);
                result.defined() && value.kind != OpKind::CacheUpdate)
                value.value = result.to(at::kFloat).clone(at::MemoryFormat::Contiguous);
            values.push_back(std::move(value));
        }
    });
    prompt.run(prompts.ids, cache, true, -1);
    return values;
}

std::optional<Divergence> firstDivergence(const std::vector<TracedValue> &reference,
                                          const std::vector<TracedValue> &own, const ModelDescription &model,
                                          ProcessGroup *group) {
    const Pairing pairing(own);
    const Comparer comparer(model.dtype, group);
    for (std::size_t i = 0; i < own.size(); ++i) {
        if (!own[i].value.defined() || isUnfinished(own, i))
            continue;
        // Only rank 0 has the reference, so it decides for all.
        const double position = exchange::ofAll({pairing.positionOf(i, reference)}, group)[0][0];
        if (position < 0.0)
            continue;
        const at::Tensor mine =
            reference.empty() ? at::Tensor() : reference[static_cast<std::size_t>(position)].value;
        auto found = comparer.compare(exchange::ofFirst(mine, at::kFloat, group), own[i].value);
        if (!found)
            continue;
        const Module &module = model.tree.at(own[i].module);
        found->module = module.name.empty() ? module.className : module.name;
        found->operation = operationOf(own[i]);
        return found;
    }
    return std::nullopt;
}

} // namespace tpscope
