// `lockstep diff`: where two traces, or two files of tensors, begin to differ, and by how much.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/compare/first_difference.h"
#include "lockstep/compare/state_difference.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/rounding/result_file.h"

namespace lockstep::cli {
namespace {

/// Tensors that differ are listed up to this many; `--json` lists all.
constexpr std::size_t kShownTensors = 20;

/// A distance, or null: of tensors that cannot be compared element by element.
void write_distance(JsonText& out, const std::optional<TensorDistance>& distance) {
  out.key("distance");
  if (!distance) {
    out.null();
    return;
  }
  out.open_object().key("elements").integer(distance->n_elements);
  out.key("different").integer(distance->n_different);
  out.key("beside_nan").integer(distance->n_beside_nan).key("first").integer(distance->first);
  out.key("largest");
  distance->largest ? out.real(*distance->largest) : out.null();
  out.key("largest_at").integer(distance->largest_at).key("ulps");
  // The numbers of f64 from one end to the other are more than 2^63.
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  distance->ulps ? out.integer(static_cast<std::int64_t>(std::min(*distance->ulps, kMost)))
                 : out.null();
  out.key("ulps_at").integer(distance->ulps_at).key("ulps_of");
  distance->ulps ? out.text(name_of(distance->ulps_of)) : out.null();
  out.close_object();
}

std::string state_json(std::span<const TensorDifference> differences, std::size_t n_tensors) {
  JsonText out;
  out.open_object().key("lockstep_diff").integer(1).key("equal").flag(differences.empty());
  out.key("compared").integer(static_cast<std::int64_t>(n_tensors)).key("tensors").open_array();
  for (const TensorDifference& each : differences) {
    out.open_object().key("tensor").text(each.tensor).key("text").text(each.text);
    write_distance(out, each.distance);
    out.close_object();
  }
  out.close_array().close_object();
  return out.str() + "\n";
}

std::string state_text(std::span<const TensorDifference> differences) {
  std::string text = "first difference: " + differences.front().text;
  if (differences.size() > 1) {
    text += "; " + std::to_string(differences.size()) + " tensors differ";
  }
  text += "\n";
  const std::size_t n_shown = std::min(differences.size(), kShownTensors);
  for (std::size_t i = 1; i < n_shown; ++i) text += "  " + differences[i].text + "\n";
  if (n_shown < differences.size()) {
    text += "  and " + std::to_string(differences.size() - n_shown) + " more (--json lists all)\n";
  }
  return text;
}

ExitCode diff_states(const DiffArguments& arguments, Terminal& terminal) {
  const Result<std::vector<StoredTensor>> left = read_results(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<std::vector<StoredTensor>> right = read_results(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  const auto differences = state_differences(left.value(), right.value());
  if (arguments.json) {
    terminal.out << state_json(differences, left.value().size());
  } else if (differences.empty()) {
    terminal.out << "equal: " << left.value().size() << " tensors\n";
  } else {
    terminal.out << state_text(differences);
  }
  return differences.empty() ? ExitCode::kOk : ExitCode::kFindings;
}

void write_place(JsonText& out, const Difference& difference) {
  out.key("at").open_object().key("attempt").integer(difference.at.attempt);
  out.key("wrapper").integer(difference.at.wrapper).key("sync").integer(difference.at.sync);
  out.key("step").integer(difference.at.opt).key("epoch").integer(difference.at.epoch);
  out.close_object().key("rank").integer(to_int(difference.rank));
}

std::string trace_json(const std::optional<Difference>& difference, std::size_t n_events) {
  JsonText out;
  out.open_object().key("lockstep_diff").integer(1).key("equal").flag(!difference);
  out.key("compared").integer(static_cast<std::int64_t>(n_events)).key("first");
  if (!difference) {
    out.null().close_object();
    return out.str() + "\n";
  }
  out.open_object();
  write_place(out, *difference);
  out.key("event").text(difference->event).key("tensor").text(difference->tensor);
  const bool measured = difference->distance.has_value();
  write_distance(out, measured ? difference->distance->values : std::nullopt);
  out.key("least_sum");
  measured && difference->distance->least_sum ? out.real(*difference->distance->least_sum)
                                              : out.null();
  out.key("text").text(difference->text).close_object().close_object();
  return out.str() + "\n";
}

std::size_t n_events_of(const MemoryTrace& trace) {
  std::size_t n_events = 0;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    n_events += trace.events(static_cast<Rank>(r)).size();
  }
  return n_events;
}

}  // namespace

ExitCode diff(const DiffArguments& arguments, Terminal& terminal) {
  const bool left_is_file = std::filesystem::is_regular_file(arguments.left);
  const bool right_is_file = std::filesystem::is_regular_file(arguments.right);
  if (left_is_file && right_is_file) return diff_states(arguments, terminal);
  if (left_is_file || right_is_file) {
    return bad_input(
        terminal,
        "lockstep diff: compares two trace folders or two files of tensors, not one of "
        "each");
  }
  const Result<LoadedTrace> left = read_jsonl(arguments.left);
  if (!left.ok()) return bad_input(terminal, left.error().text());
  const Result<LoadedTrace> right = read_jsonl(arguments.right);
  if (!right.ok()) return bad_input(terminal, right.error().text());
  const MemoryTrace& trace = *left.value().trace;
  const auto difference = first_difference(trace, *right.value().trace, Timing::kIgnored);
  if (arguments.json) {
    terminal.out << trace_json(difference, n_events_of(trace));
  } else if (difference) {
    terminal.out << "first difference: " << difference->text << "\n";
  } else {
    terminal.out << "equal: " << n_events_of(trace) << " events on " << trace.n_ranks()
                 << " ranks\n";
  }
  return difference ? ExitCode::kFindings : ExitCode::kOk;
}

}  // namespace lockstep::cli
