// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <span>

#include "measure/comparison.h"
#include "session/workspace.h"

namespace tpscope {

// One row a document that can be exported.
struct ExportFormat {
    enum class Of { Plan, Comparison };
    const char *id;     // "yaml"
    Of of;
    const char *title;  // to be translated in the context "ExportFormat"
    const char *about;  // the same
    const char *suffix; // with its dot
};
std::span<const ExportFormat> exportFormats();
const ExportFormat *findExportFormat(const QString &id);

// The document as text. A plan needs a readable analysis. "" when its input is missing.
QString exportText(const ExportFormat &format, const PlanAnalysis *analysis, const Comparison *comparison,
                   const QString &modelArgument);

} // namespace tpscope
