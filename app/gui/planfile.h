// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFileSystemWatcher>
#include <QObject>
#include <QString>
#include <QTimer>

namespace tpscope {

// The file a plan is kept in: read, written atomically, watched for what other programs write. Holds no text of its own
// but what was last on disk. Lives in the GUI thread; plans are small.
class PlanFile : public QObject {
    Q_OBJECT

public:
    explicit PlanFile(QObject *parent = nullptr);

    QString path() const { return m_path; } // "" not saved yet
    QString displayName() const;            // "plan.yaml", "Untitled plan"

    void close(); // forgets the file
    // Errors are texts for people; "" it worked.
    QString load(const QString &path, QByteArray &text); // without a byte order mark, which save() puts back
    QString save(const QString &path, const QByteArray &text);
    QByteArray onDisk() const { return m_onDisk; } // as last read or written here

signals:
    void changedOnDisk(const QByteArray &text); // another program wrote something else
    void removedOnDisk();

private:
    void look();
    void watch();

    QString m_path;
    QByteArray m_onDisk;
    bool m_mark = false;
    QFileSystemWatcher m_watcher;
    QTimer m_settle; // an editor that replaces a file makes several changes at once
};

} // namespace tpscope
