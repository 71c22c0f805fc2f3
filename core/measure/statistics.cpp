// SPDX-License-Identifier: GPL-3.0-or-later
#include "measure/statistics.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace tpscope {
namespace {

constexpr std::size_t exactLimit = 25; // C(50, 25) counts exactly in a double

// Doubles in the order of their values as integers, so that a search over values is a search over integers.
std::int64_t orderedBits(double value) {
    const auto bits = std::bit_cast<std::int64_t>(value);
    return bits < 0 ? std::numeric_limits<std::int64_t>::min() - bits : bits;
}

double fromOrderedBits(std::int64_t bits) {
    return std::bit_cast<double>(bits < 0 ? std::numeric_limits<std::int64_t>::min() - bits : bits);
}

// All differences b_j - a_i without making them: n m may be large, n + m is not.
class Differences {
public:
    Differences(std::vector<double> a, std::vector<double> b) : m_a(std::move(a)), m_b(std::move(b)) {
        std::ranges::sort(m_a);
        std::ranges::sort(m_b);
    }

    std::uint64_t count() const { return std::uint64_t{m_a.size()} * m_b.size(); }

    std::uint64_t notAbove(double limit) const {
        std::uint64_t below = 0;
        std::size_t j = 0;
        for (const double x : m_a) { // a larger a_i leaves more b_j within the limit
            while (j < m_b.size() && m_b[j] - x <= limit)
                ++j;
            below += j;
        }
        return below;
    }

    // The k-th smallest difference, k from 1.
    double ranked(std::uint64_t k) const {
        std::int64_t low = orderedBits(m_b.front() - m_a.back());
        std::int64_t high = orderedBits(m_b.back() - m_a.front());
        while (low < high) {
            const std::int64_t middle = std::midpoint(low, high);
            if (notAbove(fromOrderedBits(middle)) >= k)
                high = middle;
            else
                low = middle + 1;
        }
        return fromOrderedBits(low);
    }

    double median() const {
        const std::uint64_t n = count();
        return n % 2 == 1 ? ranked(n / 2 + 1) : std::midpoint(ranked(n / 2), ranked(n / 2 + 1));
    }

private:
    std::vector<double> m_a;
    std::vector<double> m_b;
};

// Both sides ranked together; equal samples share their mean rank.
struct Ranking {
    std::vector<double> a;      // ranks of a, in its order
    std::vector<double> b;
    double u = 0.0;             // pairs with b_j > a_i, ties half
    double variance = 0.0;      // of u when there is no shift, corrected for ties
    bool ties = false;
};

Ranking rank(const std::vector<double> &a, const std::vector<double> &b) {
    const std::size_t total = a.size() + b.size();
    const auto valueAt = [&](std::size_t i) { return i < a.size() ? a[i] : b[i - a.size()]; };
    std::vector<std::size_t> order(total);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, {}, valueAt);
    Ranking result{std::vector<double>(a.size()), std::vector<double>(b.size()), 0.0, 0.0, false};
    double tieSum = 0.0;
    double rankSumOfB = 0.0;
    for (std::size_t begin = 0; begin < total;) {
        std::size_t end = begin + 1;
        while (end < total && valueAt(order[end]) == valueAt(order[begin]))
            ++end;
        const double shared = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2.0;
        const auto tied = static_cast<double>(end - begin);
        tieSum += tied * tied * tied - tied;
        result.ties = result.ties || end - begin > 1;
        for (; begin < end; ++begin) {
            const std::size_t i = order[begin];
            (i < a.size() ? result.a[i] : result.b[i - a.size()]) = shared;
            rankSumOfB += i < a.size() ? 0.0 : shared;
        }
    }
    const auto n = static_cast<double>(a.size());
    const auto m = static_cast<double>(b.size());
    const auto all = static_cast<double>(total);
    result.u = rankSumOfB - m * (m + 1) / 2;
    result.variance = n * m / 12.0 * (all + 1 - tieSum / (all * (all - 1)));
    return result;
}

// Number of arrangements with Mann-Whitney statistic u, u = 0 .. n m: coefficients of the Gaussian binomial.
std::vector<double> mannWhitneyCounts(std::size_t n, std::size_t m) {
    std::vector<double> counts(n * m + 1, 0.0);
    counts[0] = 1.0;
    for (std::size_t i = 1; i <= n; ++i) {
        for (std::size_t u = counts.size(); u-- > m + i;) // times 1 - q^(m+i)
            counts[u] -= counts[u - m - i];
        for (std::size_t u = i; u < counts.size(); ++u)   // divided by 1 - q^i
            counts[u] += counts[u - i];
    }
    return counts;
}

ShiftEstimate interval(const Differences &differences, double shift, double p, double cut) {
    // cut: how many differences are left out at each end, plus one.
    ShiftEstimate estimate{shift, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), p};
    if (cut >= 1.0) {
        const auto k = static_cast<std::uint64_t>(cut);
        estimate.low = differences.ranked(k);
        estimate.high = differences.ranked(differences.count() - k + 1);
    }
    return estimate;
}

ShiftEstimate exactEstimate(const Differences &differences, const Ranking &ranking, double confidence) {
    const std::vector<double> counts = mannWhitneyCounts(ranking.a.size(), ranking.b.size());
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    const double smaller = std::min(ranking.u, static_cast<double>(differences.count()) - ranking.u);
    double tail = 0.0;
    double cut = 0.0; // the largest k with P(U < k) within half of what the confidence leaves
    double p = 1.0;
    for (std::size_t u = 0; u < counts.size(); ++u) {
        tail += counts[u] / all;
        if (tail <= (1.0 - confidence) / 2.0)
            cut = static_cast<double>(u + 1);
        if (static_cast<double>(u) == smaller)
            p = std::min(1.0, 2.0 * tail);
    }
    return interval(differences, differences.median(), p, cut);
}

// quantile and tail: of the distribution that stands for the statistic divided by its standard deviation.
template <typename Distribution>
ShiftEstimate approximateEstimate(const Differences &differences, const Ranking &ranking, double variance,
                                  double confidence, const Distribution &distribution) {
    const double half = static_cast<double>(differences.count()) / 2.0;
    const double shift = differences.median();
    if (variance <= 0.0) // every sample is equal
        return {shift, shift, shift, 1.0};
    const double deviation = std::sqrt(variance);
    const double z = std::max(0.0, std::abs(ranking.u - half) - 0.5) / deviation;
    const double p = std::min(1.0, 2.0 * cdf(complement(distribution, z)));
    const double q = quantile(distribution, 1.0 - (1.0 - confidence) / 2.0);
    return interval(differences, shift, p, std::floor(half - q * deviation));
}

} // namespace

double varianceInflation(const std::vector<double> &series) {
    const std::size_t n = series.size();
    if (n < 4)
        return 1.0;
    const double mean = std::accumulate(series.begin(), series.end(), 0.0) / static_cast<double>(n);
    std::vector<double> correlation(n / 2 + 1, 0.0);
    for (std::size_t lag = 0; lag < correlation.size(); ++lag)
        for (std::size_t i = lag; i < n; ++i)
            correlation[lag] += (series[i] - mean) * (series[i - lag] - mean);
    const double own = correlation[0];
    if (own <= 0.0)
        return 1.0;
    double inflation = 1.0;
    // Subtracting the series' own mean lowers every autocovariance by the variance of that mean, which is what is sought:
    // a few turns settle it.
    for (int turn = 0; turn < 3; ++turn) {
        const double lost = inflation / static_cast<double>(n);
        double sum = 0.0;
        double before = std::numeric_limits<double>::infinity();
        for (std::size_t lag = 0; lag + 1 < correlation.size(); lag += 2) {
            const double pair = ((correlation[lag] + correlation[lag + 1]) / own + 2 * lost) / (1 + lost);
            if (pair <= 0.0)
                break;
            before = std::min(before, pair);
            sum += before;
        }
        inflation = std::clamp(2 * sum - 1, 1.0, static_cast<double>(n) / 3.0);
    }
    return inflation;
}

ShiftEstimate estimateShift(const std::vector<double> &a, const std::vector<double> &b, double confidence) {
    if (a.empty() || b.empty())
        return {0.0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1.0};
    const Differences differences(a, b);
    const Ranking ranking = rank(a, b);
    if (!ranking.ties && a.size() <= exactLimit && b.size() <= exactLimit)
        return exactEstimate(differences, ranking, confidence);
    return approximateEstimate(differences, ranking, ranking.variance, confidence, boost::math::normal{});
}

ShiftEstimate estimateShiftOfSeries(const std::vector<double> &a, const std::vector<double> &b, double confidence) {
    const ShiftEstimate plain = estimateShift(a, b, confidence);
    if (a.empty() || b.empty())
        return plain;
    const Ranking ranking = rank(a, b);
    // One machine made both series: the worse of the two estimates stands for both.
    const double inflation = std::max(varianceInflation(ranking.a), varianceInflation(ranking.b));
    const double effective = static_cast<double>(a.size() + b.size()) / inflation;
    const boost::math::students_t distribution(std::max(1.0, effective - 2.0));
    const ShiftEstimate widened = approximateEstimate(Differences(a, b), ranking, ranking.variance * inflation,
                                                      confidence, distribution);
    return {plain.shift, std::min(plain.low, widened.low), std::max(plain.high, widened.high),
            std::max(plain.p, widened.p)};
}

} // namespace tpscope
