// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/rankverb.h"

#include "exec/rankworker.h"

namespace tpscope::cli {

void addRankVerb(CLI::App &app, int &exitStatus) {
    CLI::App *verb = app.add_subcommand("rank", "One rank of a run; started by `tpscope run --backend gloo`, or by torchrun.");
    verb->footer("Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.\n"
                 "Example: TPSCOPE_REQUEST=request.json torchrun --no-python --nproc-per-node 2 tpscope rank");
    verb->callback([&exitStatus] { exitStatus = runRank(); });
}

} // namespace tpscope::cli
