// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QStringList>
#include <QWidget>
#include <array>

class QGridLayout;
class QLabel;
class QListWidget;
class QToolButton;

namespace tpscope {

class StartPageCard;

// The first thing to see: three questions, each one click from an answer, files to drop, what was open lately and the
// bundled models. Knows no model; it asks. GUI thread.
class StartPage : public QWidget {
    Q_OBJECT

public:
    enum class Way { CheckPlan, SlowDecode, WrongGradients };

    explicit StartPage(QWidget *parent = nullptr);
    void setRecent(const QStringList &files);   // newest first
    void setBundled(const QStringList &models);
    void setRecorded(const QString &verdict);   // result of the recorded comparison, under the second way
    void refreshTheme();
    QWidget *card(Way way) const;

signals:
    void wayChosen(tpscope::StartPage::Way way);
    void fileDropped(const QString &path, tpscope::StartPage::Way way); // onto the card of a way
    void recentChosen(const QString &file);
    void modelChosen(const QString &name);
    void openPlanRequested();
    void openModelRequested();

private:
    QLayout *buildCards();
    QWidget *buildLists();
    QWidget *buildDrop();

    std::array<StartPageCard *, 3> m_cards{};
    QListWidget *m_recent;
    QListWidget *m_bundled;
    QLabel *m_dropIcon;
    QLabel *m_logo;
};

} // namespace tpscope
