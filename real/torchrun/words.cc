#include "lockstep/real/torchrun/words.h"

#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/real/torchrun/detail/parts.h"

namespace lockstep::torchrun {

namespace {

constexpr std::string_view kTorchrun = "torchrun";
constexpr std::string_view kLaunch = "torch.distributed.launch";

/// Words that change nothing a rank can see.
void note_without_effect(const Words& words, Reading& to) {
  const auto note = [&](const char* name, const std::string& value, const char* reason) {
    if (value.empty()) return;
    to.notices.push_back(std::string(name) + " " + value + " has no effect: " + reason);
  };
  note("--start-method", words.start_method, "ranks are new processes, not copies of the launcher");
  note("--event-log-handler", words.event_log_handler, "no events are logged");
  note("--numa-binding", words.numa_binding, "ranks run on any processor; bind them with numactl");
}

Outcome check_choice(const char* name,
                     const std::string& value,
                     std::span<const std::string_view> choices) {
  if (value.empty()) return success();
  for (const std::string_view choice : choices) {
    if (value == choice) return success();
  }
  return Error{std::string(name) + ": unknown value '" + value + "'" +
                   alternatives(value, choices, "the values are"),
               {}};
}

/// Words whose meaning needs PyTorch, or changes where output goes.
Outcome check_words(const Words& words) {
  constexpr std::array<std::string_view, 2> kLaunchers = {kTorchrun, kLaunch};
  constexpr std::array<std::string_view, 3> kMethods = {"spawn", "fork", "forkserver"};
  constexpr std::array<std::string_view, 4> kBindings = {
      "node", "socket", "exclusive", "core-complex"};
  if (Outcome as = check_choice("--as", words.as, kLaunchers); !as.ok()) return as;
  if (Outcome method = check_choice("--start-method", words.start_method, kMethods); !method.ok()) {
    return method;
  }
  if (Outcome bound = check_choice("--numa-binding", words.numa_binding, kBindings); !bound.ok()) {
    return bound;
  }
  if (!words.logs_specs.empty()) {
    return Error{"--logs-specs " + words.logs_specs +
                     ": an entry point of Python, which this launcher cannot load; use --log-dir, "
                     "--redirects and --tee",
                 {}};
  }
  if (!words.print_completion.empty()) {
    return Error{"--print-completion: there is no completion script for this command", {}};
  }
  return success();
}

/// "a,b,,c" is "a" and "b,c".
std::vector<std::string> parse_texts(std::string_view text) {
  std::vector<std::string> texts;
  if (text.empty()) return texts;
  texts.emplace_back();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool doubled = text[i] == ',' && i + 1 < text.size() && text[i + 1] == ',';
    if (text[i] != ',' || doubled) texts.back() += text[i];
    if (text[i] == ',' && !doubled) texts.emplace_back();
    if (doubled) ++i;
  }
  return texts;
}

Outcome read_output(const Words& words, const launch::Lookup& inherited, Reading& to) {
  launch::LaunchOptions& options = to.options;
  options.log_dir = words.log_dir;
  for (const auto& [text, choice] :
       {std::pair{&words.redirects, &options.redirects}, std::pair{&words.tee, &options.tee}}) {
    const Result<launch::StreamChoice> parsed = launch::parse_streams(*text);
    if (!parsed.ok()) return parsed.error();
    *choice = parsed.value();
  }
  options.duplicates = {parse_texts(words.duplicate_stdout_filters),
                        parse_texts(words.duplicate_stderr_filters)};
  const std::string prefix = words.log_line_prefix_template.empty()
                                 ? inherited("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE").value_or("")
                                 : words.log_line_prefix_template;
  if (!prefix.empty()) options.prefix = prefix;
  if (words.local_ranks_filter.empty()) return success();
  options.shown.emplace();
  for (const std::string_view word : split(words.local_ranks_filter, ',')) {
    const std::optional<std::int64_t> rank = parse_int(trim(word));
    if (!rank || *rank < 0 || *rank > INT32_MAX) {
      return Error{"--local-ranks-filter " + words.local_ranks_filter +
                       ": it is a list of local ranks, such as 0,2",
                   {}};
    }
    options.shown->insert(static_cast<std::int32_t>(*rank));
  }
  return success();
}

}  // namespace

Result<Reading> read_words(const Words& words,
                           const Program& program,
                           const launch::Lookup& inherited) {
  Reading reading;
  if (Outcome checked = check_words(words); !checked.ok()) return checked.error();
  if (Outcome ranks = read_ranks(words, inherited, reading); !ranks.ok()) return ranks.error();
  if (Outcome place = read_place(words, reading); !place.ok()) return place.error();
  if (Outcome output = read_output(words, inherited, reading); !output.ok()) return output.error();
  if (Outcome own = read_program(words, program, inherited, reading); !own.ok()) return own.error();
  launch::LaunchOptions& options = reading.options;
  options.max_restarts = words.max_restarts;
  options.role = words.role;
  options.signals = words.signals_to_handle;
  note_without_effect(words, reading);
  return reading;
}

}  // namespace lockstep::torchrun
