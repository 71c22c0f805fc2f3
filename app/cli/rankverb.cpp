// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/rankverb.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace tpscope::cli {
namespace {

// Goes on as tpscope-rank, which lies beside this program and is linked with LibTorch. Returns only when it cannot.
int becomeRank() {
    std::error_code ec;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ec);
    const std::string program = (self.parent_path() / "tpscope-rank").string();
    char name[] = "tpscope";
    char verb[] = "rank";
    char *arguments[] = {name, verb, nullptr};
    ::execv(program.c_str(), arguments);
    std::fprintf(stderr, "tpscope: cannot start %s: %s; it is built and installed with tpscope\n", program.c_str(),
                 std::strerror(errno));
    return 2;
}

} // namespace

void addRankVerb(CLI::App &app, int &exitStatus) {
    CLI::App *verb =
        app.add_subcommand("rank", "One rank of a run; started by tpscope run --backend gloo, or by torchrun.");
    verb->footer("Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT.\n"
                 "Example: TPSCOPE_REQUEST=request.json torchrun --no-python --nproc-per-node 2 tpscope rank");
    verb->callback([&exitStatus] { exitStatus = becomeRank(); });
}

} // namespace tpscope::cli
