// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/floatconvert.h"

#include <QtTest>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace tpscope;

namespace {

// The nearest value of a 16-bit format by search over all of them: slow and obviously right.
template <typename FromBits>
std::uint16_t nearestOf(float value, FromBits fromBits, std::uint16_t infinity) {
    // Positive values ascend with their bits; find the two around |value|.
    const double magnitude = std::abs(double(value));
    std::uint16_t low = 0;
    std::uint16_t high = infinity;
    while (high - low > 1) {
        const auto middle = static_cast<std::uint16_t>((low + high) / 2);
        (double(fromBits(middle)) <= magnitude ? low : high) = middle;
    }
    // Past the largest finite value the next step of its size counts as infinity.
    const double above =
        high == infinity
            ? 2 * double(fromBits(low)) - double(fromBits(static_cast<std::uint16_t>(low - 1)))
            : double(fromBits(high));
    const double toLow = magnitude - double(fromBits(low));
    const double toHigh = above - magnitude;
    const bool up = toHigh < toLow || (toHigh == toLow && (low & 1));
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    return static_cast<std::uint16_t>(sign | (up ? high : low));
}

std::vector<float> interestingFloats() {
    std::vector<float> out;
    const auto add = [&](float value) {
        for (const float v : {value, std::nextafter(value, 0.0f), std::nextafter(value, 1e38f)}) {
            out.push_back(v);
            out.push_back(-v);
        }
    };
    // Every half-way point between two values of 16 bits, from both formats' ranges.
    for (std::uint32_t bits = 0; bits < 0x7C00; bits += 3)
        add(0.5f * (fromFloat16(std::uint16_t(bits)) + fromFloat16(std::uint16_t(bits + 1))));
    for (std::uint32_t bits = 0; bits < 0x7F00; bits += 7)
        add(std::bit_cast<float>((bits << 16) + 0x8000));
    return out;
}

} // namespace

class FloatConvertTest : public QObject {
    Q_OBJECT
private slots:
    void sixteenBitsSurvive() {
        for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
            const auto half = static_cast<std::uint16_t>(bits);
            if (std::isnan(fromFloat16(half)))
                QVERIFY(std::isnan(fromFloat16(toFloat16(fromFloat16(half)))));
            else
                QCOMPARE(toFloat16(fromFloat16(half)), half);
            if (std::isnan(fromBfloat16(half)))
                QVERIFY(std::isnan(fromBfloat16(toBfloat16(fromBfloat16(half)))));
            else
                QCOMPARE(toBfloat16(fromBfloat16(half)), half);
        }
    }

    void knownValues() {
        QCOMPARE(fromFloat16(0x3C00), 1.0f);
        QCOMPARE(fromFloat16(0x0001), 0x1p-24f);
        QCOMPARE(fromFloat16(0xFBFF), -65504.0f);
        QCOMPARE(fromFloat16(0x7C00), std::numeric_limits<float>::infinity());
        QCOMPARE(fromBfloat16(0x3F80), 1.0f);
        QCOMPARE(toBfloat16(3.1415927f), std::uint16_t{0x4049});
        QCOMPARE(toFloat16(65519.99f), std::uint16_t{0x7BFF});
        QCOMPARE(toFloat16(65520.0f), std::uint16_t{0x7C00});
        QCOMPARE(toFloat16(-1e30f), std::uint16_t{0xFC00});
        QCOMPARE(toBfloat16(std::numeric_limits<float>::max()), std::uint16_t{0x7F80});
        QCOMPARE(toFloat16(-0.0f), std::uint16_t{0x8000});
    }

    void roundsToNearestEven() {
        for (const float value : interestingFloats()) {
            if (std::abs(value) < 65520.0f)
                QCOMPARE(toFloat16(value), nearestOf(value, fromFloat16, 0x7C00));
            QCOMPARE(toBfloat16(value), nearestOf(value, fromBfloat16, 0x7F80));
        }
    }

    void arrays() {
        std::vector<float> floats(5000);
        for (std::size_t i = 0; i < floats.size(); ++i)
            floats[i] = std::sin(float(i)) * 100;
        std::vector<std::byte> unaligned(8 * floats.size() + 1);
        for (const DType dtype : {DType::F16, DType::BF16, DType::F64, DType::F32}) {
            QVERIFY(isConvertible(dtype));
            convertFloats(reinterpret_cast<const std::byte *>(floats.data()), DType::F32,
                          unaligned.data() + 1, dtype, floats.size());
            std::vector<float> back(floats.size());
            convertFloats(unaligned.data() + 1, dtype, reinterpret_cast<std::byte *>(back.data()),
                          DType::F32, back.size());
            for (std::size_t i = 0; i < floats.size(); ++i) {
                const float expected = dtype == DType::F16    ? fromFloat16(toFloat16(floats[i]))
                                       : dtype == DType::BF16 ? fromBfloat16(toBfloat16(floats[i]))
                                                              : floats[i];
                QCOMPARE(back[i], expected);
            }
        }
        QVERIFY(!isConvertible(DType::I32) && !isConvertible(DType::F8E4M3));
    }
};

QTEST_APPLESS_MAIN(FloatConvertTest)
#include "floatconverttest.moc"
