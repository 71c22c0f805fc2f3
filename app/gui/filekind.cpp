// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/filekind.h"

#include <QFileInfo>

#include <nlohmann/json.hpp>

#include "base/resources.h"

namespace tpscope {

FileKind fileKind(const QString &path) {
    const QFileInfo info(path);
    if (info.isDir())
        return FileKind::Model;
    if (info.suffix().compare(QLatin1String("json"), Qt::CaseInsensitive) != 0)
        return FileKind::Plan;
    const auto text = readFile(path.toStdString());
    const auto json = text ? nlohmann::json::parse(*text, nullptr, false) : nlohmann::json();
    // A config that cannot be read is still meant as one.
    if (!json.is_object())
        return info.fileName() == QLatin1String("config.json") ? FileKind::Model : FileKind::Plan;
    if (json.contains("before") && json.contains("after"))
        return FileKind::Comparison;
    return json.contains("model_type") && !json.contains("tp_plan") ? FileKind::Model : FileKind::Plan;
}

} // namespace tpscope
