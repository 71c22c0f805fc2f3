// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/costmodel.h"

#include <algorithm>
#include <set>

namespace tpscope {
namespace {

double positionsSeen(const WorkItem &item, std::int64_t positions) {
    return static_cast<double>(item.positionCap > 0 ? std::min(positions, item.positionCap) : positions);
}

} // namespace

WorkTotals totals(const std::vector<WorkItem> &items, std::int64_t positions) {
    WorkTotals sum;
    for (const WorkItem &item : items) {
        if (item.isCollective) {
            CollectiveCount &counted = sum.collectives[std::string(item.op)];
            ++counted.count;
            counted.bytes += static_cast<std::int64_t>(item.messageBytes);
            continue;
        }
        const double seen = positionsSeen(item, positions);
        sum.weightBytes += item.weightBytes;
        sum.cacheBytes += item.cacheBytesPerPosition * seen;
        sum.activationBytes += item.activationBytes;
        sum.flops += item.flops + item.flopsPerPosition * seen;
        sum.kernels += item.kernels;
        sum.fusedKernels += item.fusedKernels;
    }
    return sum;
}

CostModel::CostModel(const HardwareProfile &profile, DType dtype, Collectives transport, int ranks, bool compiled)
    : m_profile(&profile), m_transport(transport), m_ranks(ranks), m_compiled(compiled),
      m_bytesPerSecond(profile.effectiveBandwidth(std::string(torchName(dtype)))),
      m_flopsPerSecond(profile.computeGflopS.value * 1e9), m_kernelSeconds(profile.kernelUs.value * 1e-6),
      m_launchSeconds(compiled ? profile.launchUs.value * 1e-6 : 0.0),
      m_allReduce(profile.figures("all_reduce", transport, ranks)),
      m_allGather(profile.figures("all_gather", transport, ranks)) {}

double CostModel::computeSeconds(const WorkItem &item, std::int64_t positions) const {
    const double seen = positionsSeen(item, positions);
    const double bytes = item.weightBytes + item.activationBytes + item.cacheBytesPerPosition * seen;
    const double flops = item.flops + item.flopsPerPosition * seen;
    const int kernels = m_compiled ? item.fusedKernels : item.kernels;
    return std::max(bytes / m_bytesPerSecond, flops / m_flopsPerSecond) + kernels * m_kernelSeconds;
}

double CostModel::collectiveSeconds(const WorkItem &item) const {
    const bool reduces = item.op == "all_reduce";
    const CollectiveFigures *figures = reduces ? m_allReduce : m_allGather;
    if (!figures || m_ranks < 2)
        return 0.0;
    const double p = m_ranks;
    const double n = item.fullBytes / (figures->bandwidthGbS.value * 1e9);
    const double wire = reduces ? std::min((p - 1) * n, 2 * (p - 1) / p * n) : (p - 1) / p * n;
    return figures->alphaUs.value * 1e-6 + wire;
}

std::vector<std::string> CostModel::gaps(const std::vector<WorkItem> &items) const {
    std::set<std::string> kinds;
    for (const WorkItem &item : items)
        if (item.isCollective)
            kinds.insert(std::string(item.op));
    std::vector<std::string> result;
    for (const std::string &kind : kinds) {
        const CollectiveFigures *figures = m_profile->figures(kind, m_transport, m_ranks);
        if (!figures)
            result.push_back("extrapolated: the profile has no figures for " + kind + " over " +
                             std::string(name(m_transport)) + ", which is counted as free");
        else if (figures->ranks != m_ranks)
            result.push_back("extrapolated: " + kind + " among " + std::to_string(m_ranks) +
                             " ranks by the figures of " + std::to_string(figures->ranks));
    }
    return result;
}

} // namespace tpscope
