// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <functional>
#include <memory>
#include <vector>

#include "measure/comparison.h"
#include "session/workspace.h"

class QLabel;
class QListWidget;
class QPlainTextEdit;
class QPushButton;

namespace tpscope {

// A picture a view can save of itself.
struct ExportPicture {
    QString title;
    bool there = true; // false: the view has nothing to show yet
    std::function<bool(const QString &file)> save;
};

// Everything that can be exported, with a preview; saves atomically or copies. Reads values only. GUI thread.
class ExportDialog : public QDialog {
    Q_OBJECT

public:
    // analysis and comparison may be null: what needs them is greyed.
    ExportDialog(std::shared_ptr<const PlanAnalysis> analysis, std::shared_ptr<const Comparison> comparison,
                 const QString &modelArgument, const QString &baseName, std::vector<ExportPicture> pictures,
                 QWidget *parent = nullptr);

    void choose(const QString &formatId); // "yaml", "html", ..., "picture": the first there is
    void choosePicture(const QString &title);
    QString previewText() const;
    // Writes what is chosen; "" when it worked, else why not.
    QString writeTo(const QString &path);

private:
    void fill();
    void showChosen();
    void saveAs();

    std::shared_ptr<const PlanAnalysis> m_analysis;
    std::shared_ptr<const Comparison> m_comparison;
    QString m_modelArgument;
    QString m_baseName;
    std::vector<ExportPicture> m_pictures;
    QListWidget *m_list;
    QLabel *m_about;
    QPlainTextEdit *m_preview;
    QPushButton *m_copy;
    QPushButton *m_save;
};

} // namespace tpscope
