// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/weightsource.h"

#include <QtTest>
#include <cstring>
#include <rapidcheck.h>

#include "model/floatconvert.h"

using namespace tpscope;
namespace fs = std::filesystem;

namespace {

ModelDescription modelWith(const Parameter &parameter) {
    ModelDescription model;
    const auto root = model.tree.add(std::nullopt, "", "Root");
    model.tree.modules[root.value].parameters = {parameter};
    return model;
}

// The slice by the plainest loop over all elements.
std::vector<std::byte> sliceOf(const std::vector<std::byte> &whole, const Shape &shape,
                               std::size_t elementBytes, std::size_t dim,
                               const IndexRanges &ranges) {
    std::size_t inner = elementBytes;
    for (std::size_t d = dim + 1; d < shape.size(); ++d)
        inner *= static_cast<std::size_t>(shape[d]);
    const auto size = static_cast<std::size_t>(shape[dim]);
    std::vector<std::byte> out;
    for (std::size_t row = 0; row * size * inner < whole.size(); ++row)
        for (const auto &[begin, end] : ranges)
            for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
                for (std::size_t b = 0; b < inner; ++b)
                    out.push_back(whole[(row * size + i) * inner + b]);
    return out;
}

} // namespace

class WeightSourceProperty : public QObject {
    Q_OBJECT
    QTemporaryDir m_folder;

private slots:
    void slicesAreSlicesOfTheWhole() {
        QVERIFY(rc::check("any slice equals the same part of the whole tensor", [&] {
            Parameter parameter{"w", Shape(*rc::gen::inRange<std::size_t>(1, 4)), DType::F32};
            for (std::int64_t &size : parameter.shape)
                size = *rc::gen::inRange<std::int64_t>(0, 9);
            parameter.dtype = *rc::gen::element(DType::F32, DType::BF16, DType::F16);
            const auto seed = *rc::gen::arbitrary<std::uint64_t>();
            const auto random = WeightSource::open({}, modelWith(parameter), seed);
            RC_ASSERT(random.has_value());
            const auto whole = *random->readSlice("w", -1, {});

            const auto dim = *rc::gen::inRange<std::size_t>(0, parameter.shape.size());
            IndexRanges ranges(*rc::gen::inRange<std::size_t>(0, 4));
            for (auto &[begin, end] : ranges) {
                begin = *rc::gen::inRange<std::int64_t>(0, parameter.shape[dim] + 1);
                end = *rc::gen::inRange<std::int64_t>(begin, parameter.shape[dim] + 1);
            }
            const auto expected =
                sliceOf(whole, parameter.shape, elementSize(parameter.dtype), dim, ranges);
            RC_ASSERT(*random->readSlice("w", int(dim), ranges) == expected);

            ModelSource source;
            source.weightFiles = {fs::path(m_folder.path().toStdString()) / "model.safetensors"};
            RC_ASSERT(writeSafetensors(source.weightFiles[0],
                                       {{"w", parameter.dtype, parameter.shape, whole}})
                          .has_value());
            const auto stored = WeightSource::open(source, modelWith(parameter), 0);
            RC_ASSERT(stored.has_value());
            RC_ASSERT(*stored->readSlice("w", int(dim), ranges) == expected);
            RC_ASSERT(stored->bytesCopied() == expected.size());
        }));
    }
};

QTEST_APPLESS_MAIN(WeightSourceProperty)
#include "weightsourceproperty.moc"
