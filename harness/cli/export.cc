// `lockstep export`: a trace as a picture or as dumps, tensors in the other format.
#include <filesystem>
#include <initializer_list>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/formats/flight_recorder.h"
#include "lockstep/formats/perfetto.h"
#include "lockstep/formats/state_file.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/report/timeline_notes.h"
#include "lockstep/laws/trace_check.h"

namespace lockstep::cli {
namespace {

ExitCode write_picture(const LoadedTrace& loaded, const std::string& path, Terminal& terminal) {
  const Result<Report> report = check_trace(loaded, {}, {});
  if (!report.ok()) return bad_input(terminal, report.error().text());
  const Timeline timeline = render_perfetto(*loaded.trace, timeline_notes(report.value()));
  const Outcome written = DiskFiles().publish(path, timeline.json);
  if (!written.ok()) return bad_input(terminal, written.error().text());
  terminal.out << path << ": " << timeline.counts.n_slices << " slices, " << timeline.counts.n_calls
               << " calls, " << timeline.counts.n_marks << " marks; open it in ui.perfetto.dev\n";
  return ExitCode::kOk;
}

ExitCode write_dumps(const LoadedTrace& loaded, const std::string& folder, Terminal& terminal) {
  const Result<std::vector<FlightFile>> files =
      render_flight_recorder(*loaded.trace, loaded.header);
  if (!files.ok()) return bad_input(terminal, folder + ": " + files.error().text());
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    return bad_input(terminal, folder + ": cannot make this folder: " + failure.message());
  for (const FlightFile& file : files.value()) {
    const Outcome written = DiskFiles().publish(folder + "/" + file.name, file.bytes);
    if (!written.ok()) return bad_input(terminal, written.error().text());
  }
  terminal.out << folder << ": " << files.value().size()
               << " dumps; open them with python -m torch.distributed.flight_recorder.fr_trace "
               << folder << "\n";
  return ExitCode::kOk;
}

ExitCode export_tensors(const ExportArguments& arguments, Terminal& terminal) {
  const Result<StateFile> state = read_state(arguments.from);
  if (!state.ok()) return bad_input(terminal, state.error().text());
  const bool as_torch = !arguments.torch.empty();
  const Result<std::string> bytes =
      as_torch ? render_torch(state.value()) : render_safetensors(state.value());
  if (!bytes.ok()) return bad_input(terminal, bytes.error().text());
  const std::string& path = as_torch ? arguments.torch : arguments.safetensors;
  const Outcome written = DiskFiles().publish(path, bytes.value());
  if (!written.ok()) return bad_input(terminal, written.error().text());
  terminal.out << path << ": " << state.value().tensors.size() << " tensors";
  const std::size_t n_values = state.value().values.size();
  if (as_torch && n_values > 0) terminal.out << "; " << n_values << " values left out";
  terminal.out << "\n";
  return ExitCode::kOk;
}

ExitCode export_run(const ExportArguments& arguments, Terminal& terminal) {
  const Result<LoadedTrace> loaded = read_jsonl(arguments.from);
  if (!loaded.ok()) return bad_input(terminal, loaded.error().text());
  if (!arguments.perfetto.empty()) {
    return write_picture(loaded.value(), arguments.perfetto, terminal);
  }
  return write_dumps(loaded.value(), arguments.flight_recorder, terminal);
}

}  // namespace

ExitCode export_trace(const ExportArguments& arguments, Terminal& terminal) {
  int n_forms = 0;
  for (const std::string* form : {&arguments.perfetto,
                                  &arguments.flight_recorder,
                                  &arguments.safetensors,
                                  &arguments.torch}) {
    n_forms += form->empty() ? 0 : 1;
  }
  if (n_forms != 1) {
    return bad_input(
        terminal,
        "lockstep export: give one of --perfetto, --flight-recorder, --safetensors and "
        "--torch");
  }
  const bool of_tensors = !arguments.safetensors.empty() || !arguments.torch.empty();
  if (std::filesystem::is_regular_file(arguments.from) != of_tensors) {
    return bad_input(terminal,
                     of_tensors
                         ? "lockstep export: --safetensors and --torch take a file of tensors"
                         : "lockstep export: --perfetto and --flight-recorder take a trace folder");
  }
  return of_tensors ? export_tensors(arguments, terminal) : export_run(arguments, terminal);
}

}  // namespace lockstep::cli
