// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/rankrequest.h"

#include "run/prompts.h"

#include <array>

namespace tpscope {
namespace {

using nlohmann::json;

struct BadKey {
    std::string key;
    std::string expected;
};

template <typename T> T get(const json &object, const char *key, const char *expected) {
    const auto found = object.find(key);
    if (found == object.end())
        throw BadKey{key, std::string(expected) + ", found nothing"};
    try {
        return found->get<T>();
    } catch (const json::exception &) {
        throw BadKey{key, std::string(expected) + ", found " + found->dump()};
    }
}

int whole(const json &object, const char *key, int low, int high) {
    const auto value = get<std::int64_t>(object, key, "a whole number");
    if (value < low || value > high)
        throw BadKey{key, std::to_string(low) + " to " + std::to_string(high) + ", found " + std::to_string(value)};
    return static_cast<int>(value);
}

Collectives collectives(const std::string &text) {
    for (const Collectives kind : std::array{Collectives::Gloo, Collectives::OneShot})
        if (name(kind) == text)
            return kind;
    throw BadKey{"collectives", "gloo or one-shot, found " + text};
}

template <typename T> T valueOr(Result<T> result, const char *key) {
    if (!result)
        throw BadKey{key, result.error().message};
    return std::move(*result);
}

RunConfig read(const json &object) {
    RunConfig config;
    config.modelArgument = get<std::string>(object, "model", "a text");
    config.planArgument = get<std::string>(object, "plan", "a text");
    config.planText = get<std::string>(object, "plan_text", "a text");
    config.tp = whole(object, "tp", 1, 1 << 16);
    config.ep = whole(object, "ep", 1, 1 << 16);
    config.hooks = valueOr(parseHookMode(get<std::string>(object, "hooks", "a text")), "hooks");
    config.collectives = collectives(get<std::string>(object, "collectives", "a text"));
    config.inputIds =
        get<std::vector<std::vector<std::int64_t>>>(object, "input_ids", "a list of lists of token ids");
    config.newTokens = whole(object, "new_tokens", 1, 1 << 24);
    config.warmupTokens = whole(object, "warmup_tokens", 0, 1 << 24);
    config.repeat = whole(object, "repeat", 1, 1 << 24);
    config.seed = get<std::uint64_t>(object, "seed", "a whole number");
    config.threads = whole(object, "threads", 1, 4096);
    config.attention = get<std::string>(object, "attention", "a text");
    config.timeout = std::chrono::seconds(whole(object, "timeout_s", 1, 1 << 30));
    config.logitsFile = get<std::string>(object, "logits_file", "a text");
    config.upstream = valueOr(Upstream::parse(get<std::string>(object, "upstream", "a text")), "upstream");
    config.eventsWanted = get<bool>(object, "events", "true or false");
    if (!checkPrompts(config, 0))
        throw BadKey{"input_ids", "prompts of at least one token id each"};
    return config;
}

} // namespace

json requestToJson(const RunConfig &config) {
    return {{"type", "request"},
            {"model", config.modelArgument},
            {"plan", config.planArgument},
            {"plan_text", config.planText},
            {"tp", config.tp},
            {"ep", config.ep},
            {"hooks", name(config.hooks)},
            {"collectives", name(config.collectives)},
            {"input_ids", config.inputIds},
            {"new_tokens", config.newTokens},
            {"warmup_tokens", config.warmupTokens},
            {"repeat", config.repeat},
            {"seed", config.seed},
            {"threads", config.threads},
            {"attention", config.attention},
            {"timeout_s", config.timeout.count()},
            {"logits_file", config.logitsFile},
            {"upstream", config.upstream.text()},
            {"events", config.eventsWanted}};
}

Result<RunConfig> requestFromJson(const json &json) {
    try {
        return read(json);
    } catch (const BadKey &bad) {
        return fail(ErrorCode::BadInput, "the request's \"" + bad.key + "\": expected " + bad.expected);
    }
}

} // namespace tpscope
