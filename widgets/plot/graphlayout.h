// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QRect>
#include <QString>
#include <functional>
#include <vector>

// Where the graphs of a forward are drawn: pure geometry of texts and widths; any thread.
namespace tpscope {

// What is drawn, in launch order.
struct GraphItem {
    enum class Kind { Graph, Break, Eager };
    Kind kind = Kind::Graph;
    QString title; // "self_attn.q_norm"; of a break the module that caused it
    QString body;  // what the graph holds
    QString module; // as Selection speaks it; "" nothing to select
    bool hook = false;
    bool whole = false; // the one graph of a forward: as wide as there is room
    QString tip{};
    bool operator==(const GraphItem &) const = default;
};

struct GraphGroup {
    QString title; // "layers 0-35 x 36"; "" no frame around it
    std::vector<GraphItem> items;
};

struct GraphSection {
    QString mark;    // "A"
    QString title;   // "before: module-backward"
    QString counts;  // "12 graphs, 11 breaks, 257 launches"
    std::vector<QString> notes; // lines below the title
    std::vector<GraphGroup> groups;
};

struct TextMeasure {
    std::function<int(const QString &)> width; // pixels of one line in the drawing's font
    int lineHeight = 16;
};

struct PlacedItem {
    int section = 0;
    int group = 0;
    int item = 0;
    QRect rect;
    QRect bodyRect;             // inside rect
    std::vector<QString> lines; // the body, wrapped; the last one elided when there is more
};
struct PlacedGroup {
    int section = 0;
    int group = 0;
    QRect rect; // of the frame; its title stands in the top line
};
struct PlacedSection {
    QRect heading; // mark, title, counts
    QRect notes;
};

struct GraphLayout {
    std::vector<PlacedSection> sections;
    std::vector<PlacedGroup> groups; // framed ones only
    std::vector<PlacedItem> items;
    int height = 0;
    int itemAt(const QPoint &position) const; // index into items, -1 none
};

// Rows that wrap at `width`; no item is wider than the row, no two overlap, order is reading order.
GraphLayout layOut(const std::vector<GraphSection> &sections, int width, const TextMeasure &measure);

// A text in at most `most` lines of `width`, broken at spaces; "..." where it does not fit.
std::vector<QString> wrapped(const QString &text, int width, int most, const TextMeasure &measure);

} // namespace tpscope
