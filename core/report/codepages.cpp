// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/codepages.h"

#include "base/resources.h"

namespace tpscope {
namespace fs = std::filesystem;

fs::path docsDir() {
    const fs::path inside = resourceDir() / "docs";
    std::error_code ec;
    return fs::exists(inside, ec) ? inside : resourceDir().parent_path() / "docs";
}

Result<std::string> codePage(std::string_view code) {
    return readFile(docsDir() / "codes" / (std::string(code) + ".md"));
}

} // namespace tpscope
