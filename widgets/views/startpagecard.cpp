// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/startpagecard.h"

#include <QApplication>
#include <QDragEnterEvent>
#include <QLabel>
#include <QMimeData>
#include <QPainter>
#include <QVBoxLayout>

#include "style/icons.h"
#include "style/theme.h"

namespace tpscope {

QString droppedFile(const QMimeData &data) {
    const QList<QUrl> urls = data.urls();
    return urls.isEmpty() ? QString() : urls.first().toLocalFile();
}

StartPageCard::StartPageCard(const QString &icon, const QString &title, const QString &about, QWidget *parent)
    : QAbstractButton(parent), m_icon(icon), m_picture(new QLabel), m_title(new QLabel(title)),
      m_about(new QLabel(about)), m_result(new QLabel), m_dropHint(new QLabel) {
    setAcceptDrops(true);
    setText(title);
    setAccessibleName(title);
    setAccessibleDescription(about);
    setCursor(Qt::PointingHandCursor);
    setFocusPolicy(Qt::StrongFocus);
    QFont font = m_title->font();
    font.setPointSizeF(font.pointSizeF() + 3);
    font.setBold(true);
    m_title->setFont(font);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(18, 16, 18, 16);
    layout->setSpacing(8);
    for (QLabel *label : {m_picture, m_title, m_about, m_result}) {
        label->setWordWrap(label != m_picture);
        label->setAttribute(Qt::WA_TransparentForMouseEvents);
        layout->addWidget(label);
    }
    layout->addStretch(1);
    m_dropHint->setAttribute(Qt::WA_TransparentForMouseEvents);
    m_dropHint->setWordWrap(true);
    layout->addWidget(m_dropHint);
    m_result->hide();
    refreshTheme();
}

void StartPageCard::setResult(const QString &result) {
    m_result->setText(result);
    m_result->setVisible(!result.isEmpty());
}

void StartPageCard::setDropHint(const QString &hint) { m_dropHint->setText(hint); }

void StartPageCard::refreshTheme() {
    m_picture->setPixmap(themedIcon(m_icon, Theme::color(Meaning::Info)).pixmap(32, 32));
    const QPalette colors = QApplication::palette(); // the widget's own follows later
    QPalette quiet = colors;
    quiet.setColor(QPalette::ButtonText, Theme::subtleText()); // a label on a button takes the button's colour
    m_about->setPalette(colors);
    m_dropHint->setPalette(quiet);
    QFont bold = font();
    bold.setBold(true);
    m_result->setFont(bold);
    m_title->setPalette(colors);
    m_result->setPalette(colors);
}

QSize StartPageCard::sizeHint() const { return QSize(300, 200); }

void StartPageCard::paintEvent(QPaintEvent *) {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const bool lit = underMouse() || hasFocus() || isDown() || m_dragged;
    painter.setPen(QPen(lit ? Theme::color(Meaning::Info) : Theme::grid(), lit ? 2 : 1,
                        m_dragged ? Qt::DashLine : Qt::SolidLine));
    painter.setBrush(palette().color(isDown() ? QPalette::AlternateBase : QPalette::Base));
    painter.drawRoundedRect(QRectF(rect()).adjusted(1.5, 1.5, -1.5, -1.5), 8, 8);
}

void StartPageCard::dragEnterEvent(QDragEnterEvent *event) {
    if (droppedFile(*event->mimeData()).isEmpty())
        return;
    event->acceptProposedAction();
    m_dragged = true;
    update();
}

void StartPageCard::dragLeaveEvent(QDragLeaveEvent *) {
    m_dragged = false;
    update();
}

void StartPageCard::dropEvent(QDropEvent *event) {
    m_dragged = false;
    update();
    event->acceptProposedAction();
    emit fileDropped(droppedFile(*event->mimeData()));
}

void StartPageCard::enterEvent(QEnterEvent *event) {
    QAbstractButton::enterEvent(event);
    update();
}

void StartPageCard::leaveEvent(QEvent *event) {
    QAbstractButton::leaveEvent(event);
    update();
}

} // namespace tpscope
