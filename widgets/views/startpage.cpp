// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/startpage.h"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

#include "style/icons.h"
#include "style/theme.h"
#include "views/startpagecard.h"

namespace tpscope {
namespace {

QLabel *sectionTitle(const QString &text) {
    auto *label = new QLabel(text);
    QFont font = label->font();
    font.setBold(true);
    label->setFont(font);
    return label;
}

// A dashed frame says: something can be put here.
class DropFrame : public QWidget {
protected:
    void paintEvent(QPaintEvent *) override {
        QPainter painter(this);
        painter.setRenderHint(QPainter::Antialiasing);
        painter.setPen(QPen(Theme::subtleText(), 1.2, Qt::DashLine));
        painter.drawRoundedRect(QRectF(rect()).adjusted(1, 1, -1, -1), 8, 8);
    }
};

QListWidget *linkList() {
    auto *list = new QListWidget;
    list->setFrameShape(QFrame::NoFrame);
    list->setUniformItemSizes(true);
    list->setSpacing(3);
    list->viewport()->setAutoFillBackground(false);
    list->setCursor(Qt::PointingHandCursor);
    list->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    list->setTextElideMode(Qt::ElideMiddle);
    return list;
}

} // namespace

StartPage::StartPage(QWidget *parent)
    : QWidget(parent), m_recent(linkList()), m_bundled(linkList()), m_dropIcon(new QLabel), m_logo(new QLabel) {
    auto *title = new QLabel(tr("TPScope"));
    QFont font = title->font();
    font.setPointSizeF(font.pointSizeF() + 11);
    font.setBold(true);
    title->setFont(font);
    auto *head = new QHBoxLayout;
    head->setSpacing(14);
    head->addWidget(m_logo);
    auto *words = new QVBoxLayout;
    words->setSpacing(0);
    words->addWidget(title);
    words->addWidget(new QLabel(tr("What a tensor-parallel plan does to a model, before a cluster is booked.")));
    head->addLayout(words, 1);

    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(56, 40, 56, 28);
    layout->setSpacing(26);
    layout->addLayout(head);
    layout->addLayout(buildCards());
    layout->addWidget(buildLists());
    layout->addStretch(1);
    setRecent({});
    refreshTheme();
    connect(m_recent, &QListWidget::itemActivated, this,
            [this](const QListWidgetItem *item) { emit recentChosen(item->data(Qt::UserRole).toString()); });
    connect(m_recent, &QListWidget::itemClicked, this,
            [this](const QListWidgetItem *item) { emit recentChosen(item->data(Qt::UserRole).toString()); });
    connect(m_bundled, &QListWidget::itemClicked, this,
            [this](const QListWidgetItem *item) { emit modelChosen(item->text()); });
    connect(m_bundled, &QListWidget::itemActivated, this,
            [this](const QListWidgetItem *item) { emit modelChosen(item->text()); });
}

QLayout *StartPage::buildCards() {
    m_cards[0] =
        new StartPageCard(QStringLiteral("check"), tr("Check a plan"),
                          tr("Open a small Qwen3 with its plan as text. Change a rule and see at once what is sharded, "
                             "what breaks, and how to mend it."));
    m_cards[1] =
        new StartPageCard(QStringLiteral("clock"), tr("Why is decode slow?"),
                          tr("A recorded comparison: hooks that break the compiled graph, before and after, with the "
                             "time of each token."));
    m_cards[2] =
        new StartPageCard(QStringLiteral("gradient"), tr("Why are gradients wrong?"),
                          tr("A plan whose logits are right and whose gradients are not. The finding names the rule "
                             "that is missing and adds it."));
    m_cards[0]->setDropHint(tr("Drop a plan or a model here to check yours."));
    m_cards[1]->setDropHint(tr("Drop a comparison, a plan or a model to see yours."));
    m_cards[2]->setDropHint(tr("Drop a plan or a model here to check yours."));
    auto *cards = new QHBoxLayout;
    cards->setSpacing(16);
    for (std::size_t i = 0; i < m_cards.size(); ++i) {
        m_cards[i]->setMinimumHeight(186);
        cards->addWidget(m_cards[i], 1);
        connect(m_cards[i], &StartPageCard::clicked, this, [this, i] { emit wayChosen(static_cast<Way>(i)); });
        connect(m_cards[i], &StartPageCard::fileDropped, this,
                [this, i](const QString &path) { emit fileDropped(path, static_cast<Way>(i)); });
    }
    return cards;
}

QWidget *StartPage::buildLists() {
    auto *lists = new QWidget;
    lists->setFixedHeight(280);
    auto *line = new QHBoxLayout(lists);
    line->setContentsMargins(0, 0, 0, 0);
    line->setSpacing(16);
    const auto column = [line](const QString &title, QWidget *content) {
        auto *box = new QVBoxLayout;
        box->setSpacing(6);
        box->addWidget(sectionTitle(title));
        box->addWidget(content, 1);
        line->addLayout(box, 1);
    };
    column(tr("Recent"), m_recent);
    column(tr("Bundled models"), m_bundled);
    column(tr("Your own"), buildDrop());
    return lists;
}

QWidget *StartPage::buildDrop() {
    auto *drop = new DropFrame;
    auto *layout = new QVBoxLayout(drop);
    layout->setContentsMargins(16, 14, 16, 14);
    auto *text = new QLabel(tr("Drop a plan (YAML, JSON), a config.json, a model folder or a saved "
                               "comparison anywhere in this window."));
    text->setWordWrap(true);
    text->setAlignment(Qt::AlignHCenter | Qt::AlignTop);
    m_dropIcon->setAlignment(Qt::AlignHCenter);
    auto *plan = new QPushButton(tr("Open plan\u2026"));
    auto *model = new QPushButton(tr("Open model\u2026"));
    connect(plan, &QPushButton::clicked, this, &StartPage::openPlanRequested);
    connect(model, &QPushButton::clicked, this, &StartPage::openModelRequested);
    auto *buttons = new QHBoxLayout;
    buttons->addWidget(plan);
    buttons->addWidget(model);
    layout->addStretch(1);
    layout->addWidget(m_dropIcon);
    layout->addWidget(text);
    layout->addLayout(buttons);
    layout->addStretch(1);
    return drop;
}

void StartPage::setRecent(const QStringList &files) {
    m_recent->clear();
    for (const QString &file : files) {
        auto *item = new QListWidgetItem(
            QFileInfo(file).fileName() + QStringLiteral("  \u2013  ") + QFileInfo(file).path(), m_recent);
        item->setData(Qt::UserRole, file);
        item->setToolTip(file);
    }
    if (!files.isEmpty())
        return;
    auto *none = new QListWidgetItem(tr("What you open is listed here."), m_recent);
    none->setFlags(Qt::NoItemFlags);
}

void StartPage::setBundled(const QStringList &models) {
    m_bundled->clear();
    m_bundled->addItems(models);
}

void StartPage::setRecorded(const QString &verdict) { m_cards[1]->setResult(verdict); }

QWidget *StartPage::card(Way way) const { return m_cards[static_cast<std::size_t>(way)]; }

void StartPage::refreshTheme() {
    m_logo->setPixmap(themedIcon(QStringLiteral("tpscope")).pixmap(48, 48));
    m_dropIcon->setPixmap(themedIcon(QStringLiteral("drop"), Theme::subtleText()).pixmap(28, 28));
    for (StartPageCard *card : m_cards)
        card->refreshTheme();
}

} // namespace tpscope
