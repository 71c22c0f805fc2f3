// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/timeticker.h"

#include <algorithm>
#include <cmath>

namespace tpscope {

TimeTicker::TimeTicker() { setTickCount(7); }

double TimeTicker::getTickStep(const QCPRange &range) {
    m_step = QCPAxisTicker::getTickStep(range);
    return m_step;
}

QString TimeTicker::getTickLabel(double tick, const QLocale &locale, QChar, int) {
    struct Unit {
        double nanoseconds;
        const char *name;
    };
    constexpr Unit units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "\u00b5s"}, {1, "ns"}};
    // A unit in which a step has at most two decimals.
    const Unit *unit = std::begin(units);
    while (unit + 1 != std::end(units) && m_step < unit->nanoseconds * 0.0999)
        ++unit;
    const double step = m_step / unit->nanoseconds;
    const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 2);
    const double value = std::abs(tick) < m_step * 1e-6 ? 0.0 : tick / unit->nanoseconds;
    return locale.toString(value, 'f', decimals) + QStringLiteral(" ") + QString::fromUtf8(unit->name);
}

double WholeTicker::getTickStep(const QCPRange &range) {
    return std::max(1.0, std::round(QCPAxisTicker::getTickStep(range)));
}

int WholeTicker::getSubTickCount(double) { return 0; }

} // namespace tpscope
