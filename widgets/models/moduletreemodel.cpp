// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/moduletreemodel.h"

#include <QSet>

#include <algorithm>

#include "base/text.h"
#include "models/planinsight.h"

namespace tpscope {

struct ModuleTreeModel::Node {
    QString label;
    QString name;              // full, folded numbers as "*"
    ModuleIndex module;        // the first of a fold; owner of a parameter row
    int fold = 1;
    const ParameterShard *shard = nullptr; // a parameter row
    QString style;
    QString ruleKey;
    bool inherited = false;
    bool hooked = false;
    int severity = 0;
    QStringList findings;
    Node *parent = nullptr;
    int row = 0;
    std::vector<std::unique_ptr<Node>> children;
};

namespace {

int rankOf(Severity severity) {
    return severity == Severity::Error ? 3 : severity == Severity::Warning ? 2 : 1;
}

bool isNumber(const std::string &text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// What must agree for two layers to be shown as one row.
std::string signature(const PlanAnalysis &analysis, ModuleIndex index) {
    const Module &module = analysis.workspace->model.tree.at(index);
    std::string out = module.className;
    if (const ParallelStyle *style = analysis.plan.styleOfModule(index))
        out += "|" + std::string(style->name);
    for (const Parameter &parameter : module.parameters) {
        out += "|" + parameter.name + toText(parameter.shape);
        if (const ParameterShard *shard = analysis.shards.find(module.name + "." + parameter.name))
            out += shard->style;
    }
    for (const ModuleIndex child : module.children)
        out += "(" + analysis.workspace->model.tree.at(child).localName + signature(analysis, child) + ")";
    return out;
}

} // namespace

ModuleTreeModel::ModuleTreeModel(QObject *parent) : QAbstractItemModel(parent), m_root(std::make_unique<Node>()) {}

ModuleTreeModel::~ModuleTreeModel() = default;

namespace {

// Builds the rows of one analysis.
template <typename NodeType> class Builder {
public:
    explicit Builder(const PlanAnalysis &analysis) : m_analysis(analysis) {
        for (const HookSite &site : analysis.withModuleBackward ? analysis.withModuleBackward->sites
                                                                : std::vector<HookSite>{})
            m_hooked.insert(QString::fromStdString(site.name));
    }

    std::unique_ptr<NodeType> build() {
        auto root = std::make_unique<NodeType>();
        if (!tree().modules.empty())
            addChildren(*root, ModuleIndex(0), QString());
        return root;
    }

private:
    const ModuleTree &tree() const { return m_analysis.workspace->model.tree; }

    void addChildren(NodeType &parent, ModuleIndex index, const QString &parentName) {
        const Module &module = tree().at(index);
        addParameters(parent, index, parentName);
        for (std::size_t i = 0; i < module.children.size();) {
            std::size_t end = i + 1;
            if (isNumber(tree().at(module.children[i]).localName)) {
                const std::string first = signature(m_analysis, module.children[i]);
                while (end < module.children.size() && signature(m_analysis, module.children[end]) == first)
                    ++end;
            }
            addModule(parent, module.children, i, end, parentName);
            i = end;
        }
    }

    void addModule(NodeType &parent, const std::vector<ModuleIndex> &siblings, std::size_t begin, std::size_t end,
                   const QString &parentName) {
        const Module &module = tree().at(siblings[begin]);
        const int fold = static_cast<int>(end - begin);
        const QString local = QString::fromStdString(module.localName);
        auto node = std::make_unique<NodeType>();
        node->module = siblings[begin];
        node->fold = fold;
        node->label = fold == 1 ? local
                                : QStringLiteral("%1\u2013%2, \u00D7%3")
                                      .arg(local, QString::fromStdString(tree().at(siblings[end - 1]).localName))
                                      .arg(fold);
        const QString segment = fold == 1 ? local : QStringLiteral("*");
        node->name = parentName.isEmpty() ? segment : parentName + QLatin1Char('.') + segment;
        node->ruleKey = QString::fromStdString(genericName(module.name));
        node->hooked = m_hooked.contains(QString::fromStdString(module.name));
        if (const EffectiveRule *rule = m_analysis.plan.ruleOfModule(node->module)) {
            node->style = QString::fromStdString(rule->rule.style);
            node->inherited = rule->rule.origin != RuleOrigin::File;
        }
        attachFindings(*node, node->ruleKey);
        addChildren(*node, siblings[begin], node->name);
        adopt(parent, std::move(node));
    }

    void addParameters(NodeType &parent, ModuleIndex index, const QString &parentName) {
        const Module &module = tree().at(index);
        // A module with one parameter and no children shows it in its own row.
        const bool inOwnRow = module.children.empty() && module.parameters.size() == 1;
        for (const Parameter &parameter : module.parameters) {
            const std::string full = module.name.empty() ? parameter.name : module.name + "." + parameter.name;
            const ParameterShard *shard = m_analysis.shards.find(full);
            if (inOwnRow) {
                parent.shard = shard;
                continue;
            }
            auto node = std::make_unique<NodeType>();
            node->module = index;
            node->label = QString::fromStdString(parameter.name);
            node->name = parentName + QLatin1Char('.') + node->label;
            node->ruleKey = QString::fromStdString(genericName(full));
            node->shard = shard;
            if (const EffectiveRule *rule = m_analysis.plan.ruleOfParameter(full)) {
                node->style = QString::fromStdString(rule->rule.style);
                node->inherited = rule->rule.origin != RuleOrigin::File;
            }
            attachFindings(*node, node->ruleKey);
            adopt(parent, std::move(node));
        }
    }

    void attachFindings(NodeType &node, const QString &key) {
        for (const Diagnostic &diagnostic : m_analysis.lint.diagnostics) {
            const bool names = std::ranges::any_of(diagnostic.modules, [&](const std::string &module) {
                return QString::fromStdString(genericName(module)) == key || QString::fromStdString(module) == key;
            });
            if (!names && QString::fromStdString(diagnostic.rule) != key)
                continue;
            node.severity = std::max(node.severity, rankOf(diagnostic.severity));
            node.findings << QString::fromStdString(diagnostic.code + ": " + diagnostic.message);
        }
    }

    static void adopt(NodeType &parent, std::unique_ptr<NodeType> child) {
        child->parent = &parent;
        child->row = static_cast<int>(parent.children.size());
        parent.severity = std::max(parent.severity, child->severity);
        parent.children.push_back(std::move(child));
    }

    const PlanAnalysis &m_analysis;
    QSet<QString> m_hooked;
};

} // namespace

namespace {

template <typename NodeType> bool sameRows(const NodeType &a, const NodeType &b) {
    return a.name == b.name && a.fold == b.fold && a.children.size() == b.children.size() &&
           std::ranges::equal(a.children, b.children,
                              [](const auto &x, const auto &y) { return sameRows(*x, *y); });
}

// Everything but the place in the tree.
template <typename NodeType> void takeContent(NodeType &to, NodeType &from) {
    to.module = from.module;
    to.shard = from.shard;
    to.label = std::move(from.label);
    to.ruleKey = std::move(from.ruleKey);
    to.style = std::move(from.style);
    to.inherited = from.inherited;
    to.hooked = from.hooked;
    to.severity = from.severity;
    to.findings = std::move(from.findings);
    for (std::size_t i = 0; i < to.children.size(); ++i)
        takeContent(*to.children[i], *from.children[i]);
}

} // namespace

// Same rows with other content are told as changed data, so that a view keeps what is open, selected and scrolled to.
void ModuleTreeModel::setAnalysis(std::shared_ptr<const PlanAnalysis> analysis) {
    auto root = analysis && analysis->workspace ? Builder<Node>(*analysis).build() : std::make_unique<Node>();
    if (!m_root->children.empty() && sameRows(*m_root, *root)) {
        takeContent(*m_root, *root);
        m_analysis = std::move(analysis);
        announceChange({});
        return;
    }
    beginResetModel();
    m_analysis = std::move(analysis);
    m_root = std::move(root);
    endResetModel();
}

void ModuleTreeModel::announceChange(const QModelIndex &parent) {
    const int rows = rowCount(parent);
    if (rows == 0)
        return;
    emit dataChanged(index(0, 0, parent), index(rows - 1, ColumnCount - 1, parent));
    for (int row = 0; row < rows; ++row)
        announceChange(index(row, 0, parent));
}

void ModuleTreeModel::setRank(int rank) {
    if (rank == m_rank)
        return;
    m_rank = rank;
    emit headerDataChanged(Qt::Horizontal, ShapeColumn, BytesColumn);
    announceChange({});
}

const ModuleTreeModel::Node *ModuleTreeModel::nodeOf(const QModelIndex &index) const {
    return index.isValid() ? static_cast<const Node *>(index.internalPointer()) : m_root.get();
}

QModelIndex ModuleTreeModel::index(int row, int column, const QModelIndex &parent) const {
    if (!hasIndex(row, column, parent))
        return {};
    return createIndex(row, column, nodeOf(parent)->children[static_cast<std::size_t>(row)].get());
}

QModelIndex ModuleTreeModel::parent(const QModelIndex &child) const {
    if (!child.isValid())
        return {};
    const Node *parent = nodeOf(child)->parent;
    return !parent || parent == m_root.get() ? QModelIndex() : createIndex(parent->row, 0, parent);
}

int ModuleTreeModel::rowCount(const QModelIndex &parent) const {
    return parent.column() > 0 ? 0 : static_cast<int>(nodeOf(parent)->children.size());
}

int ModuleTreeModel::columnCount(const QModelIndex &) const { return ColumnCount; }

QVariant ModuleTreeModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal || role != Qt::DisplayRole)
        return {};
    switch (section) {
    case NameColumn: return tr("Module");
    case StyleColumn: return tr("Style");
    case PlacementColumn: return tr("Placement");
    case ShapeColumn: return tr("Shape on rank %1").arg(m_rank);
    case BytesColumn: return tr("Bytes on rank %1").arg(m_rank);
    case HookColumn: return tr("Hook");
    case FindingsColumn: return tr("Findings");
    default: return {};
    }
}

namespace {

// A fold stands for `fold` equal layers; rows below it show one of them.
template <typename NodeType> std::int64_t bytesOf(const NodeType &node, std::size_t rank) {
    std::int64_t bytes = node.shard && rank < node.shard->bytes.size() ? node.shard->bytes[rank] : 0;
    for (const auto &child : node.children)
        bytes += bytesOf(*child, rank);
    return bytes * node.fold;
}

} // namespace

namespace {

QString styleTip(const QString &style, bool inherited) {
    const QString choose = ModuleTreeModel::tr("Double-click or F2 to choose a style: the plan's text is edited.");
    if (style.isEmpty())
        return choose;
    return (inherited ? ModuleTreeModel::tr("%1 \u2013 inherited from the built-in plan").arg(style) : style) +
           QLatin1Char('\n') + choose;
}

} // namespace

QVariant ModuleTreeModel::data(const QModelIndex &index, int role) const {
    if (!index.isValid())
        return {};
    const Node &node = *nodeOf(index);
    const auto rank = static_cast<std::size_t>(m_rank);
    switch (role) {
    case ModuleNameRole: return node.name;
    case RuleKeyRole: return node.ruleKey;
    case SeverityRole: return node.severity;
    case FoldCountRole: return node.fold;
    case MeaningRole: return node.shard ? static_cast<int>(node.shard->placement.kind) : -1;
    case ShardDimRole: return node.shard ? node.shard->dim : -1;
    case InheritedRole: return node.inherited;
    case OwnFindingsRole: return static_cast<int>(node.findings.size());
    case Qt::TextAlignmentRole:
        return int((index.column() == BytesColumn || index.column() == ShapeColumn ? Qt::AlignRight : Qt::AlignLeft) |
                   Qt::AlignVCenter);
    case Qt::ToolTipRole:
        if (index.column() == FindingsColumn && !node.findings.isEmpty())
            return node.findings.join(QStringLiteral("\n\n"));
        if (index.column() == StyleColumn && !node.ruleKey.isEmpty())
            return styleTip(node.style, node.inherited);
        return node.name;
    default: break;
    }
    if (role != Qt::DisplayRole && role != Qt::EditRole && role != SortRole)
        return {};
    switch (index.column()) {
    case NameColumn: return node.label;
    case StyleColumn: return node.style;
    case PlacementColumn: return node.shard ? placementText(*node.shard) : QString();
    case ShapeColumn:
        return node.shard && rank < node.shard->localShapes.size() ? shapeText(node.shard->localShapes[rank])
                                                                   : QString();
    case BytesColumn: {
        const std::int64_t bytes = bytesOf(node, rank);
        if (role == SortRole)
            return static_cast<qint64>(bytes);
        return bytes ? QString::fromStdString(formatBytes(static_cast<std::uint64_t>(bytes))) : QString();
    }
    case HookColumn: return node.hooked ? tr("gradient sync") : QString();
    case FindingsColumn: return node.findings.isEmpty() ? QString() : QString::number(node.findings.size());
    default: return {};
    }
}

Qt::ItemFlags ModuleTreeModel::flags(const QModelIndex &index) const {
    Qt::ItemFlags flags = QAbstractItemModel::flags(index);
    if (index.column() == StyleColumn && index.isValid() && !nodeOf(index)->ruleKey.isEmpty())
        flags |= Qt::ItemIsEditable;
    return flags;
}

bool ModuleTreeModel::setData(const QModelIndex &index, const QVariant &value, int role) {
    if (role != Qt::EditRole || index.column() != StyleColumn || !index.isValid())
        return false;
    const Node &node = *nodeOf(index);
    const QString style = value.toString();
    if (style.isEmpty() || style == node.style)
        return false;
    emit styleChosen(node.ruleKey, style);
    return true;
}

QModelIndex ModuleTreeModel::indexOfModule(const QString &name) const {
    const QStringList wanted = name.split(QLatin1Char('.'), Qt::SkipEmptyParts);
    const Node *node = m_root.get();
    for (const QString &segment : wanted) {
        const Node *next = nullptr;
        for (const auto &child : node->children) {
            const QString last = child->name.section(QLatin1Char('.'), -1);
            const bool folded = last == QLatin1String("*");
            bool number = false;
            const int layer = segment.toInt(&number);
            const int first = folded && m_analysis
                                  ? std::stoi(m_analysis->workspace->model.tree.at(child->module).localName)
                                  : 0;
            if (last == segment || (folded && (segment == QLatin1String("*") ||
                                               (number && layer >= first && layer < first + child->fold)))) {
                next = child.get();
                break;
            }
        }
        if (!next)
            return {};
        node = next;
    }
    return node == m_root.get() ? QModelIndex() : createIndex(node->row, 0, node);
}

} // namespace tpscope
