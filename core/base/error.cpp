// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/error.h"

namespace tpscope {

std::string Error::text() const {
    std::string out;
    if (location) {
        out += location->file;
        if (location->line > 0) {
            out += (out.empty() ? "line " : ":") + std::to_string(location->line);
            if (location->column > 0)
                out += ":" + std::to_string(location->column);
        }
        if (!out.empty())
            out += ": ";
    }
    return out + message;
}

int exitCode(ErrorCode code) {
    switch (code) {
    case ErrorCode::Usage:
    case ErrorCode::NotFound:
    case ErrorCode::BadInput:
    case ErrorCode::Unsupported:
        return 2;
    case ErrorCode::CannotRun:
        return 1;
    case ErrorCode::RunFailed:
        return 3;
    case ErrorCode::Cancelled:
        return 130;
    }
    return 3;
}

} // namespace tpscope
