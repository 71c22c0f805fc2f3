// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QCommandLineParser>
#include <QSettings>

#include <cstdio>
#include <string_view>

#include "app/gui/endsignals.h"
#include "app/gui/mainwindow.h"
#include "app/gui/screenshots.h"
#include "style/theme.h"

namespace {

// Pictures are drawn without a display, and the offscreen platform says at each window what it cannot do.
void prepareForPictures(int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (std::string_view(argv[i]).substr(0, 13) != "--screenshots" || qEnvironmentVariableIsSet("QT_QPA_PLATFORM"))
            continue;
        qputenv("QT_QPA_PLATFORM", "offscreen");
        qInstallMessageHandler([](QtMsgType, const QMessageLogContext &, const QString &text) {
            if (!text.startsWith(QLatin1String("This plugin does not support")))
                std::fprintf(stderr, "%s\n", qPrintable(text));
        });
    }
}

} // namespace

int main(int argc, char **argv) {
    prepareForPictures(argc, argv);
    QApplication app(argc, argv);
    QCoreApplication::setOrganizationName(QStringLiteral("TPScope"));
    QCoreApplication::setApplicationName(QStringLiteral("tpscope-gui"));
    QCoreApplication::setApplicationVersion(QStringLiteral(TPSCOPE_VERSION));

    QCommandLineParser parser;
    parser.setApplicationDescription(
        QCoreApplication::translate("main", "Profiler and editor for tensor-parallel plans."));
    parser.addHelpOption();
    parser.addVersionOption();
    parser.addPositionalArgument(
        QStringLiteral("model"),
        QCoreApplication::translate("main", "model folder, config.json, bundled name or cached hub id"),
        QStringLiteral("[MODEL]"));
    const QCommandLineOption plan(QStringLiteral("plan"), QCoreApplication::translate("main", "plan file to open"),
                                  QStringLiteral("PLAN"));
    const QCommandLineOption shots(
        QStringLiteral("screenshots"),
        QCoreApplication::translate("main", "render each view of the example into DIR and end"), QStringLiteral("DIR"));
    const QCommandLineOption recorded(
        QStringLiteral("recorded"),
        QCoreApplication::translate("main", "open qwen3-tiny and the recorded comparison that ships with TPScope"));
    parser.addOptions({plan, shots, recorded});
    parser.process(app);

    if (parser.isSet(shots)) {
        // Pictures show the program, not what its user did with it.
        QCoreApplication::setApplicationName(QStringLiteral("tpscope-gui-screenshots"));
        return tpscope::renderScreenshots(parser.value(shots));
    }
    tpscope::Theme::apply(static_cast<tpscope::ThemeKind>(QSettings().value(QStringLiteral("theme"), 0).toInt()));
    tpscope::endOnSignals();
    tpscope::MainWindow window;
    window.show();
    if (parser.isSet(recorded))
        window.openExample(tpscope::StartPage::Way::SlowDecode);
    if (!parser.positionalArguments().isEmpty() || parser.isSet(plan))
        window.openWith(parser.positionalArguments().value(0), parser.value(plan));
    return QApplication::exec();
}
