// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/plandocument.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "base/resources.h"
#include "base/text.h"
#include "plan/planrules.h"
#include "plan/yamltree.h"

namespace tpscope {
namespace {

// Top-level keys of the project's form.
constexpr std::array<std::string_view, 6> ownKeys{"model_type", "tp_size", "base", "tp_plan", "ep_plan", "ep_size"};
// Fields of DistributedConfig that say nothing about the plan. Source: transformers 5.24 distributed/
// configuration_utils.py.
constexpr std::array<std::string_view, 9> otherFields{
    "enable_sequence_parallel", "enable_expert_parallel", "fsdp_size", "dp_replicate_size", "fsdp_plan",
    "fsdp_cpu_offload",         "fsdp_mixed_precision",   "pp_size",   "ep_implementation"};

bool contains(std::span<const std::string_view> names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
}

class PlanReader {
public:
    PlanReader(const YamlTree &tree, PlanDocument &document) : m_tree(tree), m_document(document) {}

    Result<void> read() {
        const YamlIndex root = m_tree.resolvedIndex(m_tree.root);
        const YamlNode &top = m_tree.nodes[root];
        if (top.kind == YamlNode::Kind::Null)
            return failAt(root, "the file is empty; expected a mapping of module patterns to styles");
        if (top.kind != YamlNode::Kind::Mapping)
            return failAt(root, "expected a mapping of module patterns to styles, found " +
                                    describeKind(m_tree, root));
        const std::vector<YamlPair> pairs = m_tree.pairs(root);
        m_document.bareMapping = std::ranges::none_of(pairs, [&](const YamlPair &pair) {
            return isKnown(keyOf(pair));
        });
        return m_document.bareMapping ? readBare(root, pairs) : readFields(pairs);
    }

private:
    static bool isKnown(std::string_view key) { return contains(ownKeys, key) || contains(otherFields, key); }

    std::string_view keyOf(const YamlPair &pair) const { return m_tree.resolved(pair.key).value; }

    tl::unexpected<Error> failAt(YamlIndex index, std::string message) const {
        const SourceSpan &span = m_tree.nodes[index].span;
        return fail(ErrorCode::BadInput, std::move(message), Location{m_document.fileName, span.line, span.column});
    }

    // A document without any known key is the plan itself, unless it shows a slip of the pen.
    Result<void> readBare(YamlIndex root, const std::vector<YamlPair> &pairs) {
        for (const YamlPair &pair : pairs) {
            const std::string key(keyOf(pair));
            if (m_tree.resolved(pair.value).kind != YamlNode::Kind::Mapping || key.starts_with("x-"))
                continue;
            if (editDistance(key, "tp_plan") <= 2 || key.find("tp_plan") != std::string::npos)
                return unknownKey(pair);
        }
        m_document.hasTpPlan = true;
        m_document.rules = readRules(m_tree, root, RuleOrigin::File);
        std::erase_if(m_document.rules, [](const PlanRule &rule) {
            return rule.key.starts_with("x-") && !rule.styleIsText;
        });
        return {};
    }

    Result<void> readFields(const std::vector<YamlPair> &pairs) {
        std::vector<std::pair<std::string, YamlIndex>> seen;
        for (const YamlPair &pair : pairs) {
            const std::string key(keyOf(pair));
            if (!isKnown(key) && !key.starts_with("x-"))
                return unknownKey(pair);
            if (const auto before = std::ranges::find(seen, key, &std::pair<std::string, YamlIndex>::first);
                before != seen.end())
                return failAt(pair.key, "\"" + key + "\" stands here a second time; the first is on line " +
                                            std::to_string(m_tree.nodes[before->second].span.line));
            if (isKnown(key))
                seen.emplace_back(key, pair.key);
            if (const auto done = readField(key, pair.value); !done)
                return done;
        }
        // Source: transformers 5.24 DistributedConfig._resolve_parallelism: the flag alone sets tp_plan={}.
        if (m_document.expertParallel && !m_document.epSize && !m_tpPlanGiven)
            m_document.hasTpPlan = true;
        return {};
    }

    Result<void> readField(const std::string &key, YamlIndex value) {
        const YamlNode &node = m_tree.resolved(value);
        const bool null = node.kind == YamlNode::Kind::Null;
        if (key == "tp_plan")
            return readTpPlan(value);
        if (key == "enable_expert_parallel")
            m_document.expertParallel = node.kind == YamlNode::Kind::Scalar && !node.quoted && node.value == "true";
        if (null || !contains(ownKeys, key))
            return {};
        if (key == "tp_size")
            return readSize(key, value, m_document.tpSize);
        if (key == "ep_size")
            return readSize(key, value, m_document.epSize);
        if (key == "ep_plan") {
            if (node.kind != YamlNode::Kind::Mapping)
                return failAt(value, "ep_plan: expected a mapping of module patterns to styles, found " +
                                         describeKind(m_tree, value));
            m_document.epRules = readRules(m_tree, m_tree.resolvedIndex(value), RuleOrigin::File);
            return {};
        }
        if (!m_tree.isText(value))
            return failAt(value, key + ": expected a text, found " + describeKind(m_tree, value));
        if (key == "model_type") {
            m_document.modelType = node.value;
            return {};
        }
        if (node.value != "builtin" && node.value != "none")
            return failAt(value, "base: expected builtin or none, found \"" + shortened(node.value) + "\"");
        m_document.baseBuiltin = node.value == "builtin";
        return {};
    }

    Result<void> readTpPlan(YamlIndex value) {
        const YamlNode &node = m_tree.resolved(value);
        const bool isAuto = node.kind == YamlNode::Kind::Scalar && node.value == "auto";
        m_document.tpPlanIsMapping =
            node.kind == YamlNode::Kind::Mapping || node.kind == YamlNode::Kind::Null || isAuto;
        m_document.hasTpPlan = node.kind == YamlNode::Kind::Mapping;
        m_tpPlanGiven = node.kind != YamlNode::Kind::Null;
        if (m_document.hasTpPlan)
            m_document.rules = readRules(m_tree, m_tree.resolvedIndex(value), RuleOrigin::File);
        return {};
    }

    Result<void> readSize(const std::string &key, YamlIndex value, std::optional<int> &target) {
        const YamlNode &node = m_tree.resolved(value);
        int size = 0;
        const char *end = node.value.data() + node.value.size();
        const auto [stop, error] = std::from_chars(node.value.data(), end, size);
        if (node.kind != YamlNode::Kind::Scalar || node.quoted || error != std::errc() || stop != end || size < 1)
            return failAt(value, key + ": expected a whole number from 1, found " + describeKind(m_tree, value));
        target = size;
        return {};
    }

    tl::unexpected<Error> unknownKey(const YamlPair &pair) const {
        std::vector<std::string> names(ownKeys.begin(), ownKeys.end());
        const std::string key = m_tree.printable(pair.key);
        std::string message = "unknown key \"" + shortened(key) + "\"; a plan file has ";
        for (std::size_t i = 0; i < names.size(); ++i)
            message += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
        const std::string near = nearest(key, names);
        if (key.find('.') != std::string::npos)
            message += "; rules stand below tp_plan";
        else if (!near.empty())
            message += "; did you mean " + near + "?";
        return failAt(pair.key, message);
    }

    const YamlTree &m_tree;
    PlanDocument &m_document;
    bool m_tpPlanGiven = false;
};

} // namespace

std::vector<PlanRule> readRules(const YamlTree &tree, YamlIndex mapping, RuleOrigin origin) {
    std::vector<PlanRule> rules;
    for (const YamlPair &pair : tree.pairs(mapping)) {
        PlanRule rule;
        rule.keyIsText = tree.isText(pair.key);
        rule.styleIsText = tree.isText(pair.value);
        rule.key = tree.printable(pair.key);
        rule.style = tree.printable(pair.value);
        rule.origin = origin;
        rule.keySpan = tree.nodes[pair.key].span;
        rule.styleSpan = tree.nodes[pair.value].span;
        rule.merged = pair.merged;
        rules.push_back(std::move(rule));
    }
    return rules;
}

std::string describeKind(const YamlTree &tree, YamlIndex index) {
    switch (tree.resolved(index).kind) {
    case YamlNode::Kind::Null: return "nothing";
    case YamlNode::Kind::Sequence: return "a list";
    case YamlNode::Kind::Mapping: return "a mapping";
    case YamlNode::Kind::Alias:
    case YamlNode::Kind::Scalar: break;
    }
    return "\"" + shortened(tree.resolved(index).value) + "\"";
}

Result<PlanDocument> parsePlan(const std::string &text, const std::string &fileName) {
    const auto tree = readYaml(text, fileName);
    if (!tree)
        return tl::unexpected(tree.error());
    PlanDocument document;
    document.fileName = fileName;
    document.text = text;
    if (const auto read = PlanReader(*tree, document).read(); !read)
        return tl::unexpected(read.error());
    return document;
}

Result<PlanDocument> loadPlan(const std::string &path) {
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    return parsePlan(*text, path);
}

} // namespace tpscope
