// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/randomweights.h"

#include <QtTest>
#include <cmath>
#include <thread>
#include <vector>

using namespace tpscope;

namespace {

using Words = std::array<std::uint32_t, 4>;

std::vector<float> filled(const RandomTensor &tensor, std::uint64_t first, std::uint64_t count) {
    std::vector<float> out(count);
    tensor.fill(first, count, out.data());
    return out;
}

double correlation(const std::vector<float> &a, const std::vector<float> &b) {
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        ab += double(a[i]) * b[i];
        aa += double(a[i]) * a[i];
        bb += double(b[i]) * b[i];
    }
    return ab / std::sqrt(aa * bb);
}

} // namespace

class RandomWeightsTest : public QObject {
    Q_OBJECT
private slots:
    // Known answers of the authors' Random123 1.14, tests/kat_vectors, philox4x32 10.
    void knownAnswers() {
        QCOMPARE(philox4x32({0, 0, 0, 0}, {0, 0}),
                 (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
        QCOMPARE(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
                 (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
        QCOMPARE(
            philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    }

    void anElementHasOneValue() {
        const RandomTensor tensor(42, "model.layers.0.self_attn.q_proj.weight", 0.5, 2.0);
        const std::vector<float> all = filled(tensor, 0, 3000);
        for (const std::uint64_t first : {0u, 1u, 3u, 255u, 256u, 257u, 1000u, 2047u})
            for (const std::uint64_t count : {0u, 1u, 2u, 5u, 255u, 256u, 300u, 900u})
                QCOMPARE(filled(tensor, first, count),
                         std::vector<float>(all.begin() + long(first),
                                            all.begin() + long(first + count)));
        for (const std::uint64_t i : {0u, 7u, 511u, 2999u})
            QCOMPARE(tensor.at(i), all[i]);
        // Far elements too: the block counter is 64 bits wide.
        const std::uint64_t far = (std::uint64_t{1} << 40) + 123;
        QCOMPARE(filled(tensor, far, 500)[17], tensor.at(far + 17));
        QVERIFY(filled(tensor, far, 100) != filled(tensor, 123, 100));
    }

    void threadsAgree() {
        const RandomTensor tensor(1, "w", 0, 1);
        const std::vector<float> expected = filled(tensor, 0, 40000);
        std::vector<float> out(40000);
        {
            std::vector<std::jthread> threads;
            for (std::size_t t = 0; t < 4; ++t)
                threads.emplace_back(
                    [&, t] { tensor.fill(10000 * t, 10000, out.data() + 10000 * t); });
        }
        QCOMPARE(out, expected);
    }

    void keysSeparateTensors() {
        constexpr std::uint64_t n = 100000;
        const auto base = filled(RandomTensor(7, "a.weight", 0, 1), 0, n);
        for (const auto &other :
             {RandomTensor(8, "a.weight", 0, 1), RandomTensor(7, "b.weight", 0, 1),
              RandomTensor(7, "a.weighu", 0, 1), RandomTensor(7, "", 0, 1)})
            QVERIFY(std::abs(correlation(base, filled(other, 0, n))) < 5 / std::sqrt(double(n)));
        QCOMPARE(filled(RandomTensor(7, "a.weight", 0, 1), 0, n), base);
        // Neighbours do not know each other either, within a Box-Muller pair and across.
        for (const std::uint64_t shift : {1u, 2u, 3u, 4u, 64u, 256u})
            QVERIFY(std::abs(correlation(base, filled(RandomTensor(7, "a.weight", 0, 1), shift,
                                                      n))) < 5 / std::sqrt(double(n)));
    }

    void isNormal() {
        constexpr std::size_t n = 1 << 20;
        const auto values = filled(RandomTensor(3, "w", 0, 1), 0, n);
        double moments[5] = {};
        std::size_t below[3] = {}; // of -1, 0, 2
        for (const float value : values) {
            QVERIFY(std::isfinite(value));
            double power = 1;
            for (double &moment : moments) {
                moment += power / double(n);
                power *= value;
            }
            below[0] += value < -1;
            below[1] += value < 0;
            below[2] += value < 2;
        }
        // Five standard errors of each estimate.
        const double error = 5 / std::sqrt(double(n));
        QVERIFY(std::abs(moments[1]) < error);
        QVERIFY(std::abs(moments[2] - 1) < error * std::sqrt(2.0));
        QVERIFY(std::abs(moments[3]) < error * std::sqrt(15.0));
        QVERIFY(std::abs(moments[4] - 3) < error * std::sqrt(96.0));
        const double share[3] = {0.158655, 0.5, 0.977250}; // of the normal distribution
        for (int i = 0; i < 3; ++i)
            QVERIFY(std::abs(double(below[i]) / double(n) - share[i]) <
                    error * std::sqrt(share[i] * (1 - share[i])));
    }

    void meanAndDeviation() {
        const auto unit = filled(RandomTensor(5, "w", 0, 1), 0, 1000);
        const auto scaled = filled(RandomTensor(5, "w", 3, 0.5), 0, 1000);
        for (std::size_t i = 0; i < unit.size(); ++i)
            QCOMPARE(scaled[i], 3.0f + 0.5f * unit[i]);
        for (const float value : filled(RandomTensor(5, "norm", 1, 0), 0, 1000))
            QCOMPARE(value, 1.0f);
    }
};

QTEST_APPLESS_MAIN(RandomWeightsTest)
#include "randomweightstest.moc"
