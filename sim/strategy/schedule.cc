#include "lockstep/sim/strategy/schedule.h"

#include <array>
#include <charconv>
#include <optional>

#include "lockstep/base/text.h"

namespace lockstep::sim {

namespace {

constexpr std::string_view kLetters = "rtdmf";  // By ActionKind.
constexpr std::uint64_t kNumber = (std::uint64_t{1} << 60U) - 1;

std::string digits(std::uint64_t number, int base) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), number, base);
  return {text.data(), end.ptr};
}

std::optional<std::uint64_t> parse_digits(std::string_view text, int base) {
  std::uint64_t number = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number, base);
  const bool whole = end.ec == std::errc() && end.ptr == text.data() + text.size();
  // What to_chars would not have written (leading zeros, capitals) is not a schedule.
  if (!whole || digits(number, base) != text) return std::nullopt;
  return number;
}

std::string text_of(ActionId id) {
  const auto number = static_cast<std::uint64_t>(id);
  const std::size_t kind = number >> 60U;
  if (kind == 0) return digits(number, 10);
  return kLetters[kind] + digits(number & kNumber, 36);
}

std::optional<ActionId> parse_action(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const std::size_t kind = kLetters.find(text.front());
  const bool is_rank = kind == std::string_view::npos;
  const auto number = is_rank ? parse_digits(text, 10) : parse_digits(text.substr(1), 36);
  if (!number || *number > kNumber || kind == 0) return std::nullopt;
  if (is_rank) return static_cast<ActionId>(*number);
  return action_id(static_cast<ActionKind>(kind), *number);
}

bool is_rank(ActionId id) { return static_cast<std::uint64_t>(id) <= kNumber; }

std::optional<Deviation> parse_deviation(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const std::string_view place = text.substr(0, equals);
  const std::size_t dash = place.find('-');
  const auto expected = parse_action(place.substr(0, dash));
  const auto picked = parse_action(text.substr(equals + 1));
  if (!expected || !picked || is_rank(*expected) != (dash != std::string_view::npos)) {
    return std::nullopt;
  }
  if (!is_rank(*expected)) return Deviation{*expected, 0, *picked};
  const auto op = parse_digits(place.substr(dash + 1), 10);
  if (!op) return std::nullopt;
  return Deviation{*expected, *op, *picked};
}

Error no_schedule(std::string_view part, std::size_t column, const char* what) {
  return {"'" + std::string(part) + "' is not " + what,
          "schedule, column " + std::to_string(column)};
}

}  // namespace

std::string encode_schedule(const Schedule& schedule) {
  std::string text;
  for (const Deviation& deviation : schedule.deviations) {
    text += text.empty() ? "@" : ",";
    text += text_of(deviation.expected);
    if (is_rank(deviation.expected)) text += '-' + digits(deviation.op, 10);
    text += '=' + text_of(deviation.picked);
  }
  if (text.empty()) text = "@";
  if (!schedule.then.empty()) text += '/' + digits(schedule.n_picks, 10) + '/' + schedule.then;
  return text;
}

Result<Schedule> decode_schedule(std::string_view text) {
  if (text.empty() || text.front() != '@') return no_schedule(text, 1, "a schedule: no '@'");
  Schedule schedule;
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view tail = text.substr(slash + 1);
    const std::size_t second = tail.find('/');
    const auto n_picks = parse_digits(tail.substr(0, second), 10);
    if (!n_picks || second == std::string_view::npos || second + 1 == tail.size()) {
      return no_schedule(tail, slash + 2, "a number of picks and a strategy");
    }
    schedule.n_picks = *n_picks;
    schedule.then = tail.substr(second + 1);
  }
  const std::string_view list = text.substr(1, slash == std::string_view::npos ? slash : slash - 1);
  if (list.empty()) return schedule;
  std::size_t column = 2;
  for (const std::string_view part : split(list, ',')) {
    const auto deviation = parse_deviation(part);
    if (!deviation) return no_schedule(part, column, "a deviation such as 0-5=1 or t3=2");
    schedule.deviations.push_back(*deviation);
    column += part.size() + 1;
  }
  return schedule;
}

}  // namespace lockstep::sim
