// SPDX-License-Identifier: GPL-3.0-or-later
// The one file that calls yaml-cpp. Facts of yaml-cpp 0.7 it works around: it reports only where a node starts, places
// of nulls are those of the next token, a lone CR is no line end, a byte-order mark is not counted in offsets (bytes).
#include <algorithm>
#include <istream>
#include <optional>
#include <streambuf>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "plan/yamlsource.h"
#include "plan/yamltree.h"

namespace tpscope {
namespace {

class TreeBuilder : public YAML::EventHandler {
public:
    TreeBuilder(YamlTree &tree, std::string_view text, std::size_t base) : m_tree(tree), m_text(text), m_base(base) {}

    void OnDocumentStart(const YAML::Mark &) override {}
    void OnDocumentEnd() override {}

    void OnNull(const YAML::Mark &mark, YAML::anchor_t anchor) override {
        YamlNode &node = add(mark, anchor, YamlNode::Kind::Null);
        node.end = node.begin;
    }

    void OnAlias(const YAML::Mark &mark, YAML::anchor_t anchor) override {
        YamlNode &node = add(mark, 0, YamlNode::Kind::Alias);
        node.target = m_anchors.at(anchor);
        while (node.end < m_text.size() && std::string_view(" \t\r\n,[]{}").find(m_text[node.end]) ==
                                               std::string_view::npos)
            ++node.end;
    }

    void OnScalar(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                  const std::string &value) override {
        YamlNode &node = add(mark, anchor, YamlNode::Kind::Scalar);
        node.value = value;
        node.quoted = tag == "!";
        node.tag = tag == "!" || tag == "?" ? std::string() : tag;
        node.begin = skipProperties(m_text, node.outer);
        node.quoted = node.quoted || quoteOf(m_text, node.begin) != Quote::Plain;
        node.end = scalarEnd(m_text, node.begin, value);
    }

    void OnSequenceStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value style) override {
        open(mark, tag, anchor, style, YamlNode::Kind::Sequence, '[');
    }
    void OnMapStart(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value style) override {
        open(mark, tag, anchor, style, YamlNode::Kind::Mapping, '{');
    }
    void OnSequenceEnd() override { close(); }
    void OnMapEnd() override { close(); }

    // Where a line of a block mapping has no ":", if one has none.
    std::optional<std::size_t> loneKey() const { return m_loneKey; }

private:
    YamlNode &add(const YAML::Mark &mark, YAML::anchor_t anchor, YamlNode::Kind kind) {
        const YamlIndex index = m_tree.nodes.size();
        if (!m_open.empty())
            m_tree.nodes[m_open.back()].children.push_back(index);
        if (anchor != 0) {
            m_anchors.resize(std::max<std::size_t>(m_anchors.size(), anchor + 1));
            m_anchors[anchor] = index;
        }
        YamlNode &node = m_tree.nodes.emplace_back();
        node.kind = kind;
        node.anchored = anchor != 0;
        node.outer = std::min(m_base + static_cast<std::size_t>(std::max(mark.pos, 0)), m_text.size());
        node.begin = node.end = node.outer;
        return node;
    }

    void open(const YAML::Mark &mark, const std::string &tag, YAML::anchor_t anchor, YAML::EmitterStyle::value style,
              YamlNode::Kind kind, char bracket) {
        YamlNode &node = add(mark, anchor, kind);
        const bool tagged = !tag.empty() && tag != "?" && tag != "!";
        if (tagged)
            node.tag = tag;
        node.begin = skipProperties(m_text, node.outer, anchor != 0, tagged);
        node.flow = style == YAML::EmitterStyle::Flow && node.begin < m_text.size() && m_text[node.begin] == bracket;
        m_open.push_back(m_tree.nodes.size() - 1);
    }

    void close() {
        const YamlIndex index = m_open.back();
        m_open.pop_back();
        YamlNode &node = m_tree.nodes[index];
        if (node.kind == YamlNode::Kind::Mapping)
            for (std::size_t i = 0; i + 1 < node.children.size(); i += 2)
                placeNull(m_tree.nodes[node.children[i]], m_tree.nodes[node.children[i + 1]], node.flow);
        std::size_t end = node.begin;
        if (!node.children.empty())
            end = std::max(end, m_tree.nodes[node.children.back()].end);
        if (node.flow) {
            end = std::max(end, node.begin + 1);
            // What may stand between the last value and the bracket: a comma, the marks of an empty pair.
            while ((end = skipSpace(m_text, end)) < m_text.size() && (m_text[end] == ',' || m_text[end] == ':' ||
                                                                       m_text[end] == '?'))
                ++end;
            end = std::min(end + 1, m_text.size());
        }
        node.end = end;
    }

    // Where the null behind a key is written, or would be.
    void placeNull(YamlNode &key, YamlNode &value, bool flow) {
        if (key.kind == YamlNode::Kind::Null)
            key.end = key.begin + nullLength(m_text, key.begin);
        if (value.kind != YamlNode::Kind::Null)
            return;
        value.outer = value.begin = value.end = key.end;
        const std::size_t colon = skipSpace(m_text, key.end);
        if (colon >= m_text.size() || m_text[colon] != ':') {
            // yaml-cpp takes a last line without colon for a key.
            if (!flow && !m_loneKey && explicitKeyMark(m_text, key.outer) == std::string_view::npos)
                m_loneKey = key.begin;
            return;
        }
        value.outer = value.begin = value.end = colon + 1;
        const std::size_t outer = skipSpace(m_text, colon + 1);
        const std::size_t written = skipProperties(m_text, outer);
        // On another line only what is indented further belongs to the key.
        const bool sameLine = lineEnd(m_text, colon) == lineEnd(m_text, outer);
        if (!sameLine && columnOf(m_text, outer) <= columnOf(m_text, key.outer))
            return;
        const std::size_t length = nullLength(m_text, written);
        if (length == 0 && written == outer)
            return;
        value.outer = value.begin = outer;
        value.end = written + length;
        if (length > 0)
            value.begin = written;
        // An anchor without content: the anchor itself is what stands there.
        while (length == 0 && (isBlank(m_text[value.end - 1]) || isLineEnd(m_text[value.end - 1])))
            --value.end;
    }

    YamlTree &m_tree;
    std::string_view m_text;
    std::size_t m_base; // bytes before the parser's offset 0
    std::vector<YamlIndex> m_open;
    std::vector<YamlIndex> m_anchors;
    std::optional<std::size_t> m_loneKey;
};

// A view of the text as a stream, without a copy. Lone CRs are turned into LFs beforehand.
class TextBuffer : public std::streambuf {
public:
    explicit TextBuffer(std::string &text) { setg(text.data(), text.data(), text.data() + text.size()); }
};

// Same length and offsets, with the line ends that yaml-cpp knows.
std::string withKnownLineEnds(const std::string &text) {
    std::string out = text;
    for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i] == '\r' && (i + 1 == out.size() || out[i + 1] != '\n'))
            out[i] = '\n';
    return out;
}

Error syntaxError(const std::string &text, const std::string &fileName, const YAML::Exception &error,
                  std::size_t base) {
    const std::size_t at = std::min(base + static_cast<std::size_t>(std::max(error.mark.pos, 0)), text.size());
    std::string message = "not valid YAML: " + error.msg;
    const std::size_t start = at - columnOf(text, at);
    const std::size_t content = std::min(text.find_first_not_of(" \t", start), text.size());
    if (text.substr(start, content - start).find('\t') != std::string::npos)
        message += "; YAML does not allow tabs as indentation, use spaces";
    else if (dynamic_cast<const YAML::DeepRecursion *>(&error))
        message = "nested too deeply for a plan";
    return Error{ErrorCode::BadInput, message, TextPlaces(text).location(fileName, at)};
}

} // namespace

Result<YamlTree> readYaml(const std::string &text, const std::string &fileName) {
    if (const auto checked = checkText(text, fileName); !checked)
        return tl::unexpected(checked.error());
    const std::size_t base = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    YamlTree tree;
    TreeBuilder builder(tree, text, base);
    try {
        std::string copy = withKnownLineEnds(text);
        TextBuffer buffer(copy);
        std::istream in(&buffer);
        YAML::Parser parser(in);
        if (!parser.HandleNextDocument(builder) || tree.nodes.empty())
            return fail(ErrorCode::BadInput, "the file is empty; expected a mapping of module patterns to styles",
                        Location{fileName, 1, 1});
        const std::size_t first = tree.nodes.size();
        if (parser.HandleNextDocument(builder)) {
            const std::size_t at = first < tree.nodes.size() ? tree.nodes[first].outer : text.size();
            return fail(ErrorCode::BadInput, "a second YAML document begins here; a plan is one document",
                        TextPlaces(text).location(fileName, at));
        }
        if (const auto at = builder.loneKey())
            return fail(ErrorCode::BadInput, "not valid YAML: this line has no \":\" between a pattern and its style",
                        TextPlaces(text).location(fileName, *at));
    } catch (const YAML::Exception &error) {
        return tl::unexpected(syntaxError(text, fileName, error, base));
    } catch (const std::exception &error) {
        return fail(ErrorCode::BadInput, std::string("cannot be read as YAML: ") + error.what(),
                    Location{fileName, 1, 1});
    }
    TextPlaces places(text);
    for (YamlNode &node : tree.nodes)
        node.span = places.span(node.begin, node.end);
    if (const auto merged = tree.resolveMerges(fileName); !merged)
        return tl::unexpected(merged.error());
    return tree;
}

} // namespace tpscope
