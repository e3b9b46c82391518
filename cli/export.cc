// `lockstep export`: a trace as a picture, with what the laws found pinned to it.
#include "lockstep/laws/trace_check.h"
#include "lockstep/process/disk_files.h"
#include "lockstep/trace/perfetto.h"

#include "cli/commands.h"

namespace lockstep::cli {
namespace {

/// A note for each rank that a finding names; for rank 0 when it names none.
void add_notes(const Finding& finding, std::vector<TimelineNote>& notes) {
  const std::vector<Rank> nobody = {Rank{0}};
  for (const Rank rank : finding.ranks.empty() ? nobody : finding.ranks) {
    TimelineNote note = {.rank = rank,
                         .title = finding.law,
                         .text = sentence(finding),
                         .attempt = finding.attempt,
                         .step = finding.step,
                         .group = {},
                         .seq = finding.seq};
    if (finding.seq) note.group = finding.group;
    notes.push_back(std::move(note));
  }
}

}  // namespace

ExitCode export_trace(const ExportArguments& arguments, Terminal& terminal) {
  const Result<LoadedTrace> loaded = read_jsonl(arguments.folder);
  if (!loaded.ok()) return bad_input(terminal, loaded.error().text());
  const Result<Report> report = check_trace(loaded.value(), {}, {});
  if (!report.ok()) return bad_input(terminal, report.error().text());
  std::vector<TimelineNote> notes;
  for (const LawResult& law : report.value().laws) {
    for (const Finding& finding : law.findings) add_notes(finding, notes);
  }
  const Timeline timeline = render_perfetto(*loaded.value().trace, notes);
  const Outcome written = DiskFiles().publish(arguments.perfetto, timeline.json);
  if (!written.ok()) return bad_input(terminal, written.error().text());
  terminal.out << arguments.perfetto << ": " << timeline.counts.n_slices << " slices, "
               << timeline.counts.n_calls << " calls, " << timeline.counts.n_marks
               << " marks; open it in ui.perfetto.dev\n";
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
