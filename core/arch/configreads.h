// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/modelconfig.h"

namespace tpscope::blocks {

// Reads keys of a config one after the other and keeps the first error; what follows it gives fallbacks. Absent or null
// keys give the fallback too.
class ConfigReads {
public:
    explicit ConfigReads(const ModelConfig &config) : m_config(config) {}

    std::int64_t count(const std::string &key, std::int64_t fallback); // at least 1
    std::int64_t integer(const std::string &key, std::int64_t fallback);
    double real(const std::string &key, double fallback);
    bool flag(const std::string &key, bool fallback);
    std::string text(const std::string &key, const std::string &fallback);
    // A list of integers or booleans, these as 0 and 1. Nothing: absent or null.
    std::optional<std::vector<std::int64_t>> integers(const std::string &key);
    void expect(Result<void> read); // keeps its error
    void refuse(const std::string &message); // Unsupported

    bool failed() const { return m_error.has_value(); }
    tl::unexpected<Error> error() const { return tl::unexpected(*m_error); }

private:
    template <typename T> T keep(Result<T> read, T fallback);

    const ModelConfig &m_config;
    std::optional<Error> m_error;
};

} // namespace tpscope::blocks
