// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/planrepairs.h"

#include <algorithm>

#include "plan/yamlsource.h"
#include "plan/yamltree.h"

namespace tpscope {
namespace {

std::optional<YamlPair> pairNamed(const YamlTree &tree, std::string_view name) {
    const YamlIndex root = tree.resolvedIndex(tree.root);
    if (tree.nodes[root].kind == YamlNode::Kind::Mapping)
        for (const YamlPair &pair : tree.pairs(root))
            if (tree.resolved(pair.key).value == name)
                return pair;
    return std::nullopt;
}

// The mapping a part's rules stand in.
std::optional<YamlIndex> mappingOf(const YamlTree &tree, const PlanDocument &document, PlanPart part) {
    if (document.bareMapping && part == PlanPart::Tp)
        return tree.resolvedIndex(tree.root);
    const auto pair = pairNamed(tree, part == PlanPart::Tp ? "tp_plan" : document.epPlanName);
    return pair ? std::optional(tree.resolvedIndex(pair->value)) : std::nullopt;
}

std::optional<TextEdit> removeLine(std::string_view text, const YamlNode &key, const YamlNode &value) {
    std::size_t from = key.outer;
    while (from > 0 && isBlank(text[from - 1]))
        --from;
    if (from > 0 && !isLineEnd(text[from - 1]))
        return std::nullopt; // something stands before the key
    std::size_t to = lineEnd(text, std::max(value.end, key.end));
    if (to < text.size())
        to += text.compare(to, 2, "\r\n") == 0 ? 2 : 1;
    else if (from > 0) // the last line: its end goes too
        from -= from > 1 && text.compare(from - 2, 2, "\r\n") == 0 ? 2 : 1;
    return TextEdit{from, to - from, {}};
}

// Child i and the one behind it of a mapping's children are the pair.
std::optional<TextEdit> removal(const YamlTree &tree, const YamlNode &mapping, std::size_t i, std::string_view text) {
    const YamlNode &key = tree.nodes[mapping.children[i]];
    const YamlNode &value = tree.nodes[mapping.children[i + 1]];
    if (key.anchored || value.anchored)
        return std::nullopt; // others refer to it
    if (!mapping.flow)
        return removeLine(text, key, value);
    if (i + 2 < mapping.children.size())
        return TextEdit{key.outer, tree.nodes[mapping.children[i + 2]].outer - key.outer, {}};
    const std::size_t from = i == 0 ? key.outer : tree.nodes[mapping.children[i - 1]].end;
    return TextEdit{from, std::max(value.end, key.end) - from, {}};
}

} // namespace

std::vector<TextEdit> removeRuleEdits(const PlanDocument &document, const std::vector<std::size_t> &group,
                                      std::size_t kept, PlanPart part) {
    const auto tree = readYaml(document.text, document.fileName);
    const auto mapping = tree ? mappingOf(*tree, document, part) : std::nullopt;
    if (!mapping)
        return {};
    const std::vector<PlanRule> &rules = part == PlanPart::Tp ? document.rules : document.epRules;
    const YamlNode &node = tree->nodes[*mapping];
    std::vector<TextEdit> edits;
    for (const std::size_t index : group) {
        if (index == kept)
            continue;
        std::optional<TextEdit> edit;
        for (std::size_t i = 0; i + 1 < node.children.size() && !edit; i += 2)
            if (tree->nodes[node.children[i]].span == rules[index].keySpan)
                edit = removal(*tree, node, i, document.text);
        if (!edit)
            return {};
        edits.push_back(std::move(*edit));
    }
    return edits;
}

std::optional<EmptyPlan> emptyPlanPlace(const PlanDocument &document) {
    const auto tree = readYaml(document.text, document.fileName);
    if (!tree)
        return std::nullopt;
    if (const auto pair = pairNamed(*tree, "tp_plan")) {
        const YamlNode &key = tree->nodes[pair->key];
        const YamlNode &value = tree->nodes[pair->value];
        return EmptyPlan{key.span, {value.begin, value.end - value.begin, key.quoted ? "\"auto\"" : "auto"}};
    }
    const YamlNode &root = tree->nodes[tree->root]; // "{}"
    return EmptyPlan{root.span, {root.begin, root.end - root.begin, "tp_plan: auto"}};
}

} // namespace tpscope
