// SPDX-License-Identifier: GPL-3.0-or-later
// tpscope-rank: what `tpscope rank` becomes. A program of its own, so that every other verb starts without LibTorch,
// whose loading alone takes half a second.
#include "exec/rankworker.h"

int main() { return tpscope::runRank(); }
