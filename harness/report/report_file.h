// Reports as files, of the kind that the name of the file asks for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/harness/report/html_report.h"

namespace lockstep {

/// The report as a JSON object, with "times" where the run has some (docs/report_format.md).
std::string report_json(const RunView& run);

/// Gathers the reports of one or several runs into one file: FILE.html, FILE.json (a run a line) or
/// FILE.xml (JUnit); of a run whose trace is there FILE.perfetto.json, a timeline for
/// ui.perfetto.dev; of a single simulated run also who waits for whom, as FILE.svg or FILE.dot.
class ReportFile {
 public:
  /// Who asks for a file, for errors.
  struct Asker {
    std::string option;  ///< "--report"
    std::string where;   ///< "lockstep run"
  };

  /// An empty path writes nothing. `draws` allows the last two. Errors: any other name.
  static Result<ReportFile> make(const Asker& asker, const std::string& path, bool draws);

  /// Whether what add() is given is read.
  bool wanted() const { return !path_.empty(); }

  void add(const RunView& run);
  Outcome write() const;

 private:
  explicit ReportFile(std::string path);

  std::string path_;
  std::string kind_;  ///< ".html", ...
  std::vector<Report> reports_;
  std::string text_;
  std::unique_ptr<HtmlReport> page_;
};

}  // namespace lockstep
