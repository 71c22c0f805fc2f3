// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/runlines.h"

#include <QMetaObject>

#include <nlohmann/json.hpp>

namespace tpscope {
namespace {

const char source[] = "the output of the run";

template <typename T>
void fillColumn(const nlohmann::json &line, const char *key, std::vector<Event> &events, T Event::*member) {
    const auto found = line.find(key);
    if (found == line.end() || !found->is_array())
        return;
    for (std::size_t i = 0; i < events.size() && i < found->size(); ++i)
        if ((*found)[i].is_number_integer())
            events[i].*member = (*found)[i].get<T>();
}

EventKind kindOf(const std::string &text) {
    for (const EventKind kind : {EventKind::Compute, EventKind::Collective, EventKind::HookRegistration,
                                 EventKind::Launch, EventKind::Token, EventKind::Phase})
        if (name(kind) == text)
            return kind;
    return EventKind::Compute;
}

std::vector<Event> eventsOf(const nlohmann::json &line) {
    const auto starts = line.find("start_ns");
    std::vector<Event> events(starts != line.end() && starts->is_array() ? starts->size() : 0);
    fillColumn(line, "start_ns", events, &Event::start);
    fillColumn(line, "duration_ns", events, &Event::duration);
    fillColumn(line, "token", events, &Event::token);
    fillColumn(line, "layer", events, &Event::layer);
    fillColumn(line, "module", events, &Event::module);
    fillColumn(line, "op", events, &Event::op);
    fillColumn(line, "bytes", events, &Event::bytes);
    const auto kinds = line.find("kind");
    for (std::size_t i = 0; kinds != line.end() && i < events.size() && i < kinds->size(); ++i)
        if ((*kinds)[i].is_string())
            events[i].kind = kindOf((*kinds)[i].get<std::string>());
    return events;
}

// As json.value(), but a value of another type is the default too: the line comes from another process.
template <typename T> T valueOf(const nlohmann::json &json, const char *key, T otherwise) {
    const auto found = json.find(key);
    if (found == json.end())
        return otherwise;
    if constexpr (std::is_same_v<T, std::string>)
        return found->is_string() ? found->get<T>() : otherwise;
    else
        return found->is_number() ? found->get<T>() : otherwise;
}

} // namespace

// What a line says; one of its parts is set.
struct RunLines::Said {
    enum class Kind { Nothing, Progress, Events, Result, Unreadable };
    Kind kind = Kind::Nothing;
    QString phase;
    QString message;
    double fraction = -1.0;
    int rank = 0;
    std::vector<Event> events;
    std::shared_ptr<const RunTrace> trace;
    std::shared_ptr<const Comparison> comparison;
};

RunLines::RunLines(QObject *parent) : QObject(parent) { m_pool.setMaxThreadCount(1); }

RunLines::~RunLines() {
    m_pool.clear();
    m_pool.waitForDone();
}

RunLines::Said RunLines::parsed(const QByteArray &line) {
    Said said;
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object())
        return said;
    const auto type = valueOf(json, "type", std::string());
    if (type == "progress") {
        said.kind = Said::Kind::Progress;
        said.phase = QString::fromStdString(valueOf(json, "phase", std::string()));
        said.message = QString::fromStdString(valueOf(json, "message", std::string()));
        said.fraction = valueOf(json, "fraction", -1.0);
    } else if (type == "events") {
        said.kind = Said::Kind::Events;
        said.rank = valueOf(json, "rank", 0);
        said.events = eventsOf(json);
    } else if (type == "result") {
        said.kind = Said::Kind::Result;
        const auto unreadable = [&said](const Error &error) {
            said.kind = Said::Kind::Unreadable;
            said.message = QString::fromStdString(error.text());
        };
        if (json.contains("before")) {
            if (auto comparison = comparisonFromJson(json, source))
                said.comparison = std::make_shared<const Comparison>(std::move(*comparison));
            else
                unreadable(comparison.error());
        } else if (auto trace = runTraceFromJson(json, source)) {
            said.trace = std::make_shared<const RunTrace>(std::move(*trace));
        } else {
            unreadable(trace.error());
        }
    }
    return said;
}

void RunLines::feed(const QByteArray &bytes) {
    qsizetype begin = 0;
    // Only the new bytes are searched: a long line comes in many parts.
    for (qsizetype end = bytes.indexOf('\n'); end >= 0; end = bytes.indexOf('\n', begin)) {
        m_rest += bytes.mid(begin, end - begin);
        parseLater(std::exchange(m_rest, {}));
        begin = end + 1;
    }
    m_rest += bytes.mid(begin);
}

void RunLines::finish() {
    if (!m_rest.isEmpty())
        parseLater(std::exchange(m_rest, {}));
    m_pool.start([this] { QMetaObject::invokeMethod(this, &RunLines::finished, Qt::QueuedConnection); });
}

void RunLines::parseLater(const QByteArray &line) {
    m_pool.start([this, line] {
        auto said = std::make_shared<const Said>(parsed(line));
        QMetaObject::invokeMethod(this, [this, said] { tell(*said); }, Qt::QueuedConnection);
    });
}

void RunLines::tell(const Said &said) {
    switch (said.kind) {
    case Said::Kind::Nothing: break;
    case Said::Kind::Progress: emit progressed(said.phase, said.message, said.fraction); break;
    case Said::Kind::Events: emit eventsArrived(said.rank, said.events); break;
    case Said::Kind::Unreadable: emit unreadableResult(said.message); break;
    case Said::Kind::Result:
        if (said.comparison)
            emit comparisonFinished(said.comparison);
        else
            emit runFinished(said.trace);
        break;
    }
}

} // namespace tpscope
