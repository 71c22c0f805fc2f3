// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/runconfig.h"

#include <array>

namespace tpscope {
namespace {

template <typename Value> struct Named {
    Value value;
    std::string_view name;
};

constexpr std::array backends{
    Named{Backend::Simulated, "simulated"},
    Named{Backend::Gloo, "gloo"},
    Named{Backend::Transformers, "transformers"},
};
constexpr std::array sources{
    Named{Source::Measured, "measured"},
    Named{Source::Simulated, "simulated"},
    Named{Source::Predicted, "predicted"},
    Named{Source::NotChecked, "not checked"},
};
constexpr std::array collectiveKinds{
    Named{Collectives::Gloo, "gloo"},
    Named{Collectives::OneShot, "one-shot"},
};

template <typename Table, typename Value> std::string_view nameIn(const Table &table, Value value) {
    for (const auto &row : table)
        if (row.value == value)
            return row.name;
    return "?";
}

template <typename Value, std::size_t N>
Result<Value> parseIn(const std::array<Named<Value>, N> &table, const std::string &what, const std::string &text) {
    std::string known;
    for (const auto &row : table) {
        if (row.name == text)
            return row.value;
        known += (known.empty() ? "" : ", ") + std::string(row.name);
    }
    return fail(ErrorCode::Usage, "unknown " + what + " '" + text + "'; known are " + known);
}

} // namespace

std::string_view name(Backend backend) { return nameIn(backends, backend); }
std::string_view name(Source source) { return nameIn(sources, source); }
std::string_view name(Collectives collectives) { return nameIn(collectiveKinds, collectives); }

Result<Backend> parseBackend(const std::string &text) { return parseIn(backends, "backend", text); }
Result<Source> parseSource(const std::string &text) { return parseIn(sources, "source of a number", text); }
Result<Collectives> parseCollectives(const std::string &text) {
    return parseIn(collectiveKinds, "kind of collectives", text);
}

} // namespace tpscope
