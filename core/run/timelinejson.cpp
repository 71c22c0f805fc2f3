// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/timelinejson.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "run/jsonfields.h"

namespace tpscope {
namespace {

using Json = nlohmann::json;

constexpr EventKind kinds[] = {EventKind::Compute, EventKind::Collective, EventKind::HookRegistration,
                               EventKind::Launch,  EventKind::Token,      EventKind::Phase};

Json column(std::span<const Event> events, auto member) {
    Json out = Json::array();
    for (const Event &event : events)
        out.push_back(event.*member);
    return out;
}

Json rankJson(int rank, std::span<const Event> events) {
    Json words = Json::array();
    for (const Event &event : events)
        words.push_back(name(event.kind));
    return {{"rank", rank},
            {"start_ns", column(events, &Event::start)},
            {"duration_ns", column(events, &Event::duration)},
            {"kind", std::move(words)},
            {"token", column(events, &Event::token)},
            {"layer", column(events, &Event::layer)},
            {"module", column(events, &Event::module)},
            {"op", column(events, &Event::op)},
            {"bytes", column(events, &Event::bytes)}};
}

// Reads the columns of one rank; remembers the first thing that is wrong.
class ColumnReader {
public:
    ColumnReader(const Json &rank, const std::string &where) : m_rank(rank), m_where(where) {}

    const Json *list(const char *key, std::optional<std::size_t> length) {
        const auto found = m_rank.find(key);
        if (found == m_rank.end() || !found->is_array())
            return reject(key, "is missing or no list");
        if (length && found->size() != *length)
            return reject(key, "has another length than `start_ns`");
        return &*found;
    }
    template <typename T> void fill(const char *key, std::vector<Event> &events, T Event::*member) {
        const Json *values = list(key, events.size());
        for (std::size_t i = 0; values && i < events.size(); ++i) {
            if (!(*values)[i].is_number_integer()) {
                reject(key, "holds something that is no whole number");
                return;
            }
            events[i].*member = (*values)[i].get<T>();
        }
    }
    void fillKinds(std::vector<Event> &events) {
        const Json *values = list("kind", events.size());
        for (std::size_t i = 0; values && i < events.size(); ++i) {
            const auto known = std::ranges::find_if(
                kinds, [&](EventKind kind) { return (*values)[i].is_string() && (*values)[i] == name(kind); });
            if (known == std::end(kinds)) {
                reject("kind", "holds an unknown kind of event");
                return;
            }
            events[i].kind = *known;
        }
    }
    const std::optional<Error> &error() const { return m_error; }

private:
    std::nullptr_t reject(const char *key, const char *why) {
        if (!m_error)
            m_error = Error{ErrorCode::BadInput, std::string("`timeline.ranks.") + key + "` " + why, Location{m_where}};
        return nullptr;
    }
    const Json &m_rank;
    const std::string &m_where;
    std::optional<Error> m_error;
};

Result<RankTrace> readRank(const Json &json, const std::string &where) {
    RankTrace rank;
    ColumnReader columns(json, where);
    rank.rank = json.is_object() && json.contains("rank") && json["rank"].is_number_integer() ? json["rank"].get<int>()
                                                                                               : 0;
    if (const Json *starts = columns.list("start_ns", std::nullopt))
        rank.events.resize(starts->size());
    columns.fill("start_ns", rank.events, &Event::start);
    columns.fill("duration_ns", rank.events, &Event::duration);
    columns.fillKinds(rank.events);
    columns.fill("token", rank.events, &Event::token);
    columns.fill("layer", rank.events, &Event::layer);
    columns.fill("module", rank.events, &Event::module);
    columns.fill("op", rank.events, &Event::op);
    columns.fill("bytes", rank.events, &Event::bytes);
    if (columns.error())
        return tl::unexpected(*columns.error());
    return rank;
}

} // namespace

Json timelineJson(const RunTrace &trace) {
    std::size_t total = 0;
    for (const RankTrace &rank : trace.ranks)
        total += rank.events.size();
    if (total == 0)
        return nullptr;
    const std::size_t perRank = mostStoredEvents / trace.ranks.size();
    std::size_t leftOut = 0;
    Json ranks = Json::array();
    for (const RankTrace &rank : trace.ranks) {
        const std::size_t kept = total <= mostStoredEvents ? rank.events.size() : std::min(perRank, rank.events.size());
        leftOut += rank.events.size() - kept;
        ranks.push_back(rankJson(rank.rank, std::span(rank.events).first(kept)));
    }
    return {{"module_names", trace.moduleNames},
            {"op_names", trace.opNames},
            {"ranks", std::move(ranks)},
            {"left_out", leftOut}};
}

Result<void> readTimeline(const Json &json, const std::string &where, RunTrace &trace) {
    JsonFields fields(json, where);
    trace.moduleNames = fields.texts("module_names");
    trace.opNames = fields.texts("op_names");
    const int leftOut = fields.count("left_out", 0);
    const std::vector<JsonFields> ranks = fields.objects("ranks");
    if (const auto checked = fields.error(); !checked)
        return checked;
    for (const JsonFields &rank : ranks) {
        auto read = readRank(rank.json(), where);
        if (!read)
            return tl::unexpected(read.error());
        trace.ranks.push_back(std::move(*read));
    }
    if (leftOut > 0)
        trace.statements.push_back("the timeline holds the first events only, " + std::to_string(leftOut) +
                                   " later ones were left out");
    return {};
}

} // namespace tpscope
