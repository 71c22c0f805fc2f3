// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/outcomebar.h"

#include <QHBoxLayout>
#include <QLabel>

#include <algorithm>

#include "base/text.h"
#include "models/planinsight.h"
#include "style/theme.h"

namespace tpscope {
namespace {

Meaning meaningOf(const PlanAnalysis &analysis) {
    if (analysis.unreadable)
        return Meaning::Error;
    switch (analysis.lint.outcome) {
    case Outcome::Ok: return Meaning::Good;
    case Outcome::NotChecked: return Meaning::Warning;
    case Outcome::Rejected:
    case Outcome::ForwardError:
    case Outcome::WrongLogits:
    case Outcome::WrongGradients: break;
    }
    return Meaning::Error;
}

// Runs are written as such: "1 2 4 8", "1-64".
QString sizesText(const std::vector<int> &sizes) {
    if (sizes.empty())
        return OutcomeBar::tr("none");
    if (sizes.size() > 8 && sizes.back() - sizes.front() + 1 == static_cast<int>(sizes.size()))
        return QStringLiteral("%1\u2013%2").arg(sizes.front()).arg(sizes.back());
    QStringList texts;
    for (std::size_t i = 0; i < std::min<std::size_t>(sizes.size(), 8); ++i)
        texts << QString::number(sizes[i]);
    if (sizes.size() > 8)
        texts << QStringLiteral("\u2026");
    return texts.join(QLatin1Char(' '));
}

} // namespace

OutcomeBar::OutcomeBar(QWidget *parent)
    : QWidget(parent), m_outcome(new QLabel), m_sizes(new QLabel), m_share(new QLabel), m_bytes(new QLabel),
      m_breaks(new QLabel) {
    auto *layout = new QHBoxLayout(this);
    layout->setContentsMargins(4, 0, 8, 0);
    layout->setSpacing(18);
    for (QLabel *label : {m_outcome, m_sizes, m_share, m_bytes, m_breaks})
        layout->addWidget(label);
    m_sizes->setToolTip(tr("Tensor-parallel sizes of 1 to 64 with outcome ok, by rule"));
    m_breaks->setToolTip(tr("Graph breaks of a prefill: module-backward hooks and the chosen hooks. Predicted."));
    show(nullptr);
}

void OutcomeBar::show(const PlanAnalysis *analysis) {
    for (QLabel *label : {m_outcome, m_sizes, m_share, m_bytes, m_breaks})
        label->clear();
    if (!analysis)
        return;
    const Meaning meaning = meaningOf(*analysis);
    const QString mark =
        QStringLiteral("<b style='color:%1'>%2</b> ").arg(Theme::color(meaning).name(), Theme::mark(meaning));
    m_outcome->setText(analysis->unreadable
                           ? mark + tr("the plan cannot be read")
                           : mark + tr("outcome: <b>%1</b> by rule")
                                        .arg(QString::fromStdString(std::string(name(analysis->lint.outcome)))));
    m_outcome->setToolTip(outcomeText(*analysis));
    if (analysis->unreadable)
        return;
    m_sizes->setText(tr("valid tp: %1").arg(sizesText(analysis->lint.validTpSizes)));
    m_share->setText(tr("%1 % sharded").arg(analysis->lint.shardedFraction * 100, 0, 'f', 1));
    const auto largest = std::ranges::max_element(analysis->lint.bytesPerRank);
    if (largest != analysis->lint.bytesPerRank.end())
        m_bytes->setText(tr("%1 on the largest rank")
                             .arg(QString::fromStdString(formatBytes(static_cast<std::uint64_t>(*largest)))));
    if (analysis->withModuleBackward && analysis->withChosenHooks)
        m_breaks->setText(tr("predicted breaks %1 \u2192 %2")
                              .arg(analysis->withModuleBackward->graphBreaks)
                              .arg(analysis->withChosenHooks->graphBreaks));
}

QString OutcomeBar::text() const {
    QStringList parts;
    for (const QLabel *label : {m_outcome, m_sizes, m_share, m_bytes, m_breaks})
        if (!label->text().isEmpty())
            parts << label->text();
    return parts.join(QStringLiteral(" | "));
}

} // namespace tpscope
