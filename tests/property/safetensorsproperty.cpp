// SPDX-License-Identifier: GPL-3.0-or-later
#include "model/safetensors.h"

#include <QtTest>
#include <algorithm>
#include <cstring>
#include <map>
#include <rapidcheck.h>

#include "../support/rawsafetensors.h"
#include "base/resources.h"
#include "model/weightindex.h"

using namespace tpscope;
using namespace tpscope::testing;
namespace fs = std::filesystem;

namespace {

struct Tensor {
    std::string name;
    DType dtype;
    Shape shape;
    std::vector<std::byte> bytes;
};

std::vector<Tensor> anyTensors() {
    const auto count = *rc::gen::inRange(0, 8);
    std::map<std::string, Tensor> tensors;
    for (int i = 0; i < count; ++i) {
        const auto dtype = static_cast<DType>(*rc::gen::inRange(0, 12));
        Shape shape(*rc::gen::inRange<std::size_t>(0, 4));
        for (std::int64_t &size : shape)
            size = *rc::gen::inRange<std::int64_t>(0, 6);
        const auto length = static_cast<std::size_t>(elementCount(shape)) * elementSize(dtype);
        std::vector<std::byte> bytes(length);
        for (std::byte &byte : bytes)
            byte = static_cast<std::byte>(*rc::gen::inRange(0, 256));
        const auto name = *rc::gen::element<std::string>("a", "b.weight", "",
                                                         "\xC3\xA4 \"quoted\"\n", "x.0.y", "z");
        tensors.insert_or_assign(name, Tensor{name, dtype, shape, bytes});
    }
    std::vector<Tensor> out;
    for (auto &[name, tensor] : tensors)
        out.push_back(std::move(tensor));
    return out;
}

// Whatever the reader accepts must be safe to use: tensors within the file, of the right size,
// apart from each other, and every byte can be read.
void assertSound(const SafetensorsFile &file, std::size_t fileSize) {
    std::vector<std::pair<std::size_t, std::size_t>> ranges;
    unsigned sum = 0;
    for (const TensorEntry &entry : file.entries()) {
        RC_ASSERT(entry.begin <= entry.end);
        RC_ASSERT(entry.end <= fileSize);
        RC_ASSERT(entry.end - entry.begin ==
                  static_cast<std::size_t>(elementCount(entry.shape)) * elementSize(entry.dtype));
        RC_ASSERT(std::ranges::none_of(entry.shape, [](std::int64_t size) { return size < 0; }));
        RC_ASSERT(file.find(entry.name) == &entry);
        for (const std::byte byte : file.bytes(entry))
            sum += std::to_integer<unsigned>(byte);
        if (entry.begin < entry.end)
            ranges.emplace_back(entry.begin, entry.end);
    }
    std::ranges::sort(ranges);
    for (std::size_t i = 1; i < ranges.size(); ++i)
        RC_ASSERT(ranges[i - 1].second <= ranges[i].first);
    RC_ASSERT(sum < 256u * (fileSize + 1));
}

} // namespace

class SafetensorsProperty : public QObject {
    Q_OBJECT
    QTemporaryDir m_folder;

    fs::path file(const std::string &name) const {
        return fs::path(m_folder.path().toStdString()) / name;
    }

    // Opens bytes as a file; sound, or one error that names the file.
    void check(const std::string &bytes) const {
        const fs::path path = writeBytes(file("m.safetensors"), bytes);
        const auto opened = SafetensorsFile::open(path);
        if (opened) {
            assertSound(*opened, bytes.size());
        } else {
            RC_ASSERT(opened.error().location.has_value());
            RC_ASSERT(opened.error().location->file == path.string());
            RC_ASSERT(!opened.error().message.empty());
            RC_ASSERT(opened.error().message.size() < 600u);
            RC_ASSERT(opened.error().message.find('\n') == std::string::npos);
        }
    }

private slots:
    void whatIsWrittenIsRead() {
        QVERIFY(rc::check("tensors survive a file", [&] {
            const std::vector<Tensor> tensors = anyTensors();
            std::vector<TensorToWrite> toWrite;
            for (const Tensor &tensor : tensors)
                toWrite.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.bytes});
            RC_ASSERT(writeSafetensors(file("w.safetensors"), toWrite).has_value());
            const auto opened = SafetensorsFile::open(file("w.safetensors"));
            RC_ASSERT(opened.has_value());
            RC_ASSERT(opened->entries().size() == tensors.size());
            for (const Tensor &tensor : tensors) {
                const TensorEntry *entry = opened->find(tensor.name);
                RC_ASSERT(entry != nullptr);
                RC_ASSERT(entry->dtype == tensor.dtype);
                RC_ASSERT(entry->shape == tensor.shape);
                RC_ASSERT(std::ranges::equal(opened->bytes(*entry), tensor.bytes));
            }
        }));
    }

    void damagedFiles() {
        const std::string whole =
            *readFile(fs::path(TPSCOPE_TEST_DATA) / "fixtures/models/llama/expected.safetensors");
        QVERIFY(rc::check("any damaged file is sound or refused", [&] {
            // Damage is only telling where the length and the header stand.
            std::string bytes = whole;
            const auto changes = *rc::gen::inRange(1, 6);
            for (int i = 0; i < changes; ++i) {
                const auto at = *rc::gen::inRange<std::size_t>(0, 400);
                switch (*rc::gen::inRange(0, 4)) {
                case 0: bytes[at] = static_cast<char>(*rc::gen::inRange(0, 256)); break;
                case 1:
                    bytes[at] = *rc::gen::element('0', '1', '9', '"', ',', '[', ']', '{', '}', '-',
                                                  '.', 'e');
                    break;
                case 2: bytes.erase(at, *rc::gen::inRange<std::size_t>(1, 4)); break;
                default:
                    bytes.insert(at, 1,
                                 *rc::gen::element('0', '9', '"', ',', '[', '{', '\0', '\xFF'));
                    break;
                }
            }
            check(bytes);
        }));
        QVERIFY(rc::check("any cut file is refused", [&] {
            const auto size = *rc::gen::inRange<std::size_t>(0, whole.size());
            const auto opened = SafetensorsFile::open(
                writeBytes(file("c.safetensors"), std::string_view(whole).substr(0, size)));
            RC_ASSERT(!opened.has_value());
        }));
    }

    void inventedHeaders() {
        QVERIFY(rc::check("any numbers in a header are sound or refused", [&] {
            const auto number = [] {
                return *rc::gen::oneOf(rc::gen::inRange<std::uint64_t>(0, 20),
                                       rc::gen::element<std::uint64_t>(~0ull, 1ull << 63,
                                                                       1ull << 62, 1ull << 32,
                                                                       (1ull << 62) + 1));
            };
            std::string header = "{";
            const auto tensors = *rc::gen::inRange(0, 4);
            for (int i = 0; i < tensors; ++i) {
                std::string shape = "[";
                const auto dims = *rc::gen::inRange(0, 4);
                for (int d = 0; d < dims; ++d)
                    shape += (d ? "," : "") + std::to_string(number());
                header += (i ? "," : "") + tensorJson(*rc::gen::element("a", "b", "c"),
                                                      *rc::gen::element("U8", "F16", "F64", "X"),
                                                      shape + "]", number(), number());
            }
            check(rawSafetensors(header + "}", *rc::gen::inRange<std::size_t>(0, 40)));
        }));
        QVERIFY(rc::check("any bytes are sound or refused", [&] {
            const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
            check(bytes);
            check(rawSafetensors("{" + bytes, 0));
        }));
    }

    void damagedIndexes() {
        const std::string whole =
            R"({"metadata":{"total_size":8},"weight_map":{"a.b":"one","c":"two","d":"one"}})";
        QVERIFY(rc::check("any damaged index is sound or refused", [&] {
            std::string text = whole;
            const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
            if (*rc::gen::arbitrary<bool>())
                text[at] = static_cast<char>(*rc::gen::inRange(0, 256));
            else
                text.erase(at, *rc::gen::inRange<std::size_t>(1, 9));
            const auto index = readWeightIndex(writeBytes(file("i.json"), text));
            if (index) {
                for (const WeightIndex::Entry &entry : index->entries)
                    RC_ASSERT(entry.file < index->files.size());
                for (const std::string &name : index->files)
                    RC_ASSERT(!name.empty() && name[0] != '/' && name != "..");
            } else {
                RC_ASSERT(index.error().location.has_value());
            }
        }));
    }
};

QTEST_APPLESS_MAIN(SafetensorsProperty)
#include "safetensorsproperty.moc"
