// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/error.h"

// The local cache of the Hugging Face hub. Read only; nothing is ever downloaded.
// Source: huggingface_hub 1.x constants.py and file_download.py:
// models--org--name/{blobs,refs,snapshots}.
namespace tpscope {

// $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub.
std::filesystem::path hubCacheDir();

// "org/name", or "name" for the few models without an organisation.
bool isHubId(const std::string &text);

// The snapshot folder of a model: of refs/main, else the only one there is. nullopt: the model is
// not in the cache. Errors: BadInput when the model is there and no snapshot can be chosen.
Result<std::optional<std::filesystem::path>> findInHubCache(const std::string &hubId);

// The folder files of a snapshot may link into (its repository's blobs); nullopt: no snapshot
// folder.
std::optional<std::filesystem::path> hubRepositoryOf(const std::filesystem::path &canonicalFolder);

} // namespace tpscope
