// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace tpscope {

// One rank of a run: the whole of `tpscope rank`. Its place comes from RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
// MASTER_PORT, as torchrun sets them. What to run comes over the channel of a launcher (see run/launcher.h), else from
// the JSON file that TPSCOPE_REQUEST names (run/rankrequest.h); rank 0 then prints the result on standard output.
// Returns the process exit code: 0, 2 unusable environment or request, 3 the run failed, 130 cancelled.
int runRank();

} // namespace tpscope
