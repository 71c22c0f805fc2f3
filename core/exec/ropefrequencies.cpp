// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/ropefrequencies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

namespace tpscope {
namespace {

struct Input {
    const RopeParameters &rope;
    std::int64_t dim;
    std::int64_t maxPositions;
};

struct MissingNumber {
    std::string key;
};

double required(const Input &input, const char *key) {
    const auto found = input.rope.numbers.find(key);
    if (found == input.rope.numbers.end())
        throw MissingNumber{key};
    return found->second;
}

// A number that upstream treats as missing when it is zero ("or").
double nonZero(const Input &input, const char *key, double fallback) {
    const double value = input.rope.number(key, fallback);
    return value != 0.0 ? value : fallback;
}

// base ** (arange(0, dim, 2) / dim)
std::vector<float> powers(const Input &input) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < input.dim; i += 2)
        out.push_back(std::pow(static_cast<float>(input.rope.theta),
                               static_cast<float>(i) / static_cast<float>(input.dim)));
    return out;
}

RopeFrequencies plain(const Input &input) {
    RopeFrequencies out{powers(input), 1.0F};
    for (float &value : out.inverse)
        value = 1.0F / value;
    return out;
}

RopeFrequencies linear(const Input &input) {
    RopeFrequencies out = plain(input);
    const auto factor = static_cast<float>(required(input, "factor"));
    for (float &value : out.inverse)
        value /= factor;
    return out;
}

RopeFrequencies llama3(const Input &input) {
    RopeFrequencies out = plain(input);
    const auto factor = static_cast<float>(required(input, "factor"));
    const double low = required(input, "low_freq_factor");
    const double high = required(input, "high_freq_factor");
    const double length = required(input, "original_max_position_embeddings");
    const auto lowWave = static_cast<float>(length / low);
    const auto highWave = static_cast<float>(length / high);
    for (float &value : out.inverse) {
        const float wave = static_cast<float>(2.0 * std::numbers::pi) / value;
        if (wave > lowWave) {
            value /= factor;
        } else if (!(wave < highWave)) {
            const auto smooth = static_cast<float>((length / wave - low) / (high - low));
            value = (1.0F - smooth) * value / factor + smooth * value;
        }
    }
    return out;
}

double magnitude(double scale, double factor) { return scale <= 1.0 ? 1.0 : 0.1 * factor * std::log(scale) + 1.0; }

double yarnAttention(const Input &input, double factor) {
    const auto &numbers = input.rope.numbers;
    if (const auto given = numbers.find("attention_factor"); given != numbers.end())
        return given->second;
    const double one = input.rope.number("mscale", 0.0);
    const double all = input.rope.number("mscale_all_dim", 0.0);
    if (one != 0.0 && all != 0.0)
        return magnitude(factor, one) / magnitude(factor, all);
    return magnitude(factor, 1.0);
}

RopeFrequencies yarn(const Input &input) {
    const double length = required(input, "original_max_position_embeddings");
    const double factor =
        input.rope.number("factor", static_cast<double>(input.maxPositions) / length);
    const auto dim = static_cast<double>(input.dim);
    // The channel at which this many rotations fit into the original length.
    const auto correction = [&](double rotations) {
        return dim * std::log(length / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(input.rope.theta));
    };
    double low = correction(nonZero(input, "beta_fast", 32.0));
    double high = correction(nonZero(input, "beta_slow", 1.0));
    if (input.rope.number("truncate", 1.0) != 0.0) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, dim - 1.0);
    if (low == high)
        high += 0.001; // no singularity
    RopeFrequencies out{powers(input), static_cast<float>(yarnAttention(input, factor))};
    for (std::size_t i = 0; i < out.inverse.size(); ++i) {
        const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
        const float extrapolated = 1.0F - std::clamp(ramp, 0.0F, 1.0F);
        const float power = out.inverse[i];
        out.inverse[i] = 1.0F / (static_cast<float>(factor) * power) * (1.0F - extrapolated) +
                         1.0F / power * extrapolated;
    }
    return out;
}

struct Row {
    std::string_view type;
    RopeFrequencies (*compute)(const Input &);
    bool partial; // rotates head_dim * partial_rotary_factor channels; the default type takes the width it is given
};

constexpr std::array rows{
    Row{"default", plain, false},
    Row{"linear", linear, true},
    Row{"llama3", llama3, true},
    Row{"yarn", yarn, true},
};

} // namespace

Result<RopeFrequencies> ropeFrequencies(const RopeParameters &rope, std::int64_t headDim, std::int64_t maxPositions) {
    std::string known;
    for (const Row &row : rows) {
        if (row.type == rope.type) {
            const double share = row.partial ? rope.number("partial_rotary_factor", 1.0) : 1.0;
            try {
                return row.compute({rope, static_cast<std::int64_t>(static_cast<double>(headDim) * share),
                                    maxPositions});
            } catch (const MissingNumber &missing) {
                return fail(ErrorCode::BadInput,
                            "rope of type " + rope.type + " needs the number \"" + missing.key + "\"");
            }
        }
        known += (known.empty() ? "" : ", ") + std::string(row.type);
    }
    return fail(ErrorCode::Unsupported,
                "rope of type " + rope.type + " cannot be run natively; types that can: " + known);
}

} // namespace tpscope
