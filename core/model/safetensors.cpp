// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/safetensors.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "model/safetensorsheader.h"

namespace tpscope {
namespace {

constexpr std::uint64_t lengthBytes = 8; // the header's length, in front of the header

std::uint64_t littleEndian64(const std::byte *bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < lengthBytes; ++i)
        value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
}

// An open file, closed at the end of its scope.
class Descriptor {
public:
    explicit Descriptor(int fd) : m_fd(fd) {}
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    Descriptor(Descriptor &&other) noexcept : m_fd(std::exchange(other.m_fd, -1)) {}
    ~Descriptor() {
        if (m_fd >= 0)
            ::close(m_fd);
    }
    int get() const { return m_fd; }

private:
    int m_fd;
};

} // namespace

struct SafetensorsFile::Impl {
    Impl(std::filesystem::path p, Descriptor d) : path(std::move(p)), descriptor(std::move(d)) {}
    Impl(const Impl &) = delete;
    Impl &operator=(const Impl &) = delete;
    ~Impl() {
        if (data)
            ::munmap(data, size);
    }
    std::span<const std::byte> all() const { return {static_cast<const std::byte *>(data), size}; }

    std::filesystem::path path;
    Descriptor descriptor;
    void *data = nullptr; // nullptr: nothing is mapped
    std::size_t size = 0; // of the file when it was opened
    std::vector<TensorEntry> entries;
    std::unordered_map<std::string_view, std::size_t> byName;
};

SafetensorsFile::SafetensorsFile(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile &&) noexcept = default;
SafetensorsFile &SafetensorsFile::operator=(SafetensorsFile &&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path &path) {
    const auto bad = [&](const std::string &what, ErrorCode code = ErrorCode::BadInput) {
        return fail(code, what, Location{path.string()});
    };
    // Without O_NONBLOCK, opening a pipe would wait for its writer.
    Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (descriptor.get() < 0)
        return errno == ENOENT ? bad("no such file", ErrorCode::NotFound)
                               : bad(std::string("cannot be opened: ") + std::strerror(errno));
    struct stat status{};
    if (::fstat(descriptor.get(), &status) != 0)
        return bad(std::string("cannot be examined: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode))
        return bad(S_ISDIR(status.st_mode) ? "is a directory, expected a safetensors file"
                                           : "is no regular file, expected a safetensors file");
    auto impl = std::make_unique<Impl>(path, std::move(descriptor));
    impl->size = static_cast<std::size_t>(status.st_size);
    if (impl->size < lengthBytes)
        return bad("the file is truncated: it has " + std::to_string(impl->size) +
                   " bytes, the length of the header alone takes 8");
    void *data = ::mmap(nullptr, impl->size, PROT_READ, MAP_PRIVATE, impl->descriptor.get(), 0);
    if (data == MAP_FAILED)
        return bad(std::string("cannot be mapped into memory: ") + std::strerror(errno));
    impl->data = data;

    const std::uint64_t length = littleEndian64(impl->all().data());
    if (length > largestSafetensorsHeader)
        return bad("not a safetensors file: its header would be " + std::to_string(length) +
                   " bytes long, at most " + std::to_string(largestSafetensorsHeader) +
                   " are allowed");
    if (length > impl->size - lengthBytes)
        return bad("the file is truncated: the header ends at byte " +
                   std::to_string(length + lengthBytes) + ", the file has " +
                   std::to_string(impl->size) + " bytes");
    const std::string_view header(static_cast<const char *>(data) + lengthBytes, length);
    auto entries = readSafetensorsHeader(header, path.string(), lengthBytes + length, impl->size);
    if (!entries)
        return tl::unexpected(entries.error());
    impl->entries = std::move(*entries);
    impl->byName.reserve(impl->entries.size());
    for (std::size_t i = 0; i < impl->entries.size(); ++i)
        impl->byName.emplace(impl->entries[i].name, i);
    return SafetensorsFile(std::move(impl));
}

const std::filesystem::path &SafetensorsFile::path() const { return m_impl->path; }

const std::vector<TensorEntry> &SafetensorsFile::entries() const { return m_impl->entries; }

const TensorEntry *SafetensorsFile::find(const std::string &name) const {
    const auto found = m_impl->byName.find(name);
    return found == m_impl->byName.end() ? nullptr : &m_impl->entries[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const TensorEntry &entry) const {
    return m_impl->all().subspan(entry.begin, entry.end - entry.begin);
}

bool SafetensorsFile::unchanged() const {
    struct stat status{};
    return ::fstat(m_impl->descriptor.get(), &status) == 0 &&
           static_cast<std::size_t>(status.st_size) == m_impl->size;
}

} // namespace tpscope
