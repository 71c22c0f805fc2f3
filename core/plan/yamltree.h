// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/span.h"

// A YAML document with places: what yaml-cpp's Node API drops (duplicates, ends, merge keys) is kept.
namespace tpscope {

using YamlIndex = std::size_t; // into YamlTree::nodes

struct YamlNode {
    enum class Kind { Null, Scalar, Sequence, Mapping, Alias };
    Kind kind = Kind::Null;
    std::string value;        // of a scalar
    std::string tag;          // "" none written
    bool quoted = false;      // scalar in quotes or a block scalar
    bool flow = false;        // [..] or {..}
    bool anchored = false;
    YamlIndex target = 0;     // of an alias: the anchored node, which stands before it
    std::size_t outer = 0;    // byte where anchor and tag begin; else begin
    std::size_t begin = 0;    // first byte of the content, quotes and brackets included
    std::size_t end = 0;      // one behind; begin == end: an empty value, at the place where it would stand
    SourceSpan span;          // [begin, end) with line and column
    std::vector<YamlIndex> children; // of a mapping: key, value, key, value, ...
};

// One pair of a mapping after merge keys are resolved.
struct YamlPair {
    YamlIndex key = 0;
    YamlIndex value = 0;
    bool merged = false; // came through <<
};

class YamlTree {
public:
    std::vector<YamlNode> nodes; // in document order; a parent stands before its children
    YamlIndex root = 0;

    // The node an alias stands for; else the node itself.
    const YamlNode &resolved(YamlIndex index) const;
    YamlIndex resolvedIndex(YamlIndex index) const;
    bool isText(YamlIndex index) const; // a scalar that PyYAML and JSON would read as a string
    // A short form of any value for messages: "3", "null", "[a, b]".
    std::string printable(YamlIndex index) const;
    // The pairs of a mapping (not an alias), in order, duplicates included; merged ones first, each key of theirs once
    // and none that the mapping names itself.
    std::vector<YamlPair> pairs(YamlIndex mapping) const;

private:
    friend Result<YamlTree> readYaml(const std::string &text, const std::string &fileName);
    Result<void> resolveMerges(const std::string &fileName);
    Result<std::vector<YamlPair>> merge(YamlIndex mapping, const std::string &fileName) const;
    std::vector<YamlIndex> mergeSources(YamlIndex mapping) const; // the strongest first
    std::unordered_map<YamlIndex, std::vector<YamlPair>> m_merged; // of mappings with <<, by index
};

// Reads the one document of a text. Offsets are bytes of `text`, a byte-order mark included. Errors: BadInput with line
// and column: no YAML, no UTF-8, no document, more than one, merge keys without a mapping or without end.
Result<YamlTree> readYaml(const std::string &text, const std::string &fileName);

} // namespace tpscope
