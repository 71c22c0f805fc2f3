// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/planinsight.h"
#include "models/planworkbench.h"
#include "windowtesting.h"

using namespace tpscope;
using namespace tpscope::windowtesting;

class WorkbenchTest : public QObject {
    Q_OBJECT

private slots:
    void opensAModelAndAnalysesItsPlan() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        QCOMPARE(workbench.analysis()->lint.outcome, Outcome::Ok);
        QVERIFY(workbench.analysis()->withModuleBackward->graphBreaks > 0);
    }

    void saysWhyAModelCannotBeOpened() {
        PlanWorkbench workbench;
        QSignalSpy failed(&workbench, &PlanWorkbench::failed);
        workbench.openModel(QStringLiteral("no-such-model"));
        QVERIFY(failed.wait(patienceMs));
        QVERIFY(failed.first().first().toString().contains(QLatin1String("no-such-model")));
    }

    void deliversOnlyTheNewestOfManyTexts() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        QSignalSpy changed(&workbench, &PlanWorkbench::analysisChanged);
        const QString text = QString::fromUtf8(rightPlan);
        for (int i = 0; i < 50; ++i)
            workbench.setPlanText(text + QStringLiteral("# %1\n").arg(i), {});
        QVERIFY(!workbench.analysisIsCurrent());
        QVERIFY(analysed(workbench));
        QCOMPARE(workbench.analysis()->choice.document->text, (text + QStringLiteral("# 49\n")).toStdString());
        QVERIFY2(changed.count() < 10, "typing must not queue up work");
    }

    void anUnreadableTextIsAFindingWithItsPlace() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        workbench.setPlanText(QStringLiteral("tp_plan:\n  a: [\n"), {});
        QVERIFY(analysed(workbench));
        const auto findings = findingsOf(*workbench.analysis());
        QCOMPARE(findings.size(), std::size_t(1));
        QVERIFY(findings.front().span.line >= 2);
    }

    void saysWhatARuleDoes() {
        PlanWorkbench workbench;
        QVERIFY(openTiny(workbench));
        workbench.setPlanText(QString::fromUtf8(rightPlan), {});
        QVERIFY(analysed(workbench));
        const EffectiveRule *rule = ruleAtLine(*workbench.analysis(), 5);
        QVERIFY(rule);
        QCOMPARE(ruleMargin(*workbench.analysis(), *rule).count, QStringLiteral("\u00D72"));
        QVERIFY(ruleHover(*workbench.analysis(), *rule).contains(QLatin1String("64 \u00D7 64 \u2192 32 \u00D7 64")) ||
                ruleHover(*workbench.analysis(), *rule).contains(QStringLiteral("shard(")));
        QVERIFY(!ruleAtLine(*workbench.analysis(), 1));
    }
};

QTEST_MAIN(WorkbenchTest)
#include "workbenchtest.moc"
