// Schedules as text, and strategies by name.
#include <array>
#include <charconv>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/sim/strategy/strategies.h"

namespace lockstep::sim {

namespace {

constexpr int kBase = 36;

struct Run {
  std::uint64_t first = 0;
  std::uint64_t step = 0;  // Modulo 2^64: a descending run steps by a "negative" number.
  std::uint64_t length = 1;
};

std::string base36(std::uint64_t number) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, kBase);
  return {digits.data(), end.ptr};
}

std::optional<std::uint64_t> parse_base36(std::string_view text) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, kBase);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

void append(std::string& text, const Run& run) {
  if (!text.empty()) text += '.';
  text += base36(run.first);
  if (run.length == 1) return;
  const bool down = run.step >> 63U != 0;
  text += (down ? '-' : '+') + base36(down ? 0 - run.step : run.step) + '*' + base36(run.length);
}

std::optional<Run> parse_run(std::string_view text) {
  const std::size_t sign = text.find_first_of("+-");
  Run run;
  const auto first = parse_base36(text.substr(0, sign));
  if (!first) return std::nullopt;
  run.first = *first;
  if (sign == std::string_view::npos) return run;
  const std::size_t star = text.find('*', sign);
  if (star == std::string_view::npos) return std::nullopt;
  const auto step = parse_base36(text.substr(sign + 1, star - sign - 1));
  const auto length = parse_base36(text.substr(star + 1));
  if (!step || !length || *length < 2) return std::nullopt;
  run.step = text[sign] == '-' ? 0 - *step : *step;
  run.length = *length;
  return run;
}

}  // namespace

std::string encode_schedule(std::span<const ActionId> picks) {
  std::string text;
  for (std::size_t i = 0; i < picks.size();) {
    Run run{static_cast<std::uint64_t>(picks[i])};
    std::uint64_t last = run.first;
    for (++i; i < picks.size(); ++i) {
      const auto id = static_cast<std::uint64_t>(picks[i]);
      if (run.length == 1) run.step = id - last;
      if (id - last != run.step) break;
      last = id;
      ++run.length;
    }
    append(text, run);
  }
  return text;
}

Result<std::vector<ActionId>> decode_schedule(std::string_view text) {
  constexpr std::uint64_t kMaxPicks = std::uint64_t{1} << 28U;
  std::vector<ActionId> picks;
  if (text.empty()) return picks;
  std::size_t column = 1;
  for (const std::string_view part : split(text, '.')) {
    const std::optional<Run> run = parse_run(part);
    if (!run || picks.size() + run->length > kMaxPicks) {
      return Error{"'" + std::string(part) + "' is not a run of picks",
                   "schedule, column " + std::to_string(column)};
    }
    for (std::uint64_t k = 0; k < run->length; ++k) {
      picks.push_back(static_cast<ActionId>(run->first + k * run->step));
    }
    column += part.size() + 1;
  }
  return picks;
}

Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed) {
  constexpr std::array<std::string_view, 3> kNames = {"round-robin", "run-to-block", "random"};
  if (name == kNames[0]) return make_round_robin();
  if (name == kNames[1]) return make_run_to_block();
  if (name == kNames[2]) return make_random(seed);
  return Error{"unknown strategy '" + std::string(name) + "'" + did_you_mean(name, kNames), ""};
}

}  // namespace lockstep::sim
