// SPDX-License-Identifier: GPL-3.0-or-later
#include "arch/configreads.h"

#include <nlohmann/json.hpp>

#include "arch/decoderblocks.h"

namespace tpscope::blocks {

template <typename T> T ConfigReads::keep(Result<T> read, T fallback) {
    if (read)
        return std::move(*read);
    if (!m_error)
        m_error = read.error();
    return fallback;
}

std::int64_t ConfigReads::count(const std::string &key, std::int64_t fallback) {
    return keep(readCount(m_config, {key}, fallback), fallback);
}

std::int64_t ConfigReads::integer(const std::string &key, std::int64_t fallback) {
    return keep(m_config.integer(key, fallback), fallback);
}

double ConfigReads::real(const std::string &key, double fallback) { return keep(m_config.real(key, fallback), fallback); }

bool ConfigReads::flag(const std::string &key, bool fallback) { return keep(m_config.flag(key, fallback), fallback); }

std::string ConfigReads::text(const std::string &key, const std::string &fallback) {
    return keep(m_config.text(key, fallback), fallback);
}

std::optional<std::vector<std::int64_t>> ConfigReads::integers(const std::string &key) {
    if (!m_config.has(key))
        return std::nullopt;
    const nlohmann::json &list = m_config.json().at(key);
    std::vector<std::int64_t> numbers;
    bool good = list.is_array();
    for (const nlohmann::json &entry : good ? list : nlohmann::json::array()) {
        good = good && (entry.is_number_integer() || entry.is_boolean());
        if (good)
            numbers.push_back(entry.is_boolean() ? static_cast<std::int64_t>(entry.get<bool>()) : entry.get<std::int64_t>());
    }
    if (good)
        return numbers;
    expect(fail(ErrorCode::BadInput, "key \"" + key + "\": expected a list of integers, found " + list.dump().substr(0, 80),
                Location{m_config.fileName()}));
    return std::nullopt;
}

void ConfigReads::expect(Result<void> read) {
    if (!read && !m_error)
        m_error = read.error();
}

void ConfigReads::refuse(const std::string &message) {
    expect(fail(ErrorCode::Unsupported, message, Location{m_config.fileName()}));
}

} // namespace tpscope::blocks
