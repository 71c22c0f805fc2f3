// SPDX-License-Identifier: GPL-3.0-or-later
#include "views/exportdialog.h"

#include <QClipboard>
#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QLabel>
#include <QListWidget>
#include <QMessageBox>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSaveFile>
#include <QVBoxLayout>

#include <algorithm>

#include "models/planexport.h"

namespace tpscope {
namespace {

constexpr int formatRole = Qt::UserRole;      // id of an ExportFormat; "" a picture
constexpr int pictureRole = Qt::UserRole + 1; // index of a picture

QString translated(const char *text) { return QCoreApplication::translate("ExportFormat", text); }

} // namespace

ExportDialog::ExportDialog(std::shared_ptr<const PlanAnalysis> analysis, std::shared_ptr<const Comparison> comparison,
                           const QString &modelArgument, const QString &baseName, std::vector<ExportPicture> pictures,
                           QWidget *parent)
    : QDialog(parent), m_analysis(std::move(analysis)), m_comparison(std::move(comparison)),
      m_modelArgument(modelArgument), m_baseName(baseName), m_pictures(std::move(pictures)), m_list(new QListWidget),
      m_about(new QLabel), m_preview(new QPlainTextEdit) {
    setWindowTitle(tr("Export"));
    resize(860, 520);
    m_list->setFixedWidth(230);
    m_about->setWordWrap(true);
    m_preview->setReadOnly(true);
    m_preview->setLineWrapMode(QPlainTextEdit::NoWrap);
    m_preview->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Close);
    m_save = buttons->addButton(tr("Save as\u2026"), QDialogButtonBox::ActionRole);
    m_copy = buttons->addButton(tr("Copy"), QDialogButtonBox::ActionRole);
    buttons->button(QDialogButtonBox::Close)->setAutoDefault(false);
    m_copy->setAutoDefault(false);
    m_save->setDefault(true);
    auto *right = new QVBoxLayout;
    right->addWidget(m_about);
    right->addWidget(m_preview, 1);
    auto *middle = new QHBoxLayout;
    middle->addWidget(m_list);
    middle->addLayout(right, 1);
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(middle, 1);
    layout->addWidget(buttons);
    fill();
    connect(m_list, &QListWidget::currentRowChanged, this, &ExportDialog::showChosen);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_copy, &QPushButton::clicked, this, [this] { QGuiApplication::clipboard()->setText(previewText()); });
    connect(m_save, &QPushButton::clicked, this, &ExportDialog::saveAs);
    m_list->setCurrentRow(0);
}

void ExportDialog::fill() {
    const auto add = [this](const QString &title, bool enabled, const QString &whyNot) {
        auto *item = new QListWidgetItem(title, m_list);
        if (!enabled) {
            item->setFlags(item->flags() & ~(Qt::ItemIsEnabled | Qt::ItemIsSelectable));
            item->setToolTip(whyNot);
        }
        return item;
    };
    for (const ExportFormat &format : exportFormats()) {
        const bool plan = format.of == ExportFormat::Of::Plan;
        const bool there = plan ? m_analysis && !m_analysis->unreadable : m_comparison != nullptr;
        add(translated(format.title), there,
            plan ? tr("There is no readable plan.") : tr("No comparison is shown yet."))
            ->setData(formatRole, QString::fromLatin1(format.id));
    }
    for (std::size_t i = 0; i < m_pictures.size(); ++i)
        add(tr("Picture: %1 (PNG)").arg(m_pictures[i].title), m_pictures[i].there, tr("The view shows nothing yet."))
            ->setData(pictureRole, static_cast<int>(i));
}

void ExportDialog::choose(const QString &formatId) {
    if (formatId == QLatin1String("picture")) {
        if (const auto first = std::ranges::find_if(m_pictures, &ExportPicture::there); first != m_pictures.end())
            choosePicture(first->title);
        return;
    }
    for (int row = 0; row < m_list->count(); ++row)
        if (m_list->item(row)->data(formatRole).toString() == formatId)
            m_list->setCurrentRow(row);
}

void ExportDialog::choosePicture(const QString &title) {
    for (int row = 0; row < m_list->count(); ++row)
        if (const QVariant picture = m_list->item(row)->data(pictureRole);
            picture.isValid() && m_pictures[static_cast<std::size_t>(picture.toInt())].title == title)
            m_list->setCurrentRow(row);
}

void ExportDialog::showChosen() {
    const QListWidgetItem *item = m_list->currentItem();
    const ExportFormat *format = item ? findExportFormat(item->data(formatRole).toString()) : nullptr;
    m_copy->setEnabled(format);
    m_save->setEnabled(item && (item->flags() & Qt::ItemIsEnabled));
    m_about->setText(format ? translated(format->about) : tr("A picture of the view at twice its size."));
    m_preview->setPlainText(format ? exportText(*format, m_analysis.get(), m_comparison.get(), m_modelArgument)
                                   : QString());
}

QString ExportDialog::previewText() const { return m_preview->toPlainText(); }

QString ExportDialog::writeTo(const QString &path) {
    const QListWidgetItem *item = m_list->currentItem();
    if (!item)
        return tr("Nothing is chosen.");
    if (item->data(formatRole).toString().isEmpty()) {
        const auto picture = static_cast<std::size_t>(item->data(pictureRole).toInt());
        return m_pictures[picture].save(path) ? QString() : tr("The picture could not be written: %1").arg(path);
    }
    QSaveFile file(path);
    const QByteArray bytes = previewText().toUtf8();
    if (!file.open(QIODevice::WriteOnly) || file.write(bytes) != bytes.size() || !file.commit())
        return tr("%1 could not be written: %2").arg(path, file.errorString());
    return {};
}

void ExportDialog::saveAs() {
    const QListWidgetItem *item = m_list->currentItem();
    const ExportFormat *format = item ? findExportFormat(item->data(formatRole).toString()) : nullptr;
    const QString suffix = format ? QString::fromLatin1(format->suffix) : QStringLiteral(".png");
    const QString path =
        QFileDialog::getSaveFileName(this, tr("Export"), m_baseName + suffix,
                                     tr("%1 files (*%2);;All files (*)").arg(suffix.mid(1).toUpper(), suffix));
    if (path.isEmpty())
        return;
    const QString problem = writeTo(path);
    if (problem.isEmpty())
        accept();
    else
        QMessageBox::warning(this, tr("Export"), problem);
}

} // namespace tpscope
