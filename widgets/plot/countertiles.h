// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QString>
#include <QWidget>
#include <vector>

class QGridLayout;
class QLabel;

namespace tpscope {

// One number before and after, with where it comes from.
struct CounterTile {
    QString caption; // "graph breaks"
    QString value;   // "11 -> 0", with a real arrow
    QString source;  // "predicted"
    QString second;  // the same from another source: "measured 11 -> 0"; "" none
    bool operator==(const CounterTile &) const = default;
};

// "11 -> 0" with an arrow; one number when both are the same text, a dash for what nobody knows.
QString beforeAfter(const QString &before, const QString &after);

// A row of tiles of equal width, large numbers first.
class CounterTiles : public QWidget {
    Q_OBJECT

public:
    explicit CounterTiles(QWidget *parent = nullptr);
    void setTiles(const std::vector<CounterTile> &tiles);
    const std::vector<CounterTile> &tiles() const { return m_tiles; }

protected:
    void changeEvent(QEvent *event) override;

private:
    struct Cell {
        QFrame *frame = nullptr;
        QLabel *caption = nullptr;
        QLabel *value = nullptr;
        QLabel *source = nullptr;
        QLabel *second = nullptr;
    };
    Cell addCell();
    void applyColors();

    std::vector<CounterTile> m_tiles;
    std::vector<Cell> m_cells;
};

} // namespace tpscope
