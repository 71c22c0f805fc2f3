// SPDX-License-Identifier: GPL-3.0-or-later
// Edits of a plan's text. Each reads the text again: places of nodes, not of rules, decide what an edit may touch.
#include <algorithm>
#include <optional>

#include "plan/plandocument.h"
#include "plan/yamlsource.h"
#include "plan/yamltree.h"

namespace tpscope {
namespace {

bool isBlockForm(const YamlNode &node, std::string_view text) {
    const bool collection = node.kind == YamlNode::Kind::Sequence || node.kind == YamlNode::Kind::Mapping;
    const char first = node.begin < text.size() ? text[node.begin] : '\0';
    return collection ? !node.flow : node.kind == YamlNode::Kind::Scalar && (first == '|' || first == '>');
}

std::string_view trimmedRight(std::string_view text) {
    while (!text.empty() && (isBlank(text.back()) || isLineEnd(text.back())))
        text.remove_suffix(1);
    return text;
}

class Editor {
public:
    Editor(const PlanDocument &document, PlanPart part)
        : m_document(document), m_rules(part == PlanPart::Tp ? document.rules : document.epRules),
          m_name(part == PlanPart::Tp ? "tp_plan" : "ep_plan"), m_bare(document.bareMapping && part == PlanPart::Tp),
          m_text(document.text) {
        if (auto tree = readYaml(document.text, document.fileName))
            m_tree = std::move(*tree);
    }

    TextEdit setStyle(std::size_t index, const std::string &style) const {
        const auto pair = pairOf(index);
        if (!pair)
            return {};
        if (pair->merged)
            return addRule(m_rules[index].key, style);
        const YamlNode &key = m_tree->nodes[pair->key];
        const YamlNode &value = m_tree->nodes[pair->value];
        const bool json = key.quoted && quoteOf(m_text, key.begin) == Quote::Double && !value.quoted &&
                          m_tree->nodes[m_tree->root].flow;
        const Quote quote = json ? Quote::Double : quoteOf(m_text, value.begin);
        const std::string scalar = scalarText(style, value.kind == YamlNode::Kind::Scalar || json ? quote : Quote::Plain);
        if (isBlockForm(value, m_text))
            return replaceBlock(key, value, scalar);
        if (value.begin == value.end)
            return fillEmpty(mappingOf(pair->key), key, value, scalar);
        return replaceNode(pair->value, scalar);
    }

    TextEdit rename(std::size_t index, const std::string &key) const {
        const auto pair = pairOf(index);
        if (!pair)
            return {};
        const YamlNode &node = m_tree->nodes[pair->key];
        const Quote quote = node.kind == YamlNode::Kind::Scalar ? quoteOf(m_text, node.begin) : Quote::Plain;
        return replaceNode(pair->key, scalarText(key, quote));
    }

    TextEdit addRule(const std::string &key, const std::string &style) const {
        // A bare mapping is all tp_plan: there is no place for another part.
        if (!m_tree || (m_document.bareMapping && !m_bare))
            return {};
        const YamlIndex root = m_tree->resolvedIndex(m_tree->root);
        if (m_bare)
            return append(root, ruleText(root, key, style));
        const auto plan = planPair();
        if (plan && m_tree->resolved(plan->value).kind == YamlNode::Kind::Mapping) {
            const YamlIndex mapping = m_tree->resolvedIndex(plan->value);
            return append(mapping, ruleText(mapping, key, style));
        }
        const std::string rule = ruleText(root, key, style, plan ? 1 : 0);
        return plan ? replaceWithPlan(root, *plan, rule) : appendPlan(root, rule);
    }

private:
    std::optional<YamlPair> planPair() const {
        for (const YamlPair &pair : m_tree->pairs(m_tree->resolvedIndex(m_tree->root)))
            if (m_tree->resolved(pair.key).value == m_name)
                return pair;
        return std::nullopt;
    }

    // The pair a rule was read from: the one at its places.
    std::optional<YamlPair> pairOf(std::size_t index) const {
        if (!m_tree || index >= m_rules.size())
            return std::nullopt;
        YamlIndex mapping = m_tree->resolvedIndex(m_tree->root);
        if (!m_bare) {
            const auto plan = planPair();
            if (!plan)
                return std::nullopt;
            mapping = m_tree->resolvedIndex(plan->value);
        }
        const PlanRule &rule = m_rules[index];
        for (const YamlPair &pair : m_tree->pairs(mapping))
            if (m_tree->nodes[pair.key].span == rule.keySpan && m_tree->nodes[pair.value].span == rule.styleSpan)
                return pair;
        return std::nullopt;
    }

    YamlIndex mappingOf(YamlIndex key) const {
        YamlIndex mapping = 0;
        for (YamlIndex i = 0; i < key; ++i)
            if (std::ranges::find(m_tree->nodes[i].children, key) != m_tree->nodes[i].children.end())
                mapping = i;
        return mapping;
    }

    // Replaces a node by one scalar. What others refer to by alias moves to the first of them with its anchor.
    TextEdit replaceNode(YamlIndex index, const std::string &scalar) const {
        const YamlNode &node = m_tree->nodes[index];
        if (node.anchored) {
            for (const YamlNode &other : m_tree->nodes) {
                if (other.kind != YamlNode::Kind::Alias || other.target != index)
                    continue;
                const std::string anchored(m_text.substr(node.outer, node.end - node.outer));
                const std::string between(m_text.substr(node.end, other.begin - node.end));
                return {node.outer, other.end - node.outer, scalar + between + anchored};
            }
        }
        const std::size_t from = node.tag.empty() ? node.begin : node.outer;
        return {from, node.end - from, scalar};
    }

    // A block scalar or block collection: the style comes on the key's line, comments between them stay.
    TextEdit replaceBlock(const YamlNode &key, const YamlNode &value, const std::string &scalar) const {
        const std::size_t colon = skipSpace(m_text, key.end);
        const std::string_view gap = trimmedRight(m_text.substr(colon + 1, value.outer - colon - 1));
        return {colon + 1, value.end - colon - 1, " " + scalar + std::string(gap)};
    }

    TextEdit fillEmpty(YamlIndex mapping, const YamlNode &key, const YamlNode &value,
                       const std::string &scalar) const {
        if (value.begin > key.end)
            return {value.begin, 0, " " + scalar};
        // "? key" in a block mapping has its value on a line of its own, in a flow mapping ": value" follows.
        const std::size_t mark = explicitKeyMark(m_text, key.outer);
        if (mark == std::string_view::npos || m_tree->nodes[mapping].flow)
            return {value.begin, 0, ": " + scalar};
        return {lineEnd(m_text, value.begin), 0,
                lineBreak(m_text) + std::string(columnOf(m_text, mark), ' ') + ": " + scalar};
    }

    // "key: style" quoted like the last pair of the mapping; like JSON where the document is.
    std::string ruleText(YamlIndex mapping, const std::string &key, const std::string &style,
                         std::size_t skipped = 0) const {
        Quote keyQuote = m_tree->nodes[m_tree->root].flow ? Quote::Double : Quote::Plain;
        Quote styleQuote = keyQuote;
        const std::vector<YamlIndex> &children = m_tree->nodes[mapping].children;
        if (children.size() >= 2 && skipped == 0) {
            const YamlNode &lastKey = m_tree->nodes[children[children.size() - 2]];
            const YamlNode &lastStyle = m_tree->nodes[children.back()];
            keyQuote = lastKey.kind == YamlNode::Kind::Scalar ? quoteOf(m_text, lastKey.begin) : Quote::Plain;
            const bool typed = lastStyle.kind != YamlNode::Kind::Scalar || !m_tree->isText(children.back());
            styleQuote = typed ? keyQuote : quoteOf(m_text, lastStyle.begin);
        }
        return scalarText(key, keyQuote) + ": " + scalarText(style, styleQuote);
    }

    // Puts a pair behind the last one of a mapping.
    TextEdit append(YamlIndex index, const std::string &pair) const {
        const YamlNode &mapping = m_tree->nodes[index];
        if (!mapping.flow)
            return {lineEnd(m_text, mapping.end), 0,
                    lineBreak(m_text) + std::string(columnOf(m_text, mapping.begin), ' ') + pair};
        if (mapping.children.empty())
            return {mapping.begin + 1, 0, pair};
        const std::size_t lastKey = m_tree->nodes[mapping.children[mapping.children.size() - 2]].outer;
        const std::size_t column = columnOf(m_text, lastKey);
        const std::string_view indent = m_text.substr(lastKey - column, column);
        const bool ownLine = std::ranges::all_of(indent, isBlank);
        const std::string separator = ownLine ? "," + lineBreak(m_text) + std::string(indent) : ", ";
        return {m_tree->nodes[mapping.children.back()].end, 0, separator + pair};
    }

    // The part is there without a mapping: its value gives way to one.
    TextEdit replaceWithPlan(YamlIndex root, const YamlPair &plan, const std::string &rule) const {
        const YamlNode &top = m_tree->nodes[root];
        const YamlNode &key = m_tree->nodes[plan.key];
        const YamlNode &value = m_tree->nodes[plan.value];
        const bool colon = value.outer > key.end;
        if (top.flow)
            return {value.outer, value.end - value.outer,
                    (colon ? value.outer == value.end ? " {" : "{" : ": {") + rule + "}"};
        const std::string line = lineBreak(m_text) + std::string(columnOf(m_text, top.begin) + 2, ' ') + rule;
        if (!colon)
            return {key.end, 0, lineBreak(m_text) + ":" + line};
        const std::size_t from = skipSpace(m_text, key.end) + 1;
        const std::string_view gap = trimmedRight(m_text.substr(from, value.outer - from));
        const std::size_t end = lineEnd(m_text, value.end);
        const std::string_view rest = trimmedRight(m_text.substr(value.end, end - value.end));
        return {from, end - from, std::string(gap) + std::string(rest) + line};
    }

    TextEdit appendPlan(YamlIndex root, const std::string &rule) const {
        const YamlNode &top = m_tree->nodes[root];
        if (top.flow)
            return append(root, "\"" + std::string(m_name) + "\": {" + rule + "}");
        return append(root, std::string(m_name) + ":" + lineBreak(m_text) + std::string(columnOf(m_text, top.begin) + 2, ' ') + rule);
    }

    const PlanDocument &m_document;
    const std::vector<PlanRule> &m_rules;
    std::string_view m_name;
    bool m_bare; // the whole document is the part
    std::string_view m_text;
    std::optional<YamlTree> m_tree;
};

} // namespace

TextEdit setStyleEdit(const PlanDocument &document, std::size_t index, const std::string &style, PlanPart part) {
    return Editor(document, part).setStyle(index, style);
}

TextEdit renameKeyEdit(const PlanDocument &document, std::size_t index, const std::string &key, PlanPart part) {
    return Editor(document, part).rename(index, key);
}

TextEdit addRuleEdit(const PlanDocument &document, const std::string &key, const std::string &style, PlanPart part) {
    return Editor(document, part).addRule(key, style);
}

std::string applyEdit(const std::string &text, const TextEdit &edit) {
    const std::size_t offset = std::min(edit.offset, text.size());
    std::string out = text;
    return out.replace(offset, std::min(edit.length, text.size() - offset), edit.text);
}

} // namespace tpscope
