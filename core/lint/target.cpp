// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/target.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/resources.h"
#include "base/text.h"
#include "plan/planrules.h"

namespace tpscope {
namespace {

namespace fs = std::filesystem;

fs::path folder() { return resourceDir() / "targets"; }

// Numbers of a version in order: "0.5.16" after "0.5.9".
std::vector<int> numbersOf(std::string_view version) {
    std::vector<int> numbers;
    const char *at = version.data();
    const char *const end = at + version.size();
    while (at < end) {
        int number = 0;
        const auto [next, error] = std::from_chars(at, end, number);
        if (error != std::errc())
            return {};
        numbers.push_back(number);
        if (next < end && *next != '.')
            break; // "0.24.0rc1"
        at = next + 1;
    }
    return numbers;
}

class Reader {
public:
    Reader(const YamlTree &tree, std::string fileName) : m_tree(tree), m_fileName(std::move(fileName)) {}

    Result<DeploymentTarget> read() {
        DeploymentTarget target;
        for (const YamlPair &pair : pairs(m_tree.root)) {
            const std::string key = m_tree.printable(pair.key);
            if (key == "name")
                target.name = text(pair.value);
            else if (key == "title")
                target.title = text(pair.value);
            else if (key == "versions")
                for (const YamlIndex child : m_tree.resolved(pair.value).children)
                    target.versions.push_back(version(child));
            else
                reject(pair.key, "unknown key " + inQuotes(key));
        }
        if (target.versions.empty())
            reject(m_tree.root, "no version");
        else
            target.newest = target.versions.front().version;
        if (m_error)
            return tl::unexpected(*m_error);
        return target;
    }

private:
    std::vector<YamlPair> pairs(YamlIndex index) {
        if (m_tree.resolved(index).kind == YamlNode::Kind::Mapping)
            return m_tree.pairs(m_tree.resolvedIndex(index));
        reject(index, "expected a mapping, found " + describeKind(m_tree, index));
        return {};
    }

    std::string text(YamlIndex index) {
        const YamlNode &node = m_tree.resolved(index);
        if (node.kind != YamlNode::Kind::Scalar || node.value.empty())
            reject(index, "expected a text, found " + describeKind(m_tree, index));
        return node.value;
    }

    TargetVersion version(YamlIndex index) {
        TargetVersion out;
        for (const YamlPair &pair : pairs(index)) {
            const std::string key = m_tree.printable(pair.key);
            if (key == "styles") {
                for (const YamlPair &style : pairs(pair.value))
                    out.styles.emplace_back(text(style.key), text(style.value));
            } else if (key == "version") {
                out.version = text(pair.value);
            } else if (key == "source") {
                out.source = text(pair.value);
            } else if (key == "unknown_style") {
                out.unknownStyle = text(pair.value);
            } else if (key == "even_features") {
                out.evenFeatures = text(pair.value) == "true";
            } else if (key == "vocabulary_padding") {
                const std::vector<int> number = numbersOf(text(pair.value));
                if (number.size() != 1 || number.front() < 1)
                    reject(pair.value, "expected a number from 1");
                else
                    out.vocabularyPadding = number.front();
            } else {
                reject(pair.key, "unknown key " + inQuotes(key));
            }
        }
        if (numbersOf(out.version).empty() || out.styles.empty() || out.unknownStyle.empty())
            reject(index, "a version needs version, styles and unknown_style");
        return out;
    }

    void reject(YamlIndex index, std::string message) {
        const SourceSpan &span = m_tree.nodes[index].span;
        if (!m_error)
            m_error = Error{ErrorCode::BadInput, std::move(message), Location{m_fileName, span.line, span.column}};
    }

    const YamlTree &m_tree;
    std::string m_fileName;
    std::optional<Error> m_error;
};

std::string joined(const std::vector<std::string> &names) {
    std::string out;
    for (const std::string &name : names)
        out += (out.empty() ? "" : ", ") + name;
    return out;
}

} // namespace

const std::string *TargetVersion::knows(const std::string &style) const {
    const auto found = std::ranges::find(styles, style, &std::pair<std::string, std::string>::first);
    return found == styles.end() ? nullptr : &found->second;
}

std::vector<std::string> targetNames() {
    std::vector<std::string> names;
    std::error_code ec;
    for (fs::directory_iterator it(folder(), ec), end; !ec && it != end; it.increment(ec))
        if (it->is_regular_file() && it->path().extension() == ".yaml")
            names.push_back(it->path().stem().string());
    std::ranges::sort(names);
    return names;
}

Result<DeploymentTarget> loadTarget(const std::string &argument) {
    const std::size_t at = argument.find('@');
    const std::string name = argument.substr(0, at);
    const std::vector<std::string> names = targetNames();
    if (std::ranges::find(names, name) == names.end())
        return fail(ErrorCode::NotFound,
                    "no such target: " + inQuotes(name) + "; there are: " + joined(names) +
                        ", or one of them as NAME@VERSION");
    const std::string path = (folder() / (name + ".yaml")).string();
    const auto text = readFile(path);
    if (!text)
        return tl::unexpected(text.error());
    const auto tree = readYaml(*text, path);
    if (!tree)
        return tl::unexpected(tree.error());
    auto target = Reader(*tree, path).read();
    if (!target || at == std::string::npos)
        return target;
    const std::vector<int> wanted = numbersOf(std::string_view(argument).substr(at + 1));
    if (wanted.empty())
        return fail(ErrorCode::Usage, "--target " + inQuotes(argument) + ": expected a version such as " + name + "@" +
                                          target->versions.front().version);
    for (const TargetVersion &version : target->versions) {
        if (numbersOf(version.version) > wanted)
            continue;
        target->versions = {version};
        return target;
    }
    return fail(ErrorCode::NotFound, "--target " + inQuotes(argument) + ": nothing is known of versions before " +
                                         target->versions.back().version);
}

} // namespace tpscope
