#include "lockstep/harness/report/report_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "lockstep/base/disk_files.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/perfetto.h"
#include "lockstep/harness/report/timeline_notes.h"

namespace lockstep {

namespace {

constexpr std::string_view kPerfetto = ".perfetto.json";

std::string kind_of_file(const std::string& path) {
  if (path.ends_with(kPerfetto)) return std::string(kPerfetto);
  return std::filesystem::path(path).extension().string();
}

}  // namespace

std::string report_json(const RunView& run) {
  const std::optional<RunTimes> times = times_of(run);
  if (!times) return render_json(*run.report);
  return render_json(*run.report, [&](JsonText& out) { write_times(out.key("times"), *times); });
}

ReportFile::ReportFile(std::string path) : path_(std::move(path)), kind_(kind_of_file(path_)) {
  if (kind_ == ".html") {
    page_ = std::make_unique<HtmlReport>();
  }
}

Result<ReportFile> ReportFile::make(const Asker& asker, const std::string& path, bool draws) {
  constexpr std::array<std::string_view, 6> kKinds = {
      ".html", ".json", ".xml", kPerfetto, ".svg", ".dot"};
  ReportFile file(path);
  const auto* const known = std::find(kKinds.begin(), kKinds.end(), file.kind_);
  const auto* const last = draws ? kKinds.end() : kKinds.begin() + 4;
  if (path.empty() || known < last) return file;
  std::string message =
      asker.option + " writes FILE.html, FILE.json, FILE.xml or FILE.perfetto.json";
  if (draws) message += ", and who waits for whom as FILE.svg or FILE.dot";
  return Error{.message = message + ", not '" + path + "'", .where = asker.where};
}

void ReportFile::add(const RunView& run) {
  if (kind_ == ".html") page_->add(run);
  if (kind_ == ".json") text_ += report_json(run);
  if (kind_ == ".xml") reports_.push_back(*run.report);
  if (kind_ == kPerfetto && run.trace != nullptr) {
    text_ = render_perfetto(*run.trace, timeline_notes(*run.report)).json;
  }
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

}  // namespace lockstep
