// `lockstep export`: a trace as a picture, with what the laws found pinned to it.
#include "lockstep/base/disk_files.h"
#include "lockstep/formats/perfetto.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/report/timeline_notes.h"
#include "lockstep/laws/trace_check.h"

namespace lockstep::cli {
ExitCode export_trace(const ExportArguments& arguments, Terminal& terminal) {
  const Result<LoadedTrace> loaded = read_jsonl(arguments.folder);
  if (!loaded.ok()) return bad_input(terminal, loaded.error().text());
  const Result<Report> report = check_trace(loaded.value(), {}, {});
  if (!report.ok()) return bad_input(terminal, report.error().text());
  const Timeline timeline = render_perfetto(*loaded.value().trace, timeline_notes(report.value()));
  const Outcome written = DiskFiles().publish(arguments.perfetto, timeline.json);
  if (!written.ok()) return bad_input(terminal, written.error().text());
  terminal.out << arguments.perfetto << ": " << timeline.counts.n_slices << " slices, "
               << timeline.counts.n_calls << " calls, " << timeline.counts.n_marks
               << " marks; open it in ui.perfetto.dev\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
