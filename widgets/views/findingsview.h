// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "lint/lint.h"

class QCheckBox;
class QLabel;
class QTableView;

namespace tpscope {

class FindingsModel;
class PlanWorkbench;
class Selection;

// The findings of the analysis, worst first. A click goes to the line and the module. GUI thread.
class FindingsView : public QWidget {
    Q_OBJECT

public:
    // Both must outlive the view.
    FindingsView(PlanWorkbench *workbench, Selection *selection, QWidget *parent = nullptr);

    FindingsModel &model() { return *m_model; }
    QTableView &table() { return *m_table; }
    QString title() const; // "Findings (1 error, 2 warnings)"
    void setTraining(bool training);

signals:
    void titleChanged(const QString &title);
    void fixChosen(const tpscope::Diagnostic &finding); // its fix shall be applied

private:
    void showAnalysis();
    void goTo(const QModelIndex &index);
    void fitRows();
    void resizeEvent(QResizeEvent *event) override;

    PlanWorkbench *m_workbench;
    Selection *m_selection;
    FindingsModel *m_model;
    QLabel *m_summary;
    QCheckBox *m_training;
    QTableView *m_table;
};

} // namespace tpscope
