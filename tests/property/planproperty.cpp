// SPDX-License-Identifier: GPL-3.0-or-later
#include <QtTest>
#include <algorithm>
#include <rapidcheck.h>

#include "plan/planwriter.h"

using namespace tpscope;

// Edits of generated plan files touch what they are asked to and nothing else; written plans read back the same.
class PlanProperty : public QObject {
    Q_OBJECT

private slots:
    void editsKeepEverythingElse();
    void addedRuleIsTheLast();
    void writtenPlansReadBack();
    void anyBytesAreReadOrRefused();
};

namespace {

// A key or style as people write them, and as they should not.
rc::Gen<std::string> word() {
    return rc::gen::oneOf(
        rc::gen::element<std::string>("model.layers.*.mlp.up_proj", "lm_head", "colwise", "model.norm", "*.a", "", "null",
                                      "3", "yes", "it's", "say \"x\"", "a: b", "a #b", " x ", "{a}", "[", "<<", "&a",
                                      "*a", "!t", "- a", "? a", "1e3", "\xC3\xA9\xF0\x9F\x98\x80", "back\\slash", "%a",
                                      "@a", "`a", "|", ">", "x-y", "~", "=", "a\tb", "tp_plan.x"),
        rc::gen::map(rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab.*_ -:#'\"{}[],&!|>%@`\\"))),
                     [](std::string text) { return text; }));
}

std::string quotedSingle(const std::string &text) {
    std::string out = "'";
    for (const char c : text)
        out.append(c == '\'' ? 2 : 1, c);
    return out + "'";
}

std::string quotedDouble(const std::string &text) {
    std::string out = "\"";
    for (const char c : text)
        out += c == '"' || c == '\\' ? std::string("\\") + c : c == '\t' ? std::string("\\t") : std::string(1, c);
    return out + "\"";
}

bool plainSafe(const std::string &text) {
    static const std::string safe = "abcdefghijklmnopqrstuvwxyz._*-";
    return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) && text != "null" && text != "yes" &&
           text.find_first_not_of(safe) == std::string::npos;
}

std::string scalar(const std::string &text) {
    switch (*rc::gen::inRange(0, 3)) {
    case 0: return plainSafe(text) ? text : quotedSingle(text);
    case 1: return quotedSingle(text);
    default: return quotedDouble(text);
    }
}

struct Line {
    std::string key;
    std::string style; // "" with styleIsText false: a value that is none
    bool styleIsText = true;
    std::string written;
};

// A plan file with its rules in one of the forms people use, comments and odd spacing included.
struct GeneratedPlan {
    std::string text;
    std::vector<Line> lines;
};

GeneratedPlan generate() {
    GeneratedPlan plan;
    const bool flow = *rc::gen::arbitrary<bool>();
    const bool bare = *rc::gen::arbitrary<bool>();
    const std::string end = *rc::gen::element<std::string>("\n", "\r\n");
    const std::string indent = bare ? "" : *rc::gen::element<std::string>(" ", "  ", "      ");
    const auto keys = *rc::gen::unique<std::vector<std::string>>(word());
    for (const std::string &key : keys) {
        if (bare && (key == "x-y" || key.starts_with("tp_plan")))
            continue; // a bare mapping would be read differently
        Line line{key, *word(), true, {}};
        line.written = scalar(line.style);
        if (*rc::gen::inRange(0, 6) == 0) {
            line.styleIsText = false;
            line.written = *rc::gen::element<std::string>("3", "null", "~", "[a, b]", "{c: d}", "true", "[]");
        }
        plan.lines.push_back(line);
    }
    std::string &out = plan.text;
    if (*rc::gen::inRange(0, 4) == 0)
        out += "\xEF\xBB\xBF";
    if (*rc::gen::arbitrary<bool>())
        out += "# a plan" + end + end;
    if (!bare)
        out += "model_type: llama # of" + end + "tp_plan:";
    if (flow) {
        out += bare ? "{" : " {";
        const bool lines = *rc::gen::arbitrary<bool>();
        for (std::size_t i = 0; i < plan.lines.size(); ++i)
            out += std::string(i == 0 ? "" : ",") + (lines ? end + "    " : " ") + scalar(plan.lines[i].key) + " : " +
                   plan.lines[i].written;
        out += *rc::gen::arbitrary<bool>() && !plan.lines.empty() ? " , }" : "}";
        out += end;
    } else {
        RC_PRE(!plan.lines.empty());
        if (!bare)
            out += " # rules" + end;
        for (const Line &line : plan.lines) {
            if (*rc::gen::inRange(0, 5) == 0)
                out += indent + "# note: a comment" + end;
            out += indent + scalar(line.key) + ": " + line.written;
            out += *rc::gen::element<std::string>("", "  # why", " ") + end;
        }
    }
    if (!bare && *rc::gen::arbitrary<bool>())
        out += "tp_size: 2 # two" + end;
    return plan;
}

PlanDocument parsed(const std::string &text) {
    const auto document = parsePlan(text, "plan.yaml");
    if (!document)
        RC_FAIL(document.error().text() + " in: " + text);
    return *document;
}

bool sameRule(const PlanRule &a, const PlanRule &b) {
    return a.key == b.key && a.style == b.style && a.keyIsText == b.keyIsText && a.styleIsText == b.styleIsText;
}

// What an edit left alone is byte for byte what it was.
void checkOutside(const std::string &before, const std::string &after, const TextEdit &edit) {
    RC_ASSERT(after.substr(0, edit.offset) == before.substr(0, edit.offset));
    RC_ASSERT(after.substr(edit.offset + edit.text.size()) == before.substr(edit.offset + edit.length));
}

} // namespace

void PlanProperty::editsKeepEverythingElse() {
    QVERIFY(rc::check("set style and rename", [] {
        const GeneratedPlan plan = generate();
        const PlanDocument document = parsed(plan.text);
        RC_ASSERT(document.rules.size() == plan.lines.size());
        for (std::size_t i = 0; i < plan.lines.size(); ++i) {
            RC_ASSERT(document.rules[i].key == plan.lines[i].key);
            RC_ASSERT(document.rules[i].styleIsText == plan.lines[i].styleIsText);
            if (plan.lines[i].styleIsText)
                RC_ASSERT(document.rules[i].style == plan.lines[i].style);
        }
        RC_PRE(!document.rules.empty());
        const auto index = *rc::gen::inRange<std::size_t>(0, document.rules.size());
        const bool rename = *rc::gen::arbitrary<bool>();
        const std::string value = *word();
        RC_PRE(!rename || std::ranges::none_of(plan.lines, [&](const Line &l) { return l.key == value; }));
        RC_PRE(!rename || !document.bareMapping || (value != "x-y" && !value.starts_with("tp_plan")));
        const TextEdit edit =
            rename ? renameKeyEdit(document, index, value) : setStyleEdit(document, index, value);
        const std::string after = applyEdit(plan.text, edit);
        checkOutside(plan.text, after, edit);
        const PlanDocument again = parsed(after);
        RC_ASSERT(again.rules.size() == document.rules.size());
        for (std::size_t i = 0; i < again.rules.size(); ++i) {
            PlanRule expected = document.rules[i];
            if (i == index) {
                (rename ? expected.key : expected.style) = value;
                (rename ? expected.keyIsText : expected.styleIsText) = true;
            }
            RC_ASSERT(sameRule(again.rules[i], expected));
        }
        RC_ASSERT(std::ranges::count(after, '#') - std::ranges::count(edit.text, '#') >=
                  std::ranges::count(plan.text, '#') -
                      std::ranges::count(plan.text.substr(edit.offset, edit.length), '#'));
    }));
}

void PlanProperty::addedRuleIsTheLast() {
    QVERIFY(rc::check("add a rule", [] {
        const GeneratedPlan plan = generate();
        const PlanDocument document = parsed(plan.text);
        const std::string key = *word();
        const std::string style = *word();
        RC_PRE(std::ranges::none_of(plan.lines, [&](const Line &line) { return line.key == key; }));
        RC_PRE(!document.bareMapping || (key != "x-y" && !key.starts_with("tp_plan")));
        const TextEdit edit = addRuleEdit(document, key, style);
        RC_ASSERT(edit.length == std::size_t(0));
        const PlanDocument again = parsed(applyEdit(plan.text, edit));
        RC_ASSERT(again.rules.size() == document.rules.size() + 1);
        for (std::size_t i = 0; i < document.rules.size(); ++i)
            RC_ASSERT(sameRule(again.rules[i], document.rules[i]));
        RC_ASSERT(again.rules.back().key == key);
        RC_ASSERT(again.rules.back().style == style);
        RC_ASSERT(again.rules.back().keyIsText && again.rules.back().styleIsText);
    }));
}

void PlanProperty::writtenPlansReadBack() {
    QVERIFY(rc::check("yaml and json", [] {
        PlanToWrite plan;
        plan.modelType = *word();
        plan.tpSize = *rc::gen::inRange(1, 65);
        plan.baseBuiltin = *rc::gen::arbitrary<bool>();
        for (const std::string &key : *rc::gen::unique<std::vector<std::string>>(word())) {
            PlanRule rule;
            rule.key = key;
            rule.style = *word();
            if (*rc::gen::inRange(0, 6) == 0) {
                rule.styleIsText = false;
                rule.style = *rc::gen::element<std::string>("3", "null", "true", "1.5");
            }
            plan.rules.push_back(rule);
        }
        const PlanDocument yaml = parsed(toYaml(plan));
        const PlanDocument json = parsed(toJson(plan));
        RC_ASSERT(yaml.modelType.value_or("") == plan.modelType);
        RC_ASSERT(yaml.baseBuiltin == plan.baseBuiltin);
        for (const PlanDocument *document : {&yaml, &json}) {
            RC_ASSERT(document->tpSize == plan.tpSize);
            RC_ASSERT(document->rules.size() == plan.rules.size());
            for (std::size_t i = 0; i < plan.rules.size(); ++i)
                RC_ASSERT(sameRule(document->rules[i], plan.rules[i]));
        }
    }));
}

// Whatever stands in a file: a document whose spans lie in the text, or one error with its place.
void PlanProperty::anyBytesAreReadOrRefused() {
    QVERIFY(rc::check("any bytes", [] {
        static const std::string alphabet = "ab:?-{}[],#&*!|>'\"%@`~<\t\r\n \\\xC3\xA9\x01";
        std::string text = *rc::gen::container<std::string>(
            rc::gen::oneOf(rc::gen::elementOf(alphabet), rc::gen::element(' ', ':', '\n', 'a', ',', '{', '}')));
        if (*rc::gen::arbitrary<bool>())
            text = "tp_plan:\n  a: b\n  " + text;
        const auto document = parsePlan(text, "plan.yaml");
        if (!document) {
            RC_ASSERT(document.error().location.has_value());
            RC_ASSERT(document.error().location->line > 0);
            RC_ASSERT(!document.error().message.empty());
            return;
        }
        for (const PlanRule &rule : document->rules)
            for (const SourceSpan &span : {rule.keySpan, rule.styleSpan}) {
                RC_ASSERT(span.valid());
                RC_ASSERT(span.offset + span.length <= text.size());
            }
        RC_PRE(!document->rules.empty());
        const auto index = *rc::gen::inRange<std::size_t>(0, document->rules.size());
        const PlanDocument edited = parsed(applyEdit(text, setStyleEdit(*document, index, "rowwise")));
        RC_ASSERT(edited.rules.size() >= document->rules.size());
        bool set = false;
        for (const PlanRule &rule : edited.rules)
            set = set || (rule.key == document->rules[index].key && rule.styleIsText && rule.style == "rowwise");
        RC_ASSERT(set);
        const PlanDocument added = parsed(applyEdit(text, addRuleEdit(*document, "model.norm", "replicate")));
        RC_ASSERT(std::ranges::any_of(added.rules, [](const PlanRule &rule) {
            return rule.key == "model.norm" && rule.style == "replicate";
        }));
    }));
}

QTEST_APPLESS_MAIN(PlanProperty)
#include "planproperty.moc"
