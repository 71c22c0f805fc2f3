// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/weightsource.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "model/floatconvert.h"
#include "model/randomweights.h"

namespace tpscope {
namespace {

std::string fullName(const Module &module, const Parameter &parameter) {
    return module.name.empty() ? parameter.name : module.name + "." + parameter.name;
}

const Parameter *findParameter(const ModuleTree &tree, const std::string &name) {
    const std::size_t dot = name.rfind('.');
    const Module *module =
        tree.find(dot == std::string::npos ? "" : std::string_view(name).substr(0, dot));
    if (!module)
        return nullptr;
    const std::string local = dot == std::string::npos ? name : name.substr(dot + 1);
    const Parameter *parameter = module->parameter(local);
    return parameter ? parameter : module->buffer(local);
}

// The parameter that a tied one shares its tensor with; the name itself when it is not a target.
std::string tieSource(const ModuleTree &tree, const std::string &name) {
    const auto tie = std::ranges::find(tree.ties, name, &Tie::target);
    return tie == tree.ties.end() ? name : tie->source;
}

// The names its tensor may have in a checkpoint: its own first, then its source, then the source's
// other targets. Source: transformers 5.24 modeling_utils.py, tie_weights ("tying is symmetric").
std::vector<std::string> storedNames(const ModuleTree &tree, const std::string &name) {
    const std::string source = tieSource(tree, name);
    std::vector<std::string> names{name, source};
    for (const Tie &tie : tree.ties)
        if (tie.source == source)
            names.push_back(tie.target);
    return names;
}

std::string describeTensor(DType dtype, const Shape &shape) {
    return std::string(safetensorsName(dtype)) + " " + shortened(toText(shape), 80);
}

// False when the bytes of the shape cannot be counted in 63 bits: a config of absurd sizes.
bool isCountable(const Parameter &parameter) {
    auto bytes = static_cast<std::int64_t>(elementSize(parameter.dtype));
    return std::ranges::none_of(parameter.shape, [&](std::int64_t size) {
        return size < 0 || __builtin_mul_overflow(bytes, size, &bytes);
    });
}

// A slice as runs of consecutive elements: `outer` times each range, `inner` elements an index.
struct Runs {
    std::uint64_t outer = 1;
    std::uint64_t size = 1; // of the sliced dimension
    std::uint64_t inner = 1;
    IndexRanges ranges;

    std::uint64_t elements() const {
        std::uint64_t indices = 0;
        for (const auto &[begin, end] : ranges)
            indices += static_cast<std::uint64_t>(end - begin);
        return outer * indices * inner;
    }
};

Result<Runs> runsOf(const std::string &name, const Shape &shape, int dim,
                    const IndexRanges &ranges) {
    if (dim == -1)
        return Runs{1, 1, static_cast<std::uint64_t>(elementCount(shape)), {{0, 1}}};
    const auto wrong = [&](const std::string &what) {
        return fail(ErrorCode::Usage,
                    "parameter " + inQuotes(name) + " " + toText(shape) + ": " + what);
    };
    if (dim < -1 || dim >= static_cast<int>(shape.size()))
        return wrong("no dimension " + std::to_string(dim));
    const auto d = static_cast<std::size_t>(dim);
    Runs runs;
    for (std::size_t i = 0; i < shape.size(); ++i)
        (i < d   ? runs.outer
         : i > d ? runs.inner
                 : runs.size) *= static_cast<std::uint64_t>(shape[i]);
    for (const auto &[begin, end] : ranges)
        if (begin < 0 || end < begin || end > shape[d])
            return wrong("indices " + std::to_string(begin) + " to " + std::to_string(end) +
                         " of dimension " + std::to_string(dim) + " lie outside");
    runs.ranges = ranges;
    return runs;
}

} // namespace

Result<WeightSource> WeightSource::open(const ModelSource &source, const ModelDescription &model,
                                        std::uint64_t seed) {
    if (source.unreadableWeights)
        return tl::unexpected(*source.unreadableWeights);
    WeightSource weights;
    weights.m_seed = seed;
    if (source.hasWeights()) {
        if (const auto raw = model.config.json().find("quantization_config");
            raw != model.config.json().end() && raw->is_object())
            return fail(ErrorCode::Unsupported,
                        "the weights are quantised (quantization_config: " +
                            shortened(raw->value("quant_method", std::string("of no named method"))) +
                            "), and TPScope computes with floating-point weights only; give an unquantised checkpoint, "
                            "or a config.json alone for random weights",
                        Location{model.config.fileName()});
        auto checkpoint = Checkpoint::open(source.weightFiles, source.indexPath);
        if (!checkpoint)
            return tl::unexpected(checkpoint.error());
        weights.m_checkpoint = std::make_shared<const Checkpoint>(std::move(*checkpoint));
    }
    if (const auto added = weights.addParameters(model); !added)
        return tl::unexpected(added.error());
    return weights;
}

Result<void> WeightSource::addParameters(const ModelDescription &model) {
    for (const Module &module : model.tree.modules)
        for (std::size_t i = 0; i < module.parameters.size() + module.buffers.size(); ++i) {
            const Parameter &parameter = i < module.parameters.size() ? module.parameters[i]
                                                                      : module.buffers[i - module.parameters.size()];
            const std::string name = fullName(module, parameter);
            if (!isCountable(parameter))
                return fail(ErrorCode::BadInput,
                            "parameter " + inQuotes(name) + " " + toText(parameter.shape) +
                                " is larger than any machine",
                            Location{model.config.fileName()});
            Origin origin;
            origin.shape = parameter.shape;
            origin.dtype = parameter.dtype;
            const auto found =
                m_checkpoint ? findStored(model, name, origin) : findRandom(model, name, origin);
            if (!found)
                return found;
            m_origins.emplace(name, std::move(origin));
        }
    return {};
}

Result<void> WeightSource::findRandom(const ModelDescription &model, const std::string &name,
                                      Origin &origin) const {
    if (!isConvertible(origin.dtype))
        return fail(ErrorCode::Unsupported,
                    "parameter " + inQuotes(name) + ": no random values of dtype " +
                        std::string(torchName(origin.dtype)),
                    Location{model.config.fileName()});
    origin.tensor = tieSource(model.tree, name);
    const Parameter *parameter = findParameter(model.tree, origin.tensor);
    if (!parameter)
        parameter = findParameter(model.tree, name);
    origin.mean = parameter->initMean;
    origin.std = parameter->initStd;
    return {};
}

Result<void> WeightSource::findStored(const ModelDescription &model, const std::string &name,
                                      Origin &origin) const {
    for (const std::string &candidate : storedNames(model.tree, name))
        if (!origin.entry && (origin.entry = m_checkpoint->find(candidate)))
            origin.tensor = candidate;
    if (origin.entry)
        origin.file = m_checkpoint->fileOf(origin.tensor);
    if (!origin.entry)
        if (const Parameter *parameter = findParameter(model.tree, name)) {
            const auto found = findParts(model, *parameter, origin);
            if (!found || *found)
                return found ? Result<void>() : tl::unexpected(found.error());
        }
    if (!origin.entry) {
        const std::string near = nearest(name, m_checkpoint->names());
        return fail(ErrorCode::BadInput,
                    "tensor " + inQuotes(name) + " is missing from the checkpoint; expected " +
                        describeTensor(origin.dtype, origin.shape) +
                        (near.empty() ? std::string() : "; the nearest name there is " + inQuotes(near)),
                    Location{model.config.fileName()});
    }
    return checkStored(origin);
}

Result<void> WeightSource::checkStored(const Origin &origin) const {
    const SafetensorsFile *file = m_checkpoint->fileOf(origin.tensor);
    const bool readable = origin.entry->dtype == origin.dtype ||
                          (isConvertible(origin.dtype) && isConvertible(origin.entry->dtype));
    if (origin.entry->shape != origin.shape || !readable)
        return fail(ErrorCode::BadInput,
                    "tensor " + inQuotes(origin.tensor) + ": expected " + describeTensor(origin.dtype, origin.shape) +
                        " by the config, found " + describeTensor(origin.entry->dtype, origin.entry->shape),
                    Location{file->path().string()});
    return {};
}

// False: the parameter is not stored under other names. Source: transformers 5.24 conversion_mapping.py.
Result<bool> WeightSource::findParts(const ModelDescription &model, const Parameter &parameter, Origin &origin) const {
    const std::size_t names = parameter.storedAs.size();
    if (names == 0)
        return false;
    const bool stacked = parameter.storedInParts();
    const std::int64_t count = stacked ? origin.shape.at(0) : 1;
    for (std::int64_t index = 0; index < count; ++index)
        for (std::string name : parameter.storedAs) {
            if (const std::size_t hole = name.find("{}"); hole != std::string::npos)
                name.replace(hole, 2, std::to_string(index));
            Origin part;
            part.dtype = origin.dtype;
            part.shape = stacked ? Shape{origin.shape.at(1) / static_cast<std::int64_t>(names), origin.shape.at(2)}
                                 : origin.shape;
            part.tensor = name;
            part.entry = m_checkpoint->find(name);
            if (!part.entry)
                return index == 0 ? Result<bool>(false)
                                  : fail(ErrorCode::BadInput, "tensor " + inQuotes(name) + " is missing from the checkpoint",
                                         Location{model.config.fileName()});
            if (const auto checked = checkStored(part); !checked)
                return tl::unexpected(checked.error());
            part.file = m_checkpoint->fileOf(name);
            if (!stacked) {
                origin = std::move(part);
                return true;
            }
            origin.parts.push_back(std::move(part));
        }
    return true;
}

Result<std::size_t> WeightSource::sliceBytes(const std::string &parameter, int dim,
                                             const IndexRanges &ranges) const {
    const auto origin = m_origins.find(parameter);
    if (origin == m_origins.end())
        return fail(ErrorCode::Usage, "no parameter " + inQuotes(parameter));
    const auto runs = runsOf(parameter, origin->second.shape, dim, ranges);
    if (!runs)
        return tl::unexpected(runs.error());
    return static_cast<std::size_t>(runs->elements()) * elementSize(origin->second.dtype);
}

Result<void> WeightSource::readSlice(const std::string &parameter, int dim,
                                     const IndexRanges &ranges, std::span<std::byte> out) const {
    const auto bytes = sliceBytes(parameter, dim, ranges);
    if (!bytes)
        return tl::unexpected(bytes.error());
    if (out.size() != *bytes)
        return fail(ErrorCode::Usage, "parameter " + inQuotes(parameter) + ": the slice has " +
                                          std::to_string(*bytes) + " bytes, the buffer " +
                                          std::to_string(out.size()));
    const Origin &origin = m_origins.at(parameter);
    for (const Origin &stored : origin.parts.empty() ? std::span(&origin, 1) : std::span(origin.parts))
        if (stored.file && !stored.file->unchanged())
            return fail(ErrorCode::RunFailed, "the file changed its size while it was read; run again",
                        Location{stored.file->path().string()});
    const auto runs = runsOf(parameter, origin.shape, dim, ranges);
    std::byte *next = out.data();
    for (std::uint64_t block = 0; block < runs->outer; ++block)
        for (const auto &[begin, end] : runs->ranges) {
            const std::uint64_t first =
                (block * runs->size + static_cast<std::uint64_t>(begin)) * runs->inner;
            const std::uint64_t count = static_cast<std::uint64_t>(end - begin) * runs->inner;
            if (count > 0)
                copy(origin, first, count, next);
            next += count * elementSize(origin.dtype);
        }
    return {};
}

Result<std::vector<std::byte>> WeightSource::readSlice(const std::string &parameter, int dim,
                                                       const IndexRanges &ranges) const {
    const auto bytes = sliceBytes(parameter, dim, ranges);
    if (!bytes)
        return tl::unexpected(bytes.error());
    std::vector<std::byte> out(*bytes);
    if (const auto read = readSlice(parameter, dim, ranges, out); !read)
        return tl::unexpected(read.error());
    return out;
}

void WeightSource::copy(const Origin &origin, std::uint64_t first, std::uint64_t count,
                        std::byte *out) const {
    if (!origin.parts.empty()) { // all of one size, one behind the other
        const auto size = static_cast<std::uint64_t>(elementCount(origin.parts.front().shape));
        while (count > 0) {
            const std::uint64_t within = first % size;
            const std::uint64_t now = std::min(count, size - within);
            copy(origin.parts[static_cast<std::size_t>(first / size)], within, now, out);
            out += now * elementSize(origin.dtype);
            first += now;
            count -= now;
        }
        return;
    }
    if (origin.entry) {
        const std::size_t size = elementSize(origin.entry->dtype);
        const auto bytes = origin.file->bytes(*origin.entry).subspan(first * size, count * size);
        convertFloats(bytes.data(), origin.entry->dtype, out, origin.dtype, count);
        m_bytesCopied->fetch_add(bytes.size());
        return;
    }
    const RandomTensor random(m_seed, origin.tensor, origin.mean, origin.std);
    float block[4096];
    for (std::uint64_t done = 0; done < count; done += std::size(block)) {
        const auto n = std::min<std::uint64_t>(std::size(block), count - done);
        random.fill(first + done, n, block);
        convertFloats(reinterpret_cast<const std::byte *>(block), DType::F32,
                      out + done * elementSize(origin.dtype), origin.dtype, n);
    }
}

} // namespace tpscope
