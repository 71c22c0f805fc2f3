// SPDX-License-Identifier: GPL-3.0-or-later
#include "plot/graphlayout.h"

#include <QStringList>
#include <algorithm>

namespace tpscope {
namespace {

constexpr int margin = 12;
constexpr int gap = 6;
constexpr int pad = 6;
constexpr int mostBodyLines = 2;
constexpr int narrowest = 72;
constexpr int widest = 190;
constexpr int glyphWidth = 18;

QString elided(const QString &text, int width, const TextMeasure &measure) {
    if (measure.width(text) <= width)
        return text;
    qsizetype length = text.size();
    while (length > 0 && measure.width(text.left(length) + QChar(0x2026)) > width)
        --length;
    return text.left(length) + QChar(0x2026);
}

class Flow {
public:
    Flow(int width, const TextMeasure &measure) : m_width(std::max(width, 4 * margin)), m_measure(measure) {}

    void section(int index, const GraphSection &section) {
        m_section = index;
        const int line = m_measure.lineHeight;
        PlacedSection placed;
        placed.heading = {margin, m_y, m_width - 2 * margin, line + 2 * pad};
        m_y += placed.heading.height();
        placed.notes = {margin, m_y, m_width - 2 * margin, line * static_cast<int>(section.notes.size())};
        m_y += placed.notes.height() + (section.notes.empty() ? 0 : pad);
        m_layout.sections.push_back(placed);
        for (std::size_t i = 0; i < section.groups.size(); ++i)
            group(static_cast<int>(i), section.groups[i]);
        endRow();
        m_y += 2 * gap;
    }
    GraphLayout take() {
        m_layout.height = m_y;
        return std::move(m_layout);
    }

private:
    int rowHeight() const { return 2 * pad + m_measure.lineHeight * (1 + mostBodyLines); }

    void group(int index, const GraphGroup &group) {
        const bool framed = !group.title.isEmpty();
        endRow();
        const int top = m_y;
        m_left = margin + (framed ? pad : 0);
        m_right = m_width - margin - (framed ? pad : 0);
        if (framed)
            m_y += m_measure.lineHeight + pad;
        m_x = m_left;
        for (std::size_t i = 0; i < group.items.size(); ++i)
            item(index, static_cast<int>(i), group.items[i]);
        endRow();
        if (!framed)
            return;
        m_layout.groups.push_back({m_section, index, {margin, top, m_width - 2 * margin, m_y - top}});
        m_y += gap;
    }

    void item(int group, int index, const GraphItem &item) {
        const int room = m_right - m_left;
        const int width = std::min(room, item.whole ? room : widthOf(item));
        if (m_x > m_left && m_x + width > m_right)
            endRow();
        PlacedItem placed{m_section, group, index, {m_x, m_y, width, rowHeight()}, {}, {}};
        placed.bodyRect = placed.rect.adjusted(pad, pad + m_measure.lineHeight, -pad, -pad);
        placed.lines = wrapped(item.body, placed.bodyRect.width(), mostBodyLines, m_measure);
        m_layout.items.push_back(std::move(placed));
        m_x += width + gap;
        m_rowUsed = true;
    }

    int widthOf(const GraphItem &item) const {
        const int glyph = item.hook || item.kind == GraphItem::Kind::Break ? glyphWidth : 0;
        const int title = m_measure.width(item.title) + glyph;
        // The body asks for as much as it needs in its lines, a little more because words do not divide evenly.
        const int body = m_measure.width(item.body) * 6 / (5 * mostBodyLines);
        const int wanted = std::max(title, item.kind == GraphItem::Kind::Break ? m_measure.width(item.body) : body);
        int least = item.kind == GraphItem::Kind::Break ? 0 : narrowest;
        for (const QString &word : item.body.split(' '))
            least = std::max(least, std::min(widest, m_measure.width(word) + 2 * pad + 2));
        return std::clamp(wanted + 2 * pad + 2, least, std::max({least, widest, title + 2 * pad + 2}));
    }

    void endRow() {
        if (m_rowUsed)
            m_y += rowHeight() + gap;
        m_rowUsed = false;
        m_x = m_left;
    }

    int m_width;
    const TextMeasure &m_measure;
    GraphLayout m_layout;
    int m_section = 0;
    int m_left = margin;
    int m_right = 0;
    int m_x = margin;
    int m_y = gap;
    bool m_rowUsed = false;
};

} // namespace

std::vector<QString> wrapped(const QString &text, int width, int most, const TextMeasure &measure) {
    std::vector<QString> lines;
    const QStringList words = text.split(' ', Qt::SkipEmptyParts);
    qsizetype next = 0;
    while (next < words.size() && static_cast<int>(lines.size()) < most) {
        if (static_cast<int>(lines.size()) + 1 == most) {
            lines.push_back(elided(words.mid(next).join(' '), width, measure));
            break;
        }
        QString line = words[next++];
        while (next < words.size() && measure.width(line + ' ' + words[next]) <= width)
            line += ' ' + words[next++];
        lines.push_back(elided(line, width, measure));
    }
    return lines;
}

int GraphLayout::itemAt(const QPoint &position) const {
    const auto found =
        std::ranges::find_if(items, [&](const PlacedItem &item) { return item.rect.contains(position); });
    return found == items.end() ? -1 : static_cast<int>(found - items.begin());
}

GraphLayout layOut(const std::vector<GraphSection> &sections, int width, const TextMeasure &measure) {
    Flow flow(width, measure);
    for (std::size_t i = 0; i < sections.size(); ++i)
        flow.section(static_cast<int>(i), sections[i]);
    return flow.take();
}

} // namespace tpscope
