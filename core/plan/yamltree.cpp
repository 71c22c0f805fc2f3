// SPDX-License-Identifier: GPL-3.0-or-later
#include "plan/yamltree.h"

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "plan/yamlsource.h"

namespace tpscope {
namespace {

// More merged pairs than any plan needs: a few lines of nested merges can ask for billions.
constexpr std::size_t mergeLimit = 1'000'000;
constexpr std::size_t printableLimit = 200;

void print(const YamlTree &tree, YamlIndex index, int depth, std::string &out) {
    const YamlNode &node = tree.resolved(index);
    if (out.size() > printableLimit || depth > 16) {
        out += "...";
        return;
    }
    switch (node.kind) {
    case YamlNode::Kind::Null: out += "null"; return;
    case YamlNode::Kind::Alias: return;
    case YamlNode::Kind::Scalar:
        out += depth == 0 || !tree.isText(index) ? node.value
                                                 : scalarText(node.value, node.quoted ? Quote::Double : Quote::Plain);
        return;
    case YamlNode::Kind::Sequence: out += '['; break;
    case YamlNode::Kind::Mapping: out += '{'; break;
    }
    const bool mapping = node.kind == YamlNode::Kind::Mapping;
    for (std::size_t i = 0; i < node.children.size() && out.size() <= printableLimit; ++i) {
        if (i > 0)
            out += mapping && i % 2 == 1 ? ": " : ", ";
        print(tree, node.children[i], depth + 1, out);
    }
    out += mapping ? '}' : ']';
}

bool isMergeKey(const YamlTree &tree, YamlIndex index) {
    const YamlNode &node = tree.nodes[index];
    return node.kind == YamlNode::Kind::Scalar && !node.quoted && node.value == "<<" && node.tag.empty();
}

} // namespace

YamlIndex YamlTree::resolvedIndex(YamlIndex index) const {
    return nodes[index].kind == YamlNode::Kind::Alias ? nodes[index].target : index;
}

const YamlNode &YamlTree::resolved(YamlIndex index) const { return nodes[resolvedIndex(index)]; }

bool YamlTree::isText(YamlIndex index) const {
    const YamlNode &node = resolved(index);
    if (node.kind != YamlNode::Kind::Scalar)
        return false;
    if (!node.tag.empty())
        return node.tag == "tag:yaml.org,2002:str";
    return node.quoted || !isTypedScalar(node.value);
}

std::string YamlTree::printable(YamlIndex index) const {
    std::string out;
    print(*this, index, 0, out);
    return out;
}

std::vector<YamlPair> YamlTree::pairs(YamlIndex mapping) const {
    if (const auto found = m_merged.find(mapping); found != m_merged.end())
        return found->second;
    std::vector<YamlPair> out;
    const std::vector<YamlIndex> &children = nodes[mapping].children;
    for (std::size_t i = 0; i + 1 < children.size(); i += 2)
        out.push_back({children[i], children[i + 1], false});
    return out;
}

// Source: PyYAML constructor.py flatten_mapping: merged pairs come first; of the mappings in one list the first wins, of
// several merge keys the last; the mapping's own keys win over all.
std::vector<YamlIndex> YamlTree::mergeSources(YamlIndex mapping) const {
    std::vector<YamlIndex> sources;
    const std::vector<YamlIndex> &children = nodes[mapping].children;
    for (std::size_t c = 0; c + 1 < children.size(); c += 2) {
        if (!isMergeKey(*this, children[c]))
            continue;
        const YamlNode &value = resolved(children[c + 1]);
        if (value.kind == YamlNode::Kind::Sequence)
            sources.insert(sources.begin(), value.children.begin(), value.children.end());
        else
            sources.insert(sources.begin(), children[c + 1]);
    }
    return sources;
}

Result<std::vector<YamlPair>> YamlTree::merge(YamlIndex mapping, const std::string &fileName) const {
    const auto failAt = [&](YamlIndex index, std::string message) {
        return fail(ErrorCode::BadInput, std::move(message),
                    Location{fileName, nodes[index].span.line, nodes[index].span.column});
    };
    std::vector<YamlPair> own;
    std::unordered_set<std::string> seen;
    const std::vector<YamlIndex> &children = nodes[mapping].children;
    for (std::size_t c = 0; c + 1 < children.size(); c += 2) {
        if (isMergeKey(*this, children[c]))
            continue;
        own.push_back({children[c], children[c + 1], false});
        seen.insert(printable(children[c]));
    }
    std::vector<YamlPair> all;
    for (const YamlIndex source : mergeSources(mapping)) {
        const YamlIndex from = resolvedIndex(source);
        if (nodes[from].kind != YamlNode::Kind::Mapping)
            return failAt(source, "a merge key (<<) needs a mapping or a list of mappings, found " +
                                      shortened(printable(source)));
        if (nodes[from].begin <= nodes[mapping].begin && nodes[from].end >= nodes[mapping].end)
            return failAt(source, "a merge key (<<) refers to the mapping it stands in");
        for (const YamlPair &pair : pairs(from))
            if (seen.insert(printable(pair.key)).second)
                all.push_back({pair.key, pair.value, true});
    }
    all.insert(all.end(), own.begin(), own.end());
    return all;
}

Result<void> YamlTree::resolveMerges(const std::string &fileName) {
    std::vector<YamlIndex> withMerge;
    for (YamlIndex i = 0; i < nodes.size(); ++i) {
        const std::vector<YamlIndex> &children = nodes[i].children;
        bool found = false;
        for (std::size_t c = 0; c < children.size() && nodes[i].kind == YamlNode::Kind::Mapping; c += 2)
            found = found || isMergeKey(*this, children[c]);
        if (found)
            withMerge.push_back(i);
    }
    // What a mapping merges ends before the mapping does: an alias names a node before it, an inline source is inside.
    std::ranges::sort(withMerge, {}, [&](YamlIndex i) { return std::pair(nodes[i].end, nodes.size() - i); });
    std::size_t total = 0;
    for (const YamlIndex mapping : withMerge) {
        auto merged = merge(mapping, fileName);
        if (!merged)
            return tl::unexpected(merged.error());
        if ((total += merged->size()) > mergeLimit)
            return fail(ErrorCode::BadInput, "merge keys (<<) make more than a million pairs",
                        Location{fileName, nodes[mapping].span.line, nodes[mapping].span.column});
        m_merged.emplace(mapping, std::move(*merged));
    }
    return {};
}

} // namespace tpscope
