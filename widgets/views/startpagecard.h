// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>

class QLabel;
class QMimeData;

namespace tpscope {

QString droppedFile(const QMimeData &data); // the first file or folder; "" there is none on this machine

// A large button: picture, question, what one will see, and a place to drop a file of
// one's own. Text wraps. GUI thread.
class StartPageCard : public QAbstractButton {
    Q_OBJECT

public:
    StartPageCard(const QString &icon, const QString &title, const QString &about, QWidget *parent = nullptr);
    void setResult(const QString &result); // a line in the accent colour; "" none
    void setDropHint(const QString &hint);  // what can be dropped here
    void refreshTheme();
    QSize sizeHint() const override;

signals:
    void fileDropped(const QString &path);

protected:
    void dragEnterEvent(QDragEnterEvent *event) override;
    void dragLeaveEvent(QDragLeaveEvent *event) override;
    void dropEvent(QDropEvent *event) override;
    void paintEvent(QPaintEvent *event) override;
    void enterEvent(QEnterEvent *event) override;
    void leaveEvent(QEvent *event) override;

private:
    QString m_icon;
    QLabel *m_picture;
    QLabel *m_title;
    QLabel *m_about;
    QLabel *m_result;
    QLabel *m_dropHint;
    bool m_dragged = false; // a file is held over the card
};

} // namespace tpscope
