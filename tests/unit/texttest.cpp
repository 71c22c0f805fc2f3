// SPDX-License-Identifier: GPL-3.0-or-later
#include "base/text.h"

#include <QtTest>

using namespace tpscope;

class TextTest : public QObject {
    Q_OBJECT
private slots:
    void distance() {
        QCOMPARE(editDistance("", ""), std::size_t{0});
        QCOMPARE(editDistance("abc", ""), std::size_t{3});
        QCOMPARE(editDistance("", "abc"), std::size_t{3});
        QCOMPARE(editDistance("kitten", "sitting"), std::size_t{3});
        QCOMPARE(editDistance("colwsie", "colwise"), std::size_t{1}); // neighbours swapped
        QCOMPARE(editDistance("a.b", "a.b"), std::size_t{0});
    }

    void nearestStyle_data() {
        QTest::addColumn<QString>("word");
        QTest::addColumn<QString>("meant");
        QTest::newRow("case") << "Colwise" << "colwise";
        QTest::newRow("blank") << "colwise " << "colwise";
        QTest::newRow("longer") << "columnwise" << "colwise";
        QTest::newRow("column") << "column" << "colwise";
        QTest::newRow("row") << "row" << "rowwise";
        QTest::newRow("swap") << "rowwies" << "rowwise";
        QTest::newRow("nothing near") << "zzzzzzzzzz" << "";
        QTest::newRow("number") << "3" << "";
        QTest::newRow("empty") << "" << "";
        QTest::newRow("huge") << QString(100000, 'c') << "";
    }
    void nearestStyle() {
        QFETCH(QString, word);
        QFETCH(QString, meant);
        const std::vector<std::string> styles{"rowwise_rep", "rowwise", "colwise_rep", "colwise",
                                              "replicate",   "",        "local_params"};
        QCOMPARE(QString::fromStdString(nearest(word.toStdString(), styles)), meant);
    }

    void nearestNames() {
        const std::vector<std::string> names{"qwen3-30b-a3b", "llama-3.1-8b", "qwen3-8b",
                                             "qwen3-tiny"};
        const auto few = nearestFew("qwen3_8b", names, 2);
        QCOMPARE(few.size(), std::size_t{2});
        QCOMPARE(few[0], std::string("qwen3-8b"));
        QVERIFY(nearestFew("x", {}, 3).empty());
    }

    void bytes() {
        QCOMPARE(formatBytes(0), std::string("0 B"));
        QCOMPARE(formatBytes(999), std::string("999 B"));
        QCOMPARE(formatBytes(1000), std::string("1.0 kB"));
        QCOMPARE(formatBytes(999949), std::string("999.9 kB"));
        QCOMPARE(formatBytes(999950), std::string("1.0 MB"));
        QCOMPARE(formatBytes(8388608), std::string("8.4 MB"));
        QCOMPARE(formatBytes(UINT64_MAX), std::string("18.4 EB"));
    }

    void shortTexts() {
        QCOMPARE(shortened("short", 10), std::string("short"));
        QCOMPARE(shortened("0123456789", 10), std::string("0123456789"));
        QCOMPARE(shortened("0123456789a", 10), std::string("0123456..."));
        QCOMPARE(shortened("\xC3\xA4\xC3\xA4\xC3\xA4\xC3\xA4", 7),
                 std::string("\xC3\xA4\xC3\xA4..."));
        QCOMPARE(shortened("a\nb\x01", 10), std::string("a b "));
        QCOMPARE(shortened("\xFFz\xC3", 10), std::string("?z?"));
        QCOMPARE(shortened("abcdef", 2), std::string(".."));
        QCOMPARE(shortened(std::string(1 << 20, 'x'), 12).size(), std::size_t{12});
    }
};

QTEST_APPLESS_MAIN(TextTest)
#include "texttest.moc"
