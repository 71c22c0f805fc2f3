// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>
#include <array>
#include <optional>

namespace tpscope {

// Where a value in [low, high] stands on a line of `width` pixels with `margin` at both ends. Pure.
double positionOn(double value, double low, double high, int width, int margin);

// A difference with its confidence interval on a line that shows zero: is zero inside? Milliseconds;
// negative is faster.
class IntervalBar : public QWidget {
    Q_OBJECT

public:
    explicit IntervalBar(QWidget *parent = nullptr);
    void setDifference(double deltaMs, const std::optional<std::array<double, 2>> &interval);
    QSize sizeHint() const override;
    QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    double m_delta = 0.0;
    std::optional<std::array<double, 2>> m_interval;
};

} // namespace tpscope
