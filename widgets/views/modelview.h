// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

class QLabel;
class QLineEdit;
class QSpinBox;
class QTreeView;

namespace tpscope {

class ModuleTreeModel;
class ModuleFilter;
class PlanWorkbench;
class Selection;

// The model's modules with what the plan does to each; search, rank, and a style combo box whose choice is handed on as
// an edit of the text. GUI thread.
class ModelView : public QWidget {
    Q_OBJECT

public:
    // Both must outlive the view.
    ModelView(PlanWorkbench *workbench, Selection *selection, QWidget *parent = nullptr);

    ModuleTreeModel &model() { return *m_model; }
    QTreeView &tree() { return *m_tree; }
    QLineEdit &search() { return *m_search; }
    void refreshTheme(); // colours are taken anew

signals:
    void styleChosen(const QString &key, const QString &style);

private:
    void buildTree();
    void showAnalysis();
    void showSelected(const QString &module);
    void openUseful();

    PlanWorkbench *m_workbench;
    Selection *m_selection;
    ModuleTreeModel *m_model;
    ModuleFilter *m_filter;
    QLineEdit *m_search;
    QSpinBox *m_rank;
    QTreeView *m_tree;
    bool m_following = false; // what is selected came from elsewhere
};

} // namespace tpscope
