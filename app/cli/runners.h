// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <memory>

#include "run/decoderunner.h"

namespace tpscope::cli {

// The one place that turns a backend's name into a runner.
Result<std::unique_ptr<DecodeRunner>> makeRunner(Backend backend);

} // namespace tpscope::cli
