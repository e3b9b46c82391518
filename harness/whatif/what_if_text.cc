#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "lockstep/formats/json_text.h"
#include "lockstep/harness/whatif/what_if.h"

namespace lockstep {

namespace {

constexpr std::size_t kBarWidth = 30;

/// '#' for what is computed, '~' for exposed communication; the longest step fills the width.
std::string bar_of(const RunTimes& times, std::int64_t longest) {
  const auto part = [&](std::int64_t ns) {
    return static_cast<std::size_t>(std::llround(
        static_cast<double>(kBarWidth) * static_cast<double>(ns) / static_cast<double>(longest)));
  };
  const std::size_t whole = part(times.step.median);
  const std::size_t exposed = std::min(whole, part(times.exposed.median));
  return std::string(whole - exposed, '#') + std::string(exposed, '~');
}

std::string values_text(const std::vector<Setting>& settings) {
  std::string text;
  for (const Setting& setting : settings) {
    text += (text.empty() ? "" : "  ") + setting.key + "=" + setting.value;
  }
  return text;
}

void write_settings(JsonText& out, const std::vector<Setting>& settings) {
  out.open_object();
  for (const Setting& setting : settings) out.key(setting.key).text(setting.value);
  out.close_object();
}

}  // namespace

std::string answer_text(const Answer& answer) {
  std::int64_t longest = 1;
  std::size_t width = 0;
  for (const Setup& setup : answer.setups) {
    longest = std::max(longest, setup.times.step.median);
    width = std::max(width, values_text(setup.settings).size());
  }
  std::string text = fmt::format("{}\nA step under {} settings, median of ranks and steps:\n",
                                 answer.title,
                                 answer.setups.size());
  text += fmt::format("  {:{}}  {:>10}  {:>10}  {:>7}  # computing, ~ waiting\n",
                      "",
                      width,
                      "step",
                      "exposed",
                      "hidden");
  for (std::size_t i = 0; i < answer.setups.size(); ++i) {
    const Setup& setup = answer.setups[i];
    text += fmt::format("{} {:{}}  {:>10}  {:>10}  {:>5.0f} %  {}\n",
                        i == answer.best ? '>' : ' ',
                        values_text(setup.settings),
                        width,
                        duration_text(setup.times.step.median),
                        duration_text(setup.times.exposed.median),
                        100.0 * setup.times.hidden,
                        bar_of(setup.times, longest));
  }
  const Setup& best = answer.setups[answer.best];
  text += fmt::format(
      "Best: {}: {} per step", values_text(best.settings), duration_text(best.times.step.median));
  if (longest > best.times.step.median) {
    text += fmt::format(", {:.3g} x faster than the slowest",
                        static_cast<double>(longest) /
                            static_cast<double>(std::max<std::int64_t>(1, best.times.step.median)));
  }
  text += "\nRests on:\n";
  for (const std::string& each : answer.rests_on) text += "  " + each + "\n";
  return text;
}

void write_answer(JsonText& out, const Answer& answer) {
  out.open_object().key("lockstep_whatif").integer(1).key("title").text(answer.title);
  out.key("setups").open_array();
  for (const Setup& setup : answer.setups) {
    out.open_object().key("settings");
    write_settings(out, setup.settings);
    out.key("times");
    write_times(out, setup.times);
    out.close_object();
  }
  out.close_array().key("best").integer(static_cast<std::int64_t>(answer.best));
  out.key("link");
  if (answer.link) {
    out.open_object().key("latency_ns").integer(answer.link->latency_ns);
    out.key("gb_per_s").real(answer.link->gb_per_s);
    out.key("measured").integer(static_cast<std::int64_t>(answer.link->n_measured));
    out.key("worst").real(answer.link->worst).close_object();
  } else {
    out.null();
  }
  out.key("gflops");
  if (answer.compute) {
    out.real(answer.compute->gflops).key("contention").real(answer.compute->contention);
  } else {
    out.null().key("contention").null();
  }
  out.key("rests_on").open_array();
  for (const std::string& each : answer.rests_on) out.text(each);
  out.close_array().close_object();
}

}  // namespace lockstep
