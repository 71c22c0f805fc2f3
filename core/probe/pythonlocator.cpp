// SPDX-License-Identifier: GPL-3.0-or-later
#include "probe/pythonlocator.h"

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "probe/probeprocess.h"

namespace tpscope {
namespace fs = std::filesystem;

namespace {

constexpr auto kAdvice =
    "run ./bootstrap, which makes build/venv with both, or set TPSCOPE_PYTHON to a Python that "
    "has torch and transformers";

bool isExecutable(const fs::path &path) {
    return ::access(path.c_str(), X_OK) == 0 && !fs::is_directory(path);
}

// Asks the interpreter where the packages are without importing them.
bool hasPackages(const fs::path &python) {
    constexpr auto question =
        "import sys, importlib.util as u\n"
        "sys.exit(not all(u.find_spec(n) for n in ('torch', 'transformers')))";
    ProbeProcess::Options options;
    options.arguments = {python.string(), "-c", question};
    auto child = ProbeProcess::start(options);
    if (!child)
        return false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (child->running() && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const bool ended = !child->running();
    child->killAll();
    return ended && child->exitStatus() == 0;
}

std::vector<fs::path> besideProgram() {
    std::vector<fs::path> found;
    std::error_code ec;
    fs::path folder = fs::read_symlink("/proc/self/exe", ec).parent_path();
    for (int level = 0; level < 3 && !folder.empty(); ++level, folder = folder.parent_path())
        found.push_back(folder / "venv" / "bin" / "python");
    return found;
}

std::vector<fs::path> onPath() {
    std::vector<fs::path> found;
    const char *path = std::getenv("PATH");
    std::string rest = path ? path : "";
    while (!rest.empty()) {
        const auto colon = rest.find(':');
        const std::string folder = rest.substr(0, colon);
        if (!folder.empty())
            found.push_back(fs::path(folder) / "python3");
        rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
    return found;
}

} // namespace

Result<ProbePython> pythonOf(const std::string &argument) {
    const fs::path given = argument;
    std::error_code ec;
    if (isExecutable(given)) {
        if (!hasPackages(given))
            return fail(ErrorCode::Unsupported, "--python: this Python has no torch or no transformers",
                        Location{argument});
        return ProbePython{fs::absolute(given, ec), {}};
    }
    if (const fs::path inside = given / "bin" / "python"; isExecutable(inside))
        return pythonOf(inside.string());
    for (const fs::path &folder : {given / "src", given})
        if (fs::exists(folder / "transformers" / "__init__.py", ec)) {
            auto python = findPython();
            if (!python)
                return tl::unexpected(python.error());
            return ProbePython{std::move(*python), fs::absolute(folder, ec)};
        }
    return fail(ErrorCode::NotFound,
                "--python: neither a Python that can be run, nor a virtual environment, nor a working copy of "
                "transformers",
                Location{argument});
}

Result<fs::path> findPython() {
    if (const char *given = std::getenv("TPSCOPE_PYTHON"); given && *given) {
        if (!isExecutable(given))
            return fail(ErrorCode::Unsupported, "TPSCOPE_PYTHON is \"" + std::string(given) +
                                                    "\", which is no program that can be run; " +
                                                    kAdvice);
        if (!hasPackages(given))
            return fail(ErrorCode::Unsupported, "TPSCOPE_PYTHON is \"" + std::string(given) +
                                                    "\", which has no torch or no transformers; " +
                                                    kAdvice);
        return fs::path(given);
    }
    for (const auto &candidates : {besideProgram(), onPath()})
        for (const fs::path &candidate : candidates)
            if (isExecutable(candidate) && hasPackages(candidate))
                return candidate;
    return fail(
        ErrorCode::Unsupported,
        "the transformers backend needs a Python with torch and transformers and found none; " +
            std::string(kAdvice));
}

} // namespace tpscope
