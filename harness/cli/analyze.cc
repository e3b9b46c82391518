// `lockstep analyze`: how much of a job's result is a matter of the order of additions.
#include <algorithm>
#include <cmath>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/settings.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/run/order_spread.h"

namespace lockstep::cli {
namespace {

std::string ulps_text(const Spread& spread) {
  return spread.ulps == Spread::kNotANumber ? "nan" : std::to_string(spread.ulps);
}

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::string space(width > text.size() ? width - text.size() : 0, ' ');
  return to_the_right ? space + text : text + space;
}

void write_row(const std::vector<std::string>& cells, std::size_t first, Terminal& terminal) {
  terminal.out << "  " << padded(cells.front(), first, false);
  for (std::size_t i = 1; i < cells.size(); ++i) terminal.out << " " << padded(cells[i], 11, true);
  terminal.out << "\n";
}

void write_tensors(const OrderSpread& spread, bool gradients, Terminal& terminal) {
  std::size_t width = 12;
  const TensorSpread* any = nullptr;
  for (const TensorSpread& tensor : spread.tensors) {
    width = std::max(width, tensor.name.size() + 2);
    if (tensor.is_gradient == gradients) any = &tensor;
  }
  if (any == nullptr) return;
  terminal.out << (gradients ? "gradients that step " : "parameters after step ") << any->step
               << (gradients ? " used:\n" : ":\n");
  write_row({"", "orders", "buckets", "worlds", "all", "scaled"}, width, terminal);
  for (const TensorSpread& tensor : spread.tensors) {
    if (tensor.is_gradient != gradients) continue;
    std::vector<std::string> cells = {tensor.name};
    for (const Spread& axis : tensor.by_axis) cells.push_back(ulps_text(axis));
    cells.push_back(ulps_text(tensor.all));
    cells.push_back(exact(std::round(tensor.all.scaled * 100) / 100));
    write_row(cells, width, terminal);
  }
}

void write_text(const OrderSpread& spread, Terminal& terminal) {
  terminal.out << spread.title << ": spread in units in the last place, relative to " << spread.base
               << "\n";
  for (std::size_t axis = 0; axis < kSpreadAxes; ++axis) {
    std::vector<std::string> names;
    for (const SpreadRun& run : spread.runs) {
      if (run.axis == static_cast<SpreadAxis>(axis) && run.left_out.empty()) {
        names.push_back(run.name);
      }
    }
    const std::string list = names.empty() ? "none" : join(names, "; ");
    terminal.out << "  " << padded(std::string(name_of(static_cast<SpreadAxis>(axis))), 9, false)
                 << list << "\n";
  }
  for (const SpreadRun& run : spread.runs) {
    if (!run.left_out.empty()) {
      terminal.out << "  left out: " << run.name << " (" << run.left_out << ")\n";
    }
  }
  write_tensors(spread, true, terminal);
  write_tensors(spread, false, terminal);
}

void write_spread(JsonText& out, std::string_view key, const Spread& spread) {
  out.key(key).open_object();
  if (spread.ulps == Spread::kNotANumber) {
    out.key("ulps").null();
  } else {
    out.key("ulps").integer(static_cast<std::int64_t>(spread.ulps));
  }
  out.key("element").integer(spread.element);
  out.key("low").real(spread.low);
  out.key("high").real(spread.high);
  out.key("scaled").real(spread.scaled).close_object();
}

std::string spread_json(const OrderSpread& spread) {
  JsonText out;
  out.open_object().key("lockstep_spread").integer(1);
  out.key("title").text(spread.title).key("base").text(spread.base);
  out.key("runs").open_array();
  for (const SpreadRun& run : spread.runs) {
    out.open_object().key("axis").text(name_of(run.axis)).key("name").text(run.name);
    out.key("left_out").text(run.left_out).close_object();
  }
  out.close_array().key("tensors").open_array();
  for (const TensorSpread& tensor : spread.tensors) {
    out.open_object().key("tensor").text(tensor.name);
    out.key("kind").text(tensor.is_gradient ? "gradient" : "parameter");
    out.key("step").integer(tensor.step);
    for (std::size_t axis = 0; axis < kSpreadAxes; ++axis) {
      write_spread(out, name_of(static_cast<SpreadAxis>(axis)), tensor.by_axis[axis]);
    }
    write_spread(out, "all", tensor.all);
    out.close_object();
  }
  out.close_array().close_object();
  return out.str() + "\n";
}

}  // namespace

ExitCode analyze(const AnalyzeArguments& arguments, Terminal& terminal) {
  if (!arguments.file.ends_with(".toml")) {
    return bad_input(terminal,
                     "lockstep analyze: takes a scenario (FILE.toml), not '" + arguments.file +
                         "'; dumps of the Flight Recorder are not supported yet");
  }
  const Result<std::vector<Setting>> settings = parse_settings(arguments.settings);
  if (!settings.ok()) return bad_input(terminal, settings.error().text());
  const Outcome others = check_other_variants(arguments.file, arguments.variant);
  if (!others.ok()) return bad_input(terminal, others.error().text());
  const Result<OrderSpread> spread =
      order_spread(arguments.file, arguments.variant, settings.value());
  if (!spread.ok()) return bad_input(terminal, spread.error().text());
  if (arguments.json) {
    terminal.out << spread_json(spread.value());
  } else {
    write_text(spread.value(), terminal);
  }
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
