// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/planfile.h"

#include <QFile>
#include <QFileInfo>
#include <QSaveFile>

namespace tpscope {
namespace {

constexpr int settleMs = 100;
const char byteOrderMark[] = "\xEF\xBB\xBF";

} // namespace

PlanFile::PlanFile(QObject *parent) : QObject(parent) {
    m_settle.setSingleShot(true);
    m_settle.setInterval(settleMs);
    connect(&m_settle, &QTimer::timeout, this, &PlanFile::look);
    // The folder too: a file that is replaced by renaming is a new one to the watcher.
    connect(&m_watcher, &QFileSystemWatcher::fileChanged, this, [this] { m_settle.start(); });
    connect(&m_watcher, &QFileSystemWatcher::directoryChanged, this, [this] { m_settle.start(); });
}

QString PlanFile::displayName() const { return m_path.isEmpty() ? tr("Untitled plan") : QFileInfo(m_path).fileName(); }

void PlanFile::close() {
    m_settle.stop();
    m_path.clear();
    m_onDisk.clear();
    m_mark = false;
    watch();
}

QString PlanFile::load(const QString &path, QByteArray &text) {
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly))
        return tr("%1 could not be read: %2").arg(path, file.errorString());
    QByteArray bytes = file.readAll();
    m_mark = bytes.startsWith(byteOrderMark);
    if (m_mark)
        bytes.remove(0, 3);
    m_path = QFileInfo(path).absoluteFilePath();
    m_onDisk = text = bytes;
    watch();
    return {};
}

QString PlanFile::save(const QString &path, const QByteArray &text) {
    QSaveFile file(path);
    const QByteArray bytes = m_mark ? byteOrderMark + text : text;
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit())
        return tr("%1 could not be written: %2. What was there is unchanged.").arg(path, file.errorString());
    m_path = QFileInfo(path).absoluteFilePath();
    m_onDisk = text;
    watch();
    return {};
}

void PlanFile::watch() {
    if (const QStringList old = m_watcher.files() + m_watcher.directories(); !old.isEmpty())
        m_watcher.removePaths(old);
    if (m_path.isEmpty())
        return;
    m_watcher.addPath(QFileInfo(m_path).absolutePath());
    if (QFileInfo::exists(m_path))
        m_watcher.addPath(m_path);
}

void PlanFile::look() {
    if (m_path.isEmpty())
        return;
    QFile file(m_path);
    if (!file.open(QIODevice::ReadOnly)) {
        if (!file.exists())
            emit removedOnDisk();
        return;
    }
    QByteArray bytes = file.readAll();
    if (bytes.startsWith(byteOrderMark))
        bytes.remove(0, 3);
    watch();
    if (bytes == m_onDisk)
        return;
    m_onDisk = bytes;
    emit changedOnDisk(bytes);
}

} // namespace tpscope
