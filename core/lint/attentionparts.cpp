// SPDX-License-Identifier: GPL-3.0-or-later
#include "lint/attentionparts.h"

#include <map>

namespace tpscope {
namespace {

// Follows the variables of one program: which module made them, and whether they are heads.
class Reader {
public:
    Reader(const FlowIndex &index, ModuleIndex self, AttentionParts &parts)
        : m_index(index), m_self(self), m_parts(parts) {}

    void read(int program) {
        for (const FlowStep &step : m_index.program(program).body) {
            if (step.kind == FlowStep::Kind::Function)
                Reader(m_index, m_self, m_parts).read(step.program);
            else if (step.kind == FlowStep::Kind::Module)
                readCall(step);
            else if (step.kind == FlowStep::Kind::Operation)
                readOperation(step);
        }
    }

private:
    enum class Is { Projected, Heads, Merged };
    struct Known {
        Is is = Is::Projected;
        ModuleIndex maker;
    };

    void readCall(const FlowStep &step) {
        const auto child = m_index.child(m_self, step.path);
        if (!child || step.in.empty() || step.out.empty())
            return;
        const auto input = m_variables.find(step.in.front());
        if (input == m_variables.end()) {
            m_variables[step.out.front()] = {Is::Projected, *child};
        } else if (input->second.is == Is::Heads) {
            m_parts.norms.push_back(*child);
            m_variables[step.out.front()] = input->second;
        } else if (input->second.is == Is::Merged) {
            m_parts.outputs.push_back(*child);
        } else {
            m_variables[step.out.front()] = {Is::Projected, input->second.maker};
        }
    }

    void readOperation(const FlowStep &step) {
        const OpKind kind = step.operation->kind;
        for (std::size_t i = 0; i < step.out.size(); ++i) {
            const auto input = i < step.in.size() ? m_variables.find(step.in[i]) : m_variables.end();
            const bool attends = kind == OpKind::Attend || kind == OpKind::CappedAttend;
            if (kind == OpKind::MergeHeads || attends) {
                m_variables[step.out[i]] = {attends ? Is::Heads : Is::Merged, m_self};
            } else if (input != m_variables.end()) {
                if (kind == OpKind::ViewHeads) {
                    m_parts.projections.push_back(input->second.maker);
                    m_variables[step.out[i]] = {Is::Heads, input->second.maker};
                } else {
                    m_variables[step.out[i]] = input->second;
                }
            }
        }
    }

    const FlowIndex &m_index;
    ModuleIndex m_self;
    AttentionParts &m_parts;
    std::map<int, Known> m_variables;
};

} // namespace

AttentionParts attentionParts(const FlowIndex &index, ModuleIndex attention) {
    AttentionParts parts;
    std::optional<ModuleIndex> at = attention;
    while (at && !parts.found()) {
        parts = {};
        if (const int program = index.forwardProgram(*at); program >= 0)
            Reader(index, *at, parts).read(program);
        at = index.module(*at).parent;
    }
    return parts.found() ? parts : AttentionParts{};
}

} // namespace tpscope
