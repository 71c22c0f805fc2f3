// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/moduletree.h"

#include <algorithm>
#include <cctype>

namespace tpscope {
namespace {

template <typename T> const T *attributeOf(const Module &module, const std::string &key) {
    const auto found = module.attributes.find(key);
    return found == module.attributes.end() ? nullptr : std::get_if<T>(&found->second);
}

} // namespace

std::int64_t Module::integer(const std::string &key, std::int64_t fallback) const {
    const auto *value = attributeOf<std::int64_t>(*this, key);
    return value ? *value : fallback;
}

double Module::real(const std::string &key, double fallback) const {
    if (const auto *value = attributeOf<double>(*this, key))
        return *value;
    const auto *whole = attributeOf<std::int64_t>(*this, key);
    return whole ? static_cast<double>(*whole) : fallback;
}

bool Module::flag(const std::string &key, bool fallback) const {
    const auto *value = attributeOf<bool>(*this, key);
    return value ? *value : fallback;
}

std::string Module::text(const std::string &key, const std::string &fallback) const {
    const auto *value = attributeOf<std::string>(*this, key);
    return value ? *value : fallback;
}

const Parameter *Module::parameter(std::string_view parameterName) const {
    const auto found = std::ranges::find(parameters, parameterName, &Parameter::name);
    return found == parameters.end() ? nullptr : &*found;
}

const Parameter *Module::buffer(std::string_view bufferName) const {
    const auto found = std::ranges::find(buffers, bufferName, &Parameter::name);
    return found == buffers.end() ? nullptr : &*found;
}

const Module *ModuleTree::find(std::string_view fullName) const {
    const auto index = indexOf(fullName);
    return index ? &at(*index) : nullptr;
}

std::optional<ModuleIndex> ModuleTree::indexOf(std::string_view fullName) const {
    const auto found = m_byName.find(std::string(fullName));
    if (found == m_byName.end())
        return std::nullopt;
    return ModuleIndex(found->second);
}

std::optional<ModuleIndex> ModuleTree::resolve(ModuleIndex from, std::string_view path) const {
    const std::string &base = at(from).name;
    if (path.empty())
        return from;
    return indexOf(base.empty() ? std::string(path) : base + "." + std::string(path));
}

ModuleIndex ModuleTree::add(std::optional<ModuleIndex> parent, std::string localName,
                            std::string className) {
    Module module;
    module.localName = localName;
    module.className = std::move(className);
    module.parent = parent;
    if (parent) {
        const std::string &base = at(*parent).name;
        module.name = base.empty() ? localName : base + "." + localName;
    }
    const ModuleIndex index(modules.size());
    m_byName.emplace(module.name, index.value);
    modules.push_back(std::move(module));
    if (parent)
        modules[parent->value].children.push_back(index);
    return index;
}

std::string genericName(std::string_view fullName) {
    std::string out;
    std::size_t i = 0;
    while (i < fullName.size()) {
        if (fullName[i] != '.') {
            out += fullName[i++];
            continue;
        }
        std::size_t end = i + 1;
        while (end < fullName.size() && std::isdigit(static_cast<unsigned char>(fullName[end])))
            ++end;
        const bool isNumber = end > i + 1 && (end == fullName.size() || fullName[end] == '.');
        if (!isNumber) {
            out += fullName[i++];
            continue;
        }
        out += ".*";
        // The pattern `\.\d+(\.|$)` eats the trailing dot too, so a number right behind it stays.
        if (end < fullName.size()) {
            out += '.';
            ++end;
        }
        i = end;
    }
    return out;
}

} // namespace tpscope
