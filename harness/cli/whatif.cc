// `lockstep whatif`: what a step of a job would cost under other settings.
#include <filesystem>
#include <system_error>
#include <utility>

#include "lockstep/base/disk_files.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/progress_line.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/whatif/nccl_tests_output.h"
#include "lockstep/harness/whatif/what_if.h"

namespace lockstep::cli {
namespace {

/// Adds the collectives and the computing of a recorded run. Collectives need one clock; computing
/// does not.
Outcome add_trace(const std::string& folder, Question& question) {
  const Result<LoadedTrace> loaded = read_jsonl(folder);
  if (!loaded.ok()) return loaded.error();
  const TraceHeader& header = loaded.value().header;
  const RunClock clock = header.backend == "sim" ? RunClock::kVirtual
                         : header.clock.empty()  ? RunClock::kSeparate
                                                 : RunClock::kShared;
  const std::optional<RunTimes> times = run_times(*loaded.value().trace, clock);
  if (!times) return Error{"no times of optimizer steps in this trace", folder};
  question.steps = times;
  for (const StepCalls& step : times->step_calls) {
    question.measured.push_back(
        {.calls = step.calls, .took_ns = static_cast<double>(step.busy_ns)});
  }
  return success();
}

Outcome add_measurements(const std::string& path, Question& question) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return add_trace(path, question);
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  Result<std::vector<MeasuredCalls>> calls = read_nccl_tests(text.value(), path);
  if (!calls.ok()) return calls.error();
  question.measured.insert(question.measured.end(), calls.value().begin(), calls.value().end());
  return success();
}

Result<Question> question_of(const WhatIfArguments& arguments) {
  Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return settings.error();
  Question question{.file = arguments.file,
                    .variant = arguments.variant,
                    .settings = std::move(settings).value(),
                    .sweep = {},
                    .measured = {},
                    .steps = {}};
  for (const std::string& text : arguments.sweep) {
    Result<SweptKey> swept = parse_swept(text);
    if (!swept.ok()) return swept.error();
    question.sweep.push_back(std::move(swept).value());
  }
  for (const std::string& path : arguments.calibrate) {
    const Outcome added = add_measurements(path, question);
    if (!added.ok()) return added.error();
  }
  return question;
}

}  // namespace

ExitCode whatif(const WhatIfArguments& arguments, Terminal& terminal) {
  const Result<Question> question = question_of(arguments);
  if (!question.ok()) return bad_input(terminal, question.error().text());
  ProgressLine progress(terminal);
  const Result<Answer> answer = what_if(question.value(), [&](std::size_t done, std::size_t of) {
    progress.count(done, of, "settings");
  });
  progress.clear();
  if (!answer.ok()) return bad_input(terminal, answer.error().text());
  if (arguments.json) {
    JsonText out;
    write_answer(out, answer.value());
    terminal.out << out.str() << "\n";
  } else {
    terminal.out << answer_text(answer.value());
  }
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
