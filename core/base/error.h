// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace tpscope {

// What kind of failure an Error is. The command line maps it to its exit code (see exitCode()).
enum class ErrorCode {
    Usage,       // the call itself is wrong: flag, value, combination
    NotFound,    // no such file, model, plan, profile
    BadInput,    // a file exists and cannot be read as what it should be
    Unsupported, // well-formed, and outside what this build or version can do
    CannotRun,   // findings forbid it: the plan is rejected or its forward fails
    RunFailed,   // a rank, process or library failed while running
    Cancelled,   // stopped by the user
};

// Where in a file. line and column count from 1; 0 means unknown. column counts UTF-8 characters.
struct Location {
    std::string file;
    int line = 0;
    int column = 0;
};

// A failure with one message for people: what was expected, what was found, what to do.
struct Error {
    ErrorCode code = ErrorCode::BadInput;
    std::string message;
    std::optional<Location> location;

    // "file:line:column: message", leaving out what is unknown.
    std::string text() const;
};

template <typename T> using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(ErrorCode code, std::string message,
                                  std::optional<Location> location = std::nullopt) {
    return tl::unexpected<Error>(Error{code, std::move(message), std::move(location)});
}

// The process exit code of an error: 2 usage or unreadable input, 1 a plan that cannot run, 3 the run failed,
// 130 cancelled.
int exitCode(ErrorCode code);

} // namespace tpscope
