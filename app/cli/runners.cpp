// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/runners.h"

#include "probe/transformersrunner.h"
#include "run/gloorunner.h"
#include "run/simulatedrunner.h"

namespace tpscope::cli {

Result<std::unique_ptr<DecodeRunner>> makeRunner(Backend backend) {
    switch (backend) {
    case Backend::Simulated:
        return std::make_unique<SimulatedRunner>();
    case Backend::Gloo:
#if TPSCOPE_WITH_EXEC
        return std::make_unique<GlooRunner>();
#else
        return fail(ErrorCode::Unsupported, "this tpscope was built without LibTorch and runs no ranks; build with "
                                            "TPSCOPE_EXEC=ON");
#endif
    case Backend::Transformers:
        return std::make_unique<TransformersRunner>();
    }
    return fail(ErrorCode::Usage, "unknown backend");
}

} // namespace tpscope::cli
