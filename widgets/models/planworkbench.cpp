// SPDX-License-Identifier: GPL-3.0-or-later
#include "models/planworkbench.h"

#include <QMetaObject>
#include <QThreadPool>

#include <functional>

namespace tpscope {

namespace {

struct Request {
    std::shared_ptr<const Workspace> workspace;
    bool automatic = true;
    std::string text;
    std::string fileName;
    int tp = 2;
    AnalysisOptions options;
};

std::shared_ptr<const PlanAnalysis> run(const Request &request) {
    PlanChoice choice;
    if (!request.automatic) {
        auto document = parsePlan(request.text, request.fileName);
        if (!document) {
            auto broken = std::make_shared<PlanAnalysis>();
            broken->workspace = request.workspace;
            broken->unreadable = document.error();
            broken->tp = request.tp;
            return broken;
        }
        choice.kind = PlanChoice::Kind::Document;
        choice.document = std::move(*document);
    }
    return std::make_shared<PlanAnalysis>(analyze(request.workspace, choice, request.tp, request.options));
}

} // namespace

struct PlanWorkbench::Private {
    QString modelArgument;
    QString text;
    QString fileName;
    bool automatic = true;
    int tp = 2;
    HookMode hooks = HookMode::PostAccumulateGrad;
    bool training = false;
    int microSteps = 1;
    std::shared_ptr<const Workspace> workspace;
    std::shared_ptr<const PlanAnalysis> analysis;
    quint64 openSerial = 0;    // newest open request
    quint64 wanted = 0;        // newest analysis request
    quint64 delivered = 0;
    bool analysing = false;
    // One worker: jobs of one kind never overtake each other, and the destructor waits for it.
    QThreadPool pool;

    Request request() const {
        Request out{workspace, automatic, text.toStdString(),
                    fileName.isEmpty() ? std::string("plan") : fileName.toStdString(), tp, {}};
        out.options.hooks = hooks;
        out.options.lint.hooks = name(hooks);
        out.options.lint.train = training;
        out.options.lint.microSteps = microSteps;
        out.options.lint.upstream = workspace->upstream;
        return out;
    }
};

PlanWorkbench::PlanWorkbench(QObject *parent) : QObject(parent), d(std::make_unique<Private>()) {
    d->pool.setMaxThreadCount(1);
}

PlanWorkbench::~PlanWorkbench() {
    d->pool.clear();
    d->pool.waitForDone();
}

void PlanWorkbench::openModel(const QString &argument) {
    const quint64 serial = ++d->openSerial;
    d->pool.start([this, serial, argument] {
        auto opened = openWorkspace(argument.toStdString());
        QMetaObject::invokeMethod(
            this,
            [this, serial, argument, opened = std::move(opened)] {
                if (serial != d->openSerial)
                    return;
                if (!opened) {
                    emit failed(QString::fromStdString(opened.error().text()));
                    return;
                }
                d->modelArgument = argument;
                d->workspace = *opened;
                d->analysis.reset();
                emit modelOpened(d->workspace);
                reanalyse();
            },
            Qt::QueuedConnection);
    });
}

void PlanWorkbench::setPlanText(const QString &text, const QString &fileName) {
    if (!d->automatic && text == d->text && fileName == d->fileName)
        return;
    d->automatic = false;
    d->text = text;
    d->fileName = fileName;
    reanalyse();
}

void PlanWorkbench::setAutoPlan() {
    d->automatic = true;
    d->text.clear();
    d->fileName.clear();
    reanalyse();
}

void PlanWorkbench::setTp(int tp) {
    if (tp == d->tp || tp < 1)
        return;
    d->tp = tp;
    emit settingsChanged();
    reanalyse();
}

void PlanWorkbench::setHooks(HookMode hooks) {
    if (hooks == d->hooks)
        return;
    d->hooks = hooks;
    emit settingsChanged();
    reanalyse();
}

void PlanWorkbench::setTraining(bool training, int microSteps) {
    d->training = training;
    d->microSteps = microSteps;
    emit settingsChanged();
    reanalyse();
}

// At most one analysis runs and the newest state waits: typing never queues up work.
void PlanWorkbench::reanalyse() {
    ++d->wanted;
    if (!d->workspace || d->analysing)
        return;
    d->analysing = true;
    const quint64 serial = d->wanted;
    d->pool.start([this, serial, request = d->request()] {
        auto analysis = run(request);
        QMetaObject::invokeMethod(
            this,
            [this, serial, analysis = std::move(analysis)] {
                d->analysing = false;
                if (analysis->workspace == d->workspace && serial > d->delivered) {
                    d->delivered = serial;
                    d->analysis = analysis;
                    emit analysisChanged(d->analysis);
                }
                if (serial != d->wanted) {
                    --d->wanted; // reanalyse() counts it again
                    reanalyse();
                }
            },
            Qt::QueuedConnection);
    });
}

QString PlanWorkbench::modelArgument() const { return d->modelArgument; }
QString PlanWorkbench::planText() const { return d->text; }
QString PlanWorkbench::planFileName() const { return d->fileName; }
int PlanWorkbench::tp() const { return d->tp; }
HookMode PlanWorkbench::hooks() const { return d->hooks; }
std::shared_ptr<const Workspace> PlanWorkbench::workspace() const { return d->workspace; }
std::shared_ptr<const PlanAnalysis> PlanWorkbench::analysis() const { return d->analysis; }
bool PlanWorkbench::analysisIsCurrent() const { return d->analysis && d->delivered == d->wanted; }

} // namespace tpscope
