// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/costrows.h"

#include <algorithm>

namespace tpscope {
namespace {

using RowResult = Result<OpCost>;

// Elements of a tensor without the dimension that grows with the context.
double elements(const Shape &shape) {
    double count = 1.0;
    for (const std::int64_t n : shape)
        count *= n == positionsDim ? 1.0 : static_cast<double>(n);
    return count;
}

double elements(const LocalShape &shape) { return shape ? elements(*shape) : 0.0; }

tl::unexpected<Error> mismatch(const OpScope &scope, const std::string &what) {
    const std::string module = scope.self.name.empty() ? "the model" : scope.self.name;
    return fail(ErrorCode::CannotRun, "cannot be simulated: at " + module + " (" +
                                          std::string(name(scope.operation.kind)) + ") " + what);
}

Result<Shape> inputOf(const OpScope &scope, std::size_t index, std::size_t rank) {
    if (index >= scope.in.size() || !scope.in[index])
        return mismatch(scope, "input " + std::to_string(index) + " is no tensor");
    const Shape &shape = *scope.in[index];
    if (shape.size() < rank)
        return mismatch(scope, "expected " + std::to_string(rank) + " dimensions, found " + toText(shape));
    return shape;
}

OpCost cost(const OpScope &scope, std::vector<LocalShape> out, double flops, int kernels, int fusedKernels) {
    OpCost result;
    WorkItem &work = result.work;
    work.op = name(scope.operation.kind);
    work.flops = flops;
    work.kernels = kernels;
    work.fusedKernels = fusedKernels;
    double moved = 0.0;
    for (const LocalShape &shape : scope.in)
        moved += elements(shape);
    for (const LocalShape &shape : out)
        moved += elements(shape);
    work.activationBytes = kernels > 0 ? moved * scope.elementBytes : 0.0;
    for (const Shape &shape : scope.parameters)
        work.weightBytes += elements(shape) * scope.parameterElementBytes;
    result.out = std::move(out);
    return result;
}

// A row that gives its first input's shape: `kernels` without a compiler, `flops` an element.
template <int kernels, int fusedKernels, int flops> RowResult likeInput(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {*x}, flops * elements(*x), kernels, fusedKernels);
}

RowResult embedding(const OpScope &scope) {
    const auto ids = inputOf(scope, 0, 2);
    if (!ids)
        return tl::unexpected(ids.error());
    if (scope.parameters.empty() || scope.parameters[0].size() != 2)
        return mismatch(scope, "expected a weight with 2 dimensions");
    const Shape &weight = scope.parameters[0];
    Shape out = *ids;
    out.push_back(weight[1]);
    OpCost result = cost(scope, {out}, 0.0, 1, 1);
    // Only the rows looked up are read, however large the table is.
    const double rows = std::min(static_cast<double>(weight[0]), elements(*ids));
    result.work.weightBytes = rows * static_cast<double>(weight[1]) * scope.parameterElementBytes;
    return result;
}

RowResult linear(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    if (!x)
        return tl::unexpected(x.error());
    if (scope.parameters.empty() || scope.parameters[0].size() != 2)
        return mismatch(scope, "expected a weight with 2 dimensions");
    const Shape &weight = scope.parameters[0];
    if (x->back() != weight[1])
        return mismatch(scope, "the input " + toText(*x) + " does not meet this rank's weight " + toText(weight));
    Shape out = *x;
    out.back() = weight[0];
    return cost(scope, {out}, 2.0 * elements(*x) * static_cast<double>(weight[0]), 1, 1);
}

// pow, mean, + eps, rsqrt, * and the product with the weight (and two casts, which are free in float32).
RowResult rmsNorm(const OpScope &scope) { return likeInput<6, 1, 4>(scope); }

RowResult elementwiseOfTwo(const OpScope &scope) {
    const auto a = inputOf(scope, 0, 1);
    const auto b = inputOf(scope, 1, 1);
    if (!a || !b)
        return tl::unexpected(a ? b.error() : a.error());
    Shape wide = *a, other = *b; // one of them may be a single channel
    if (wide.back() == 1)
        std::swap(wide, other);
    if (other.back() == 1)
        other.back() = wide.back();
    if (other != wide)
        return mismatch(scope, "shapes " + toText(*a) + " and " + toText(*b) + " differ");
    return cost(scope, {wide}, elements(wide), 1, 0);
}

RowResult viewHeads(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    if (!x)
        return tl::unexpected(x.error());
    const std::int64_t headDim = integerOf(scope.operation, "head_dim", scope.self.integer("head_dim"));
    if (headDim <= 0 || x->back() % headDim != 0)
        return mismatch(scope, toText(*x) + " cannot be viewed as heads of " + std::to_string(headDim));
    Shape out = *x;
    out.back() /= headDim;
    out.push_back(headDim);
    return cost(scope, {out}, 0.0, 0, 0);
}

RowResult transpose(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 4);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], (*x)[2], (*x)[1], (*x)[3]}}, 0.0, 0, 0);
}

// Expanding the frequencies, their product with the positions, cat, cos, sin, two scalings.
RowResult ropeTable(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    if (!x)
        return tl::unexpected(x.error());
    const Shape table{(*x)[0], (*x)[1], scope.self.integer("head_dim")};
    OpCost result = cost(scope, {table, table}, 4.0 * elements(table), 7, 1);
    result.work.activationBytes = 2.0 * elements(table) * scope.elementBytes;
    return result;
}

// For q and for k: neg and cat of rotate_half, two products, one sum.
RowResult rope(const OpScope &scope) {
    const auto q = inputOf(scope, 0, 4);
    const auto k = inputOf(scope, 1, 4);
    if (!q || !k)
        return tl::unexpected(q ? k.error() : q.error());
    return cost(scope, {*q, *k}, 3.0 * (elements(*q) + elements(*k)), 10, 1);
}

// One query token sees everything, so decode builds no mask; a prefill's is a comparison a cell.
RowResult causalMask(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    if (!x)
        return tl::unexpected(x.error());
    const std::int64_t tokens = (*x)[1];
    const int kernels = tokens > 1 ? 2 : 0;
    OpCost result = cost(scope, {std::nullopt}, 0.0, kernels, kernels > 0 ? 1 : 0);
    result.work.activationBytes = 0.0;
    result.work.cacheBytesPerPosition = kernels > 0 ? elements(Shape{(*x)[0], tokens}) : 0.0; // one byte a cell
    return result;
}

RowResult cacheUpdate(const OpScope &scope) {
    const auto k = inputOf(scope, 0, 4);
    const auto v = inputOf(scope, 1, 4);
    if (!k || !v)
        return tl::unexpected(k ? v.error() : k.error());
    const auto whole = [](Shape shape) {
        shape[2] = positionsDim;
        return shape;
    };
    OpCost result = cost(scope, {whole(*k), whole(*v)}, 0.0, 2, 1);
    result.work.activationBytes = 2.0 * (elements(*k) + elements(*v)) * scope.elementBytes;
    return result;
}

RowResult attend(const OpScope &scope) {
    const auto q = inputOf(scope, 0, 4);
    const auto k = inputOf(scope, 1, 4);
    const auto v = inputOf(scope, 2, 4);
    if (!q || !k || !v)
        return tl::unexpected(!q ? q.error() : !k ? k.error() : v.error());
    const std::int64_t heads = (*q)[1];
    for (const Shape &kv : {*k, *v})
        if (kv[1] <= 0 ? heads > 0 : heads % kv[1] != 0)
            return mismatch(scope, std::to_string(heads) + " query heads do not divide among " +
                                       std::to_string(kv[1]) + " key or value heads");
    OpCost result = cost(scope, {Shape{(*q)[0], (*q)[2], heads, (*v)[3]}}, 0.0, 1, 1);
    WorkItem &work = result.work;
    work.activationBytes = 2.0 * elements(*q) * scope.elementBytes;
    // Every position's key and value of every local head is read once: KV_r of REFERENCE section 6.
    work.cacheBytesPerPosition = (elements(*k) + elements(*v)) * scope.elementBytes;
    work.flopsPerPosition = 2.0 * elements(*q) + 2.0 * elements(Shape{(*q)[0], heads, (*q)[2], (*v)[3]});
    work.positionCap = scope.self.integer("sliding_window");
    return result;
}

RowResult mergeHeads(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 4);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], (*x)[1], (*x)[2] * (*x)[3]}}, 0.0, 0, 0);
}

// Generation keeps the last token's hidden state only (logits_to_keep = 1).
RowResult sliceTokens(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 3);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], std::min<std::int64_t>((*x)[1], 1), (*x)[2]}}, 0.0, 0, 0);
}

RowResult singleHead(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 3);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], 1, (*x)[1], (*x)[2]}}, 0.0, 0, 0);
}

RowResult dropHead(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 4);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], (*x)[2], (*x)[3]}}, 0.0, 0, 0);
}

RowResult catHeads(const OpScope &scope) {
    const auto a = inputOf(scope, 0, 4);
    const auto b = inputOf(scope, 1, 4);
    if (!a || !b)
        return tl::unexpected(a ? b.error() : a.error());
    Shape out = *a;
    out.back() += b->back();
    return cost(scope, {out}, 0.0, 1, 0);
}

RowResult slicePositions(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    if (!x)
        return tl::unexpected(x.error());
    Shape out = *x;
    const auto [begin, end] = slicedPositions(scope.operation, out.back());
    out.back() = end - begin;
    return cost(scope, {out}, 0.0, 0, 0);
}

RowResult flattenTokens(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    if (!x)
        return tl::unexpected(x.error());
    Shape out(x->begin() + 1, x->end());
    out.front() *= x->front();
    return cost(scope, {out}, 0.0, 0, 0);
}

RowResult batchTokens(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    const auto like = inputOf(scope, 1, 2);
    if (!x || !like)
        return tl::unexpected(x ? like.error() : x.error());
    Shape out{(*like)[0], (*like)[1]};
    out.insert(out.end(), x->begin() + 1, x->end());
    return cost(scope, {out}, 0.0, 0, 0);
}

// The product, softmax, top-k and its sum to one.
RowResult router(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    if (!x)
        return tl::unexpected(x.error());
    if (scope.parameters.empty() || scope.parameters[0].size() != 2 || x->back() != scope.parameters[0][1])
        return mismatch(scope, "the input " + toText(*x) + " does not meet the router's weight");
    const Shape chosen{(*x)[0], scope.self.integer("top_k", 1)};
    return cost(scope, {chosen, chosen}, 2.0 * elements(*x) * static_cast<double>(scope.parameters[0][0]), 5, 2);
}

// Only the experts that some token chose are read: at most one a choice.
RowResult expertProduct(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    const auto chosen = inputOf(scope, scope.in.size() > 1 ? 1 : 0, 2);
    if (!x || !chosen)
        return tl::unexpected(x ? chosen.error() : x.error());
    if (scope.parameters.empty() || scope.parameters[0].size() != 3)
        return mismatch(scope, "expected a weight with 3 dimensions");
    Shape weight = scope.parameters[0];
    if (scope.operation.attributes.contains("transposed"))
        std::swap(weight[1], weight[2]);
    if (x->back() != weight[2])
        return mismatch(scope, "the input " + toText(*x) + " does not meet this rank's weight " + toText(weight));
    const double products = static_cast<double>((*chosen)[0] * (*chosen)[1]);
    const double matrix = static_cast<double>(weight[1]) * static_cast<double>(weight[2]);
    OpCost result = cost(scope, {Shape{(*chosen)[0], (*chosen)[1], weight[1]}}, 2.0 * products * matrix, 1, 1);
    result.work.weightBytes = std::min(products, static_cast<double>(weight[0])) * matrix * scope.parameterElementBytes;
    return result;
}

RowResult spreadTokens(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 2);
    const auto scores = inputOf(scope, 1, 2);
    if (!x || !scores)
        return tl::unexpected(x ? scores.error() : x.error());
    const Shape out{(*x)[0], (*scores)[1], (*x)[1]};
    return cost(scope, {out}, elements(out), 2, 1);
}

RowResult sumExperts(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 3);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], (*x)[2]}}, elements(*x), 1, 1);
}

RowResult concat(const OpScope &scope) {
    Shape out;
    for (std::size_t i = 0; i < scope.in.size(); ++i) {
        const auto x = inputOf(scope, i, 1);
        if (!x)
            return tl::unexpected(x.error());
        const std::int64_t width = i == 0 ? 0 : out.back();
        out = *x;
        out.back() += width;
    }
    return cost(scope, {out}, 0.0, 1, 0);
}

RowResult convolve(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 3);
    if (!x)
        return tl::unexpected(x.error());
    if (scope.parameters.empty() || scope.parameters[0].size() != 3 || scope.parameters[0][0] != x->back())
        return mismatch(scope, "the input " + toText(*x) + " does not meet this rank's filters");
    return cost(scope, {*x}, 2.0 * elements(*x) * static_cast<double>(scope.parameters[0][2]), 4, 1);
}

// A state of [D, E] a head is decayed, corrected and read for each token.
RowResult deltaRule(const OpScope &scope) {
    const auto k = inputOf(scope, 1, 4);
    const auto v = inputOf(scope, 2, 4);
    if (!k || !v)
        return tl::unexpected(k ? v.error() : k.error());
    const double state = elements(*v) * static_cast<double>(k->back());
    OpCost result = cost(scope, {*v}, 7.0 * state, 16, 1);
    result.work.activationBytes += 2.0 * state / static_cast<double>(std::max<std::int64_t>(1, (*v)[1])) * 4.0;
    return result;
}

RowResult interleavedGlu(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 1);
    if (!x)
        return tl::unexpected(x.error());
    Shape out = *x;
    out.back() /= 2;
    return cost(scope, {out}, 6.0 * elements(out), 6, 0);
}

RowResult combineExperts(const OpScope &scope) {
    const auto x = inputOf(scope, 0, 3);
    if (!x)
        return tl::unexpected(x.error());
    return cost(scope, {Shape{(*x)[0], (*x)[2]}}, 2.0 * elements(*x), 2, 1);
}

RowResult select(const OpScope &scope) {
    return cost(scope, {scope.in.empty() ? LocalShape{} : scope.in.front()}, 0.0, 0, 0);
}

struct CostRow {
    OpKind kind;
    RowResult (*cost)(const OpScope &);
};

constexpr CostRow rows[] = {
    {OpKind::Embedding, embedding},   {OpKind::Linear, linear},
    {OpKind::RmsNorm, rmsNorm},       {OpKind::Activation, likeInput<1, 0, 4>},
    {OpKind::Multiply, elementwiseOfTwo}, {OpKind::Add, elementwiseOfTwo},
    {OpKind::ViewHeads, viewHeads},   {OpKind::Transpose, transpose},
    {OpKind::RopeTable, ropeTable},   {OpKind::Rope, rope},
    {OpKind::CausalMask, causalMask}, {OpKind::CacheUpdate, cacheUpdate},
    {OpKind::Attend, attend},         {OpKind::MergeHeads, mergeHeads},
    {OpKind::SliceTokens, sliceTokens}, {OpKind::Slice, slicePositions},
    {OpKind::SingleHead, singleHead}, {OpKind::DropHead, dropHead},
    {OpKind::CatHeads, catHeads},
    {OpKind::FlattenTokens, flattenTokens}, {OpKind::BatchTokens, batchTokens},
    {OpKind::Router, router},         {OpKind::ExpertProduct, expertProduct},
    {OpKind::InterleavedGlu, interleavedGlu},
    {OpKind::CombineExperts, combineExperts}, {OpKind::Scale, likeInput<1, 0, 1>}, {OpKind::Select, select},
    {OpKind::LayerNorm, likeInput<8, 1, 4>}, {OpKind::UnitNorm, likeInput<5, 1, 3>},
    {OpKind::Clamp, likeInput<1, 0, 2>}, {OpKind::Softcap, likeInput<3, 0, 3>}, {OpKind::CappedAttend, attend},
    {OpKind::PositionScale, likeInput<1, 0, 5>}, {OpKind::Concat, concat},
    {OpKind::Convolve, convolve}, {OpKind::DeltaRule, deltaRule},
    {OpKind::GroupRouter, router}, {OpKind::SpreadTokens, spreadTokens}, {OpKind::SumExperts, sumExperts},
};

} // namespace

Result<OpCost> costOf(const OpScope &scope) {
    for (const CostRow &row : rows)
        if (row.kind == scope.operation.kind)
            return row.cost(scope);
    return fail(ErrorCode::Unsupported, "the cost model has no row for '" +
                                            std::string(name(scope.operation.kind)) + "'");
}

} // namespace tpscope
