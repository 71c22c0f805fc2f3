// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/resources.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace tpscope {
namespace fs = std::filesystem;

fs::path resourceDir() {
    if (const char *env = std::getenv("TPSCOPE_RESOURCES"); env && *env)
        return env;
    std::error_code ec;
    const fs::path program = fs::read_symlink("/proc/self/exe", ec);
    if (!ec) {
        const fs::path installed = program.parent_path().parent_path() / "share" / "tpscope";
        if (fs::exists(installed, ec))
            return installed;
    }
    return fs::path(TPSCOPE_SOURCE_DIR) / "resources";
}

fs::path plansDir() {
    const fs::path inside = resourceDir() / "plans";
    std::error_code ec;
    return fs::exists(inside, ec) ? inside : resourceDir().parent_path() / "plans";
}

Result<std::string> readFile(const fs::path &path) {
    std::error_code ec;
    const fs::file_status status = fs::status(path, ec);
    if (!fs::exists(status))
        return fail(ErrorCode::NotFound, "no such file", Location{path.string()});
    if (fs::is_directory(status))
        return fail(ErrorCode::BadInput, "is a directory, expected a file", Location{path.string()});
    std::ifstream in(path, std::ios::binary);
    if (!in)
        return fail(ErrorCode::BadInput, std::string("cannot be opened: ") + std::strerror(errno),
                    Location{path.string()});
    std::ostringstream bytes;
    bytes << in.rdbuf();
    if (in.bad())
        return fail(ErrorCode::BadInput, "could not be read to its end", Location{path.string()});
    return std::move(bytes).str();
}

Result<void> writeFileAtomically(const fs::path &path, const std::string &bytes) {
    const fs::path temporary = path.string() + ".tmp" + std::to_string(::getpid());
    const auto failed = [&](const char *what) {
        const std::string why = std::strerror(errno);
        std::error_code ignored;
        fs::remove(temporary, ignored);
        return fail(ErrorCode::RunFailed, std::string(what) + ": " + why + "; nothing was changed",
                    Location{path.string()});
    };
    {
        std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
        if (!out)
            return failed("cannot be created");
        out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        out.flush();
        if (!out)
            return failed("could not be written");
    }
    std::error_code ec;
    fs::rename(temporary, path, ec);
    if (ec) {
        errno = ec.value();
        return failed("could not be replaced");
    }
    return {};
}

} // namespace tpscope
