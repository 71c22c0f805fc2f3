// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/modelsource.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/resources.h"
#include "base/text.h"
#include "model/hubcache.h"
#include "model/weightindex.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;

constexpr const char *singleName = "model.safetensors";
constexpr const char *indexName = "model.safetensors.index.json";

bool isFile(const fs::path &path) {
    std::error_code ec;
    return fs::is_regular_file(path, ec);
}

bool isFolder(const fs::path &path) {
    std::error_code ec;
    return fs::is_directory(path, ec);
}

// A link whose target is gone: a download that was cut short, not a file that was never there.
bool isBrokenLink(const fs::path &path) {
    std::error_code ec;
    return fs::is_symlink(path, ec) && !fs::exists(path, ec);
}

std::vector<std::string> fileNames(const fs::path &folder) {
    std::vector<std::string> names;
    std::error_code ec;
    for (const auto &entry : fs::directory_iterator(folder, ec))
        if (!isFolder(entry.path()))
            names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
}

// True when path, with all links followed, lies in root.
bool liesIn(const fs::path &path, const fs::path &root) {
    std::error_code ec;
    const fs::path real = fs::canonical(path, ec);
    return !ec &&
           std::mismatch(root.begin(), root.end(), real.begin(), real.end()).first == root.end();
}

// An index comes with a download; it must not make us read files from elsewhere.
Result<void> addIndexedFiles(ModelSource &source) {
    const auto index = readWeightIndex(source.indexPath);
    if (!index)
        return tl::unexpected(index.error());
    std::error_code ec;
    const fs::path folder = fs::canonical(source.folder, ec);
    const fs::path root = hubRepositoryOf(folder).value_or(folder);
    for (std::size_t i = 0; i < index->files.size(); ++i) {
        const fs::path path = source.folder / index->files[i];
        const auto bad = [&](const std::string &what) {
            return fail(ErrorCode::BadInput,
                        "weight_map, tensor " + inQuotes(index->firstTensorOf(i)) + ": file " +
                            inQuotes(index->files[i]) + " " + what,
                        Location{source.indexPath.string()});
        };
        if (!isFile(path))
            return bad(isBrokenLink(path) ? "is a link to a missing file" : "is missing");
        if (!liesIn(path, root))
            return bad("is a link that leads outside the model's folder");
        source.weightFiles.push_back(path);
    }
    return {};
}

// model-00001-of-00003.safetensors: {1, 3}.
struct ShardName {
    int number = 0;
    int count = 0;
};
std::optional<ShardName> shardName(const std::string &name) {
    ShardName shard;
    int length = -1;
    const int read = std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &shard.number,
                                 &shard.count, &length);
    const bool whole = read == 2 && length == static_cast<int>(name.size());
    return whole ? std::optional(shard) : std::nullopt;
}

// Shards that lost their index still are a checkpoint when all of them are there.
Result<void> addShards(ModelSource &source, const std::vector<std::string> &names) {
    std::set<int> numbers;
    std::set<int> counts;
    for (const std::string &name : names)
        if (const auto shard = shardName(name)) {
            numbers.insert(shard->number);
            counts.insert(shard->count);
            source.weightFiles.push_back(source.folder / name);
        }
    if (numbers.empty())
        return {};
    const auto bad = [&](const std::string &what) {
        return fail(ErrorCode::BadInput, what, Location{source.folder.string()});
    };
    if (counts.size() > 1)
        return bad("shards of two checkpoints and no " + std::string(indexName) +
                   " to tell which to read");
    for (int number = 1; number <= *counts.begin(); ++number)
        if (!numbers.contains(number))
            return bad("weight file " + std::to_string(number) + " of " +
                       std::to_string(*counts.begin()) + " is missing");
    return {};
}

// Weights in a format of other tools; "" none.
std::string unreadableFile(const std::vector<std::string> &names) {
    for (const std::string &name : names)
        if ((name.starts_with("pytorch_model") && name.ends_with(".bin")) ||
            name.ends_with(".gguf") || name.ends_with(".pth") || name == "tf_model.h5" ||
            name == "flax_model.msgpack")
            return name;
    return {};
}

Result<void> addWeights(ModelSource &source) {
    for (const char *name : {singleName, indexName})
        if (isBrokenLink(source.folder / name))
            return fail(ErrorCode::BadInput,
                        "is a link to a missing file; download the model again",
                        Location{(source.folder / name).string()});
    if (isFile(source.folder / singleName)) {
        source.weightFiles = {source.folder / singleName};
        return {};
    }
    if (isFile(source.folder / indexName)) {
        source.indexPath = source.folder / indexName;
        return addIndexedFiles(source);
    }
    const std::vector<std::string> names = fileNames(source.folder);
    if (const auto shards = addShards(source, names); !shards || source.hasWeights())
        return shards;
    for (const std::string &name : names)
        if (name.ends_with(".safetensors"))
            source.weightFiles.push_back(source.folder / name);
    if (const std::string name = unreadableFile(names); !source.hasWeights() && !name.empty())
        source.unreadableWeights = Error{ErrorCode::Unsupported,
                                         "the weights are in " + inQuotes(name) +
                                             "; only safetensors files are read, convert it",
                                         Location{source.folder.string()}};
    return {};
}

Result<ModelSource> fromFolder(ModelSource source, const fs::path &folder) {
    source.folder = folder;
    source.configPath = folder / "config.json";
    if (const auto weights = addWeights(source); !weights)
        return tl::unexpected(weights.error());
    return source;
}

fs::path bundledConfig(const std::string &name) {
    return resourceDir() / "configs" / (name + ".json");
}
fs::path bundledFolder(const std::string &name) { return resourceDir() / "models" / name; }

Result<ModelSource> fromFile(ModelSource source, const fs::path &file) {
    if (file.extension() == ".safetensors")
        return fail(ErrorCode::BadInput,
                    "is a weight file; name the folder that holds it and its config.json",
                    Location{file.string()});
    source.configPath = file;
    return source;
}

tl::unexpected<Error> notFound(const std::string &argument) {
    const std::vector<std::string> bundled = bundledModelNames();
    const std::vector<std::string> near = nearestFew(argument, bundled, 3);
    std::string names;
    for (const std::string &name : near.empty() ? bundled : near)
        names += (names.empty() ? "" : ", ") + name;
    return fail(ErrorCode::NotFound, "no model " + inQuotes(argument) +
                                         ": there is no such folder or file, no bundled model of "
                                         "that name, and no model of that id in " +
                                         hubCacheDir().string() +
                                         (near.empty() ? "; bundled: " : "; did you mean: ") +
                                         names);
}

} // namespace

std::vector<std::string> bundledModelNames() {
    std::set<std::string> names;
    std::error_code ec;
    for (const auto &entry : fs::directory_iterator(resourceDir() / "configs", ec))
        if (entry.path().extension() == ".json" && isFile(entry.path()))
            names.insert(entry.path().stem().string());
    for (const auto &entry : fs::directory_iterator(resourceDir() / "models", ec))
        if (isFile(entry.path() / "config.json"))
            names.insert(entry.path().filename().string());
    return {names.begin(), names.end()};
}

Result<ModelSource> findModel(const std::string &argument) {
    if (argument.empty())
        return fail(
            ErrorCode::Usage,
            "the model is empty: expected a folder, a config.json, a bundled name or a hub id");
    ModelSource source;
    source.argument = argument;
    const fs::path path(argument);
    if (isFolder(path) && isFile(path / "config.json"))
        return fromFolder(std::move(source), path);
    if (isFile(path))
        return fromFile(std::move(source), path);

    const std::vector<std::string> bundled = bundledModelNames();
    if (std::ranges::find(bundled, argument) != bundled.end()) {
        source.bundled = true;
        return isFile(bundledFolder(argument) / "config.json")
                   ? fromFolder(std::move(source), bundledFolder(argument))
                   : fromFile(std::move(source), bundledConfig(argument));
    }
    if (isFolder(path))
        return fail(ErrorCode::BadInput, "the folder has no config.json", Location{argument});

    const auto snapshot = findInHubCache(argument);
    if (!snapshot)
        return tl::unexpected(snapshot.error());
    if (!*snapshot)
        return notFound(argument);
    if (!isFile(**snapshot / "config.json"))
        return fail(ErrorCode::BadInput,
                    "the snapshot in the cache has no config.json; download the model again",
                    Location{(*snapshot)->string()});
    return fromFolder(std::move(source), **snapshot);
}

} // namespace tpscope
