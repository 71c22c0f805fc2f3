// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/hubcache.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/resources.h"
#include "base/text.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;

std::optional<fs::path> environmentPath(const char *name) {
    const char *value = std::getenv(name);
    return value && *value ? std::optional<fs::path>(value) : std::nullopt;
}

bool isNameCharacter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

// The commit refs/main names, if that file is well-formed.
std::string mainCommit(const fs::path &repository) {
    auto text = readFile(repository / "refs" / "main");
    if (!text)
        return {};
    while (!text->empty() && (text->back() == '\n' || text->back() == ' '))
        text->pop_back();
    const bool isName = std::ranges::all_of(*text, isNameCharacter) && !text->starts_with('.');
    return isName ? *text : std::string();
}

} // namespace

fs::path hubCacheDir() {
    if (const auto cache = environmentPath("HF_HUB_CACHE"))
        return *cache;
    if (const auto home = environmentPath("HF_HOME"))
        return *home / "hub";
    if (const auto cache = environmentPath("XDG_CACHE_HOME"))
        return *cache / "huggingface" / "hub";
    return environmentPath("HOME").value_or(fs::path("/")) / ".cache" / "huggingface" / "hub";
}

bool isHubId(const std::string &text) {
    if (text.empty() || text.size() > 96 || std::ranges::count(text, '/') > 1)
        return false;
    if (text.find("..") != std::string::npos || text.find("--") != std::string::npos)
        return false;
    const auto isEdge = [](char c) { return c == '/' || c == '-' || c == '.'; };
    return !isEdge(text.front()) && !isEdge(text.back()) &&
           std::ranges::all_of(text, [](char c) { return c == '/' || isNameCharacter(c); });
}

Result<std::optional<fs::path>> findInHubCache(const std::string &hubId) {
    if (!isHubId(hubId))
        return std::nullopt;
    std::string folder = "models--" + hubId;
    if (const auto slash = folder.find('/'); slash != std::string::npos)
        folder.replace(slash, 1, "--");
    const fs::path repository = hubCacheDir() / folder;
    std::error_code ec;
    if (!fs::is_directory(repository, ec))
        return std::nullopt;

    const fs::path snapshots = repository / "snapshots";
    if (const std::string commit = mainCommit(repository); !commit.empty())
        if (const fs::path folderOfMain = snapshots / commit; fs::is_directory(folderOfMain, ec))
            return folderOfMain;
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(snapshots, ec))
        if (entry.is_directory(ec))
            found.push_back(entry.path());
    if (found.size() == 1)
        return found.front();
    return fail(ErrorCode::BadInput,
                found.empty()
                    ? "model " + inQuotes(hubId) +
                          " is in the cache without any snapshot; download it again"
                    : "model " + inQuotes(hubId) + " has " + std::to_string(found.size()) +
                          " snapshots in the cache and no refs/main; name one of their folders",
                Location{snapshots.string()});
}

std::optional<fs::path> hubRepositoryOf(const fs::path &canonicalFolder) {
    const fs::path snapshots = canonicalFolder.parent_path();
    const fs::path repository = snapshots.parent_path();
    if (snapshots.filename() == "snapshots" &&
        repository.filename().string().starts_with("models--"))
        return repository;
    return std::nullopt;
}

} // namespace tpscope
