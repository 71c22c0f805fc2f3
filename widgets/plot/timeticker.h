// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <qcustomplot.h>

namespace tpscope {

// Ticks of an axis in nanoseconds, in the unit that suits what is shown: "1.5 ms", "20 us".
class TimeTicker : public QCPAxisTicker {
public:
    TimeTicker();

protected:
    double getTickStep(const QCPRange &range) override;
    QString getTickLabel(double tick, const QLocale &locale, QChar formatChar, int precision) override;

private:
    double m_step = 1.0;
};

// Ticks at whole numbers only: steps, counts.
class WholeTicker : public QCPAxisTicker {
public:
    explicit WholeTicker(int about = 5) { setTickCount(about); }

protected:
    double getTickStep(const QCPRange &range) override;
    int getSubTickCount(double tickStep) override;
};

} // namespace tpscope
