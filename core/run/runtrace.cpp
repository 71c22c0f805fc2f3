// SPDX-License-Identifier: GPL-3.0-or-later
#include "run/runtrace.h"

namespace tpscope {

std::string_view name(EventKind kind) {
    switch (kind) {
    case EventKind::Compute: return "compute";
    case EventKind::Collective: return "collective";
    case EventKind::HookRegistration: return "hook";
    case EventKind::Launch: return "launch";
    case EventKind::Token: return "token";
    case EventKind::Phase: return "phase";
    }
    return "?";
}

void describeRun(RunTrace &trace, const RunConfig &config) {
    trace.tp = config.tp;
    trace.hooks = config.hooks;
    trace.model = config.modelArgument;
    trace.plan = config.planArgument;
    trace.planText = config.planText;
}

} // namespace tpscope
