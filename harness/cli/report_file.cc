#include "lockstep/harness/cli/report_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "lockstep/base/disk_files.h"

namespace lockstep::cli {

ReportFile::ReportFile(std::string path)
    : path_(std::move(path)), kind_(std::filesystem::path(path_).extension().string()) {
  if (kind_ == ".html") {
    page_ = std::make_unique<HtmlReport>();
  }
}

Result<ReportFile> ReportFile::make(const std::string& command,
                                    const std::string& path,
                                    bool draws) {
  constexpr std::array<std::string_view, 5> kKinds = {".html", ".json", ".xml", ".svg", ".dot"};
  ReportFile file(path);
  const auto* const known = std::find(kKinds.begin(), kKinds.end(), file.kind_);
  const auto* const last = draws ? kKinds.end() : kKinds.begin() + 3;
  if (path.empty() || known < last) return file;
  std::string message = "--report writes FILE.html, FILE.json or FILE.xml";
  if (draws) message += ", and who waits for whom as FILE.svg or FILE.dot";
  return Error{.message = message + ", not '" + path + "'", .where = "lockstep " + command};
}

void ReportFile::add(const RunView& run) {
  if (kind_ == ".html") page_->add(run);
  if (kind_ == ".json") text_ += render_json(*run.report);
  if (kind_ == ".xml") reports_.push_back(*run.report);
  const bool waits = run.wait_for != nullptr;
  if (kind_ == ".dot" && waits) text_ = sim::render_dot(*run.wait_for);
  if (kind_ == ".svg" && waits) text_ = sim::render_svg(*run.wait_for, run.report->title);
}

Outcome ReportFile::write() const {
  if (path_.empty()) return success();
  if (kind_ == ".html") return DiskFiles().publish(path_, page_->str());
  if (kind_ == ".xml") return DiskFiles().publish(path_, render_junit(reports_));
  return DiskFiles().publish(path_, text_);
}

}  // namespace lockstep::cli
