// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstdio>
#include <exception>

#include "app/cli/verbs.h"
#if TPSCOPE_WITH_EXEC
#include "app/cli/rankverb.h"
#endif

int main(int argc, char **argv) {
    using namespace tpscope::cli;
    CLI::App app{"TPScope: what a tensor-parallel plan shards, where its hooks sit, where the graph breaks, and what "
                 "a token costs.",
                 "tpscope"};
    app.set_version_flag("--version", TPSCOPE_VERSION);
    app.require_subcommand(1);
    int exitStatus = 0;
    addModelsVerb(app, exitStatus);
    addPlansVerb(app, exitStatus);
    addLintVerb(app, exitStatus);
    addExplainVerb(app, exitStatus);
    addShardVerb(app, exitStatus);
    addGraphVerb(app, exitStatus);
    addRunVerb(app, exitStatus);
    addCompareVerb(app, exitStatus);
    addDiffVerb(app, exitStatus);
    addExportVerb(app, exitStatus);
    addVerifyVerb(app, exitStatus);
    addGradcheckVerb(app, exitStatus);
#if TPSCOPE_WITH_EXEC
    addRankVerb(app, exitStatus);
#endif
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        if (app.get_subcommands().empty() && error.get_exit_code() != 0) { // CLI11 does not name a verb it did not know
            if (argc > 1)
                std::fprintf(stderr, "tpscope: no such verb: %s; see tpscope --help\n", argv[1]);
            else
                std::fputs(app.help().c_str(), stderr);
            return 2;
        }
        // Help and version are no errors; every mistake in the call is exit 2.
        return app.exit(error) == 0 ? 0 : 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "tpscope: internal error: %s\n", error.what());
        return 3;
    }
    return exitStatus;
}
