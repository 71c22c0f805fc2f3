// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/recording.h"

#include <nlohmann/json.hpp>

#include "base/resources.h"

namespace tpscope {

QString bundledRecordingPath() {
    return QString::fromStdString((resourceDir() / "recordings" / "qwen3-tiny-tp2.json").string());
}

Result<Comparison> loadComparison(const QString &path) {
    const std::string file = path.toStdString();
    const auto text = readFile(file);
    if (!text)
        return tl::unexpected(text.error());
    const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_discarded())
        return fail(ErrorCode::BadInput, "is not JSON; expected a comparison saved by tpscope", Location{file});
    return comparisonFromJson(json, file);
}

} // namespace tpscope
