// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/randommodel.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/resources.h"
#include "model/randomweights.h"
#include "model/safetensors.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

// MemAvailable of /proc/meminfo in bytes; 0 when unknown.
std::uint64_t freeMemory() {
    std::ifstream file("/proc/meminfo");
    std::string key;
    std::uint64_t kib = 0;
    for (std::string unit; file >> key >> kib; std::getline(file, unit))
        if (key == "MemAvailable:")
            return kib * 1024;
    return 0;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

struct NamedParameter {
    std::string name;
    const Parameter *parameter;
};

std::vector<NamedParameter> storedParameters(const ModelDescription &model) {
    std::set<std::string> tied;
    for (const Tie &tie : model.tree.ties)
        tied.insert(tie.target);
    std::vector<NamedParameter> found;
    for (const Module &module : model.tree.modules)
        for (const Parameter &parameter : module.parameters) {
            std::string name =
                module.name.empty() ? parameter.name : module.name + "." + parameter.name;
            if (!tied.contains(name))
                found.push_back({std::move(name), &parameter});
        }
    return found;
}

Result<void> checkRoom(std::uint64_t bytes, const fs::path &folder) {
    std::error_code ec;
    const fs::space_info disk = fs::space(folder, ec);
    const std::uint64_t memory = freeMemory();
    const bool fitsMemory = memory == 0 || bytes <= memory / 2;
    const bool fitsDisk = ec || bytes <= disk.available;
    if (fitsMemory && fitsDisk)
        return {};
    return fail(ErrorCode::Unsupported,
                "random weights of this model take " + mebibytes(bytes) + ", more than " +
                    (fitsMemory ? "the " + mebibytes(disk.available) + " free in " + folder.string()
                                : "half of the " + mebibytes(memory) + " of free memory") +
                    "; use a smaller model, or --backend simulated");
}

} // namespace

Result<void> writeRandomModel(const ModelDescription &model, std::uint64_t seed,
                              const fs::path &folder) {
    std::error_code ec;
    fs::create_directories(folder, ec);
    if (ec)
        return fail(ErrorCode::RunFailed,
                    "cannot make a folder for random weights: " + ec.message(),
                    Location{folder.string()});
    const std::vector<NamedParameter> parameters = storedParameters(model);
    std::uint64_t elements = 0;
    for (const NamedParameter &entry : parameters)
        elements += static_cast<std::uint64_t>(elementCount(entry.parameter->shape));
    if (auto room = checkRoom(elements * sizeof(float), folder); !room)
        return room;

    std::vector<float> numbers(elements);
    std::vector<TensorToWrite> tensors;
    std::uint64_t begin = 0;
    for (const NamedParameter &entry : parameters) {
        const Parameter &parameter = *entry.parameter;
        const auto count = static_cast<std::uint64_t>(elementCount(parameter.shape));
        RandomTensor(seed, entry.name, parameter.initMean, parameter.initStd)
            .fill(0, count, numbers.data() + begin);
        tensors.push_back({entry.name, DType::F32, parameter.shape,
                           std::as_bytes(std::span(numbers).subspan(begin, count))});
        begin += count;
    }
    if (auto written = writeFileAtomically(folder / "config.json", model.config.json().dump(1));
        !written)
        return written;
    return writeSafetensors(folder / "model.safetensors", tensors);
}

} // namespace tpscope
