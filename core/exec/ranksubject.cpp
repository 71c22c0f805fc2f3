// SPDX-License-Identifier: GPL-3.0-or-later
#include "exec/ranksubject.h"

namespace tpscope {

RankSubject RankSubject::open(const RunConfig &config) {
    RankSubject subject;
    subject.source = valueOf(findModel(config.modelArgument));
    subject.model = valueOf(describe(valueOf(ModelConfig::load(subject.source.configPath.string())), config.upstream));
    PlanChoice choice;
    if (!config.planText.empty()) {
        choice.kind = PlanChoice::Kind::Document;
        choice.document = valueOf(parsePlan(config.planText, config.planArgument));
    } else {
        choice = valueOf(PlanChoice::parse(config.planArgument));
    }
    choice.ep = config.ep;
    auto builtin = loadBuiltinPlan(subject.model.modelType);
    if (!builtin && builtin.error().code != ErrorCode::NotFound)
        throw Stopped{builtin.error()};
    if (builtin)
        subject.builtin = std::move(*builtin);
    subject.plan = resolvePlan(subject.model, choice, subject.builtin ? &*subject.builtin : nullptr, config.tp);
    return subject;
}

ResolvedPlan RankSubject::planOfOneRank() const {
    PlanChoice none;
    none.kind = PlanChoice::Kind::None;
    return resolvePlan(model, none, builtin ? &*builtin : nullptr, 1);
}

} // namespace tpscope
