// SPDX-License-Identifier: GPL-3.0-or-later
// writeSafetensors() of model/safetensors.h.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/resources.h"
#include "model/safetensors.h"

namespace tpscope {
namespace {

std::string problemOf(const TensorToWrite &tensor) {
    const std::size_t needed =
        static_cast<std::size_t>(elementCount(tensor.shape)) * elementSize(tensor.dtype);
    if (needed == tensor.bytes.size())
        return {};
    return "tensor \"" + tensor.name + "\": " + std::string(safetensorsName(tensor.dtype)) + " " +
           toText(tensor.shape) + " needs " + std::to_string(needed) + " bytes, got " +
           std::to_string(tensor.bytes.size());
}

} // namespace

Result<void> writeSafetensors(const std::filesystem::path &path,
                              const std::vector<TensorToWrite> &tensors) {
    std::vector<const TensorToWrite *> order;
    std::unordered_set<std::string> names{"__metadata__"};
    for (const TensorToWrite &tensor : tensors) {
        if (const std::string problem = problemOf(tensor); !problem.empty())
            return fail(ErrorCode::Usage, problem, Location{path.string()});
        if (!names.insert(tensor.name).second)
            return fail(ErrorCode::Usage,
                        "tensor \"" + tensor.name + "\" cannot be written twice or by that name",
                        Location{path.string()});
        order.push_back(&tensor);
    }
    std::ranges::stable_sort(order, std::greater{}, [](const TensorToWrite *tensor) {
        return elementSize(tensor->dtype);
    });

    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::size_t end = 0;
    for (const TensorToWrite *tensor : order) {
        const std::size_t begin = std::exchange(end, end + tensor->bytes.size());
        header[tensor->name] = {{"dtype", safetensorsName(tensor->dtype)},
                                {"shape", tensor->shape},
                                {"data_offsets", {begin, end}}};
    }
    std::string text;
    try {
        text = header.dump();
    } catch (const nlohmann::json::exception &) {
        return fail(ErrorCode::Usage, "a tensor's name is not valid UTF-8",
                    Location{path.string()});
    }
    text.append((8 - text.size() % 8) % 8, ' '); // the data then begin aligned

    std::string file;
    file.reserve(8 + text.size() + end);
    for (int i = 0; i < 8; ++i)
        file += static_cast<char>((text.size() >> (8 * i)) & 0xFF);
    file += text;
    for (const TensorToWrite *tensor : order)
        file.append(reinterpret_cast<const char *>(tensor->bytes.data()), tensor->bytes.size());
    return writeFileAtomically(path, file);
}

} // namespace tpscope
