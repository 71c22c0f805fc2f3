// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

class QLabel;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QTableView;

namespace tpscope {

class RunsModel;
class RunStore;

// The runs of the session: what is happening now, what came of them, and of a failed run the process's own words.
// Selecting a row shows that run in the other views. GUI thread.
class RunsView : public QWidget {
    Q_OBJECT

public:
    explicit RunsView(RunStore *store, QWidget *parent = nullptr); // store must outlive the view

    RunsModel &model() { return *m_model; }
    QTableView &table() { return *m_table; }
    QString words() const; // what is shown of the selected run

signals:
    void stopRequested();

private:
    void buildTable();
    void showSelected();
    void selectEntry(int id);
    int selectedId() const;

    RunStore *m_store;
    RunsModel *m_model;
    QTableView *m_table;
    QLabel *m_now;
    QProgressBar *m_progress;
    QPushButton *m_stop;
    QPlainTextEdit *m_words;
};

} // namespace tpscope
