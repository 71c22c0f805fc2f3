// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractButton>

class QLabel;

namespace tpscope {

// A large button: picture, question, what one will see. Text wraps. GUI thread.
class StartPageCard : public QAbstractButton {
    Q_OBJECT

public:
    StartPageCard(const QString &icon, const QString &title, const QString &about, QWidget *parent = nullptr);
    void setResult(const QString &result); // a line in the accent colour; "" none
    void refreshTheme();
    QSize sizeHint() const override;

protected:
    void paintEvent(QPaintEvent *event) override;
    void enterEvent(QEnterEvent *event) override;
    void leaveEvent(QEvent *event) override;

private:
    QString m_icon;
    QLabel *m_picture;
    QLabel *m_title;
    QLabel *m_about;
    QLabel *m_result;
};

} // namespace tpscope
