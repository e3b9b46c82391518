// Strategies by name.
#include <charconv>
#include <optional>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/sim/strategy/detail/plain_strategy.h"
#include "lockstep/sim/strategy/strategies.h"
#include "lockstep/sim/strategy/strategy_kind.h"
#include "lockstep/sim/strategy/uniform.h"

namespace lockstep::sim {

namespace {

/// The settings of a name, and which of them were asked for.
class Settings {
 public:
  explicit Settings(std::string_view text) {
    if (text.empty()) return;
    for (const std::string_view part : split(text, ',')) {
      const std::size_t equals = part.find('=');
      entries_.push_back({part.substr(0, equals),
                          equals == std::string_view::npos ? "" : part.substr(equals + 1)});
    }
  }

  std::uint64_t number(std::string_view key, std::uint64_t fallback, std::uint64_t min) {
    known_.push_back(key);
    for (Entry& entry : entries_) {
      if (entry.key != key) continue;
      entry.known = true;
      std::uint64_t value = 0;
      const char* end = entry.value.data() + entry.value.size();
      const auto read = std::from_chars(entry.value.data(), end, value);
      if (read.ec == std::errc() && read.ptr == end && value >= min) return value;
      problem_ = "'" + std::string(key) + "' is a whole number from " + std::to_string(min) +
                 ", not '" + std::string(entry.value) + "'";
    }
    return fallback;
  }

  /// The value of a setting, absent: not given.
  std::optional<std::string_view> text(std::string_view key) {
    known_.push_back(key);
    std::optional<std::string_view> found;
    for (Entry& entry : entries_) {
      if (entry.key != key) continue;
      entry.known = true;
      found = entry.value;
    }
    return found;
  }

  void complain(std::string problem) { problem_ = std::move(problem); }

  /// What is wrong, after every setting was read.
  std::optional<std::string> problem() const {
    for (const Entry& entry : entries_) {
      if (entry.known) continue;
      return "unknown setting '" + std::string(entry.key) + "'" + did_you_mean(entry.key, known_);
    }
    return problem_;
  }

 private:
  struct Entry {
    std::string_view key;
    std::string_view value;
    bool known = false;
  };

  std::vector<Entry> entries_;
  std::vector<std::string_view> known_;
  std::optional<std::string> problem_;
};

std::unique_ptr<Strategy> make_seeded_pct(Settings& settings, std::uint64_t seed) {
  PctOptions pct;
  pct.depth = static_cast<std::int32_t>(settings.number("depth", 3, 1) & 0xffffU);
  pct.steps = settings.number("steps", pct.steps, 1);
  pct.seed = settings.number("seed", seed, 0);
  return make_pct(pct);
}

std::unique_ptr<Strategy> make_seeded_uniform(Settings& settings, std::uint64_t seed) {
  UniformOptions uniform;
  uniform.seed = settings.number("seed", seed, 0);
  const std::optional<std::string_view> text = settings.text("lengths");
  if (!text) {
    settings.complain(
        "how long each rank is must be known ('lengths'): explore with it, which counts in a first "
        "run");
    return make_uniform(uniform);
  }
  Result<RankLengths> lengths = decode_lengths(*text);
  if (lengths.ok()) {
    uniform.lengths = std::move(lengths).value();
  } else {
    settings.complain(lengths.error().text());
  }
  return make_uniform(uniform);
}

/// Null: a kind that is more than one strategy.
std::unique_ptr<Strategy> make_of_kind(StrategyKind kind, Settings& settings, std::uint64_t seed) {
  switch (kind) {
    case StrategyKind::kRoundRobin:
      return make_round_robin();
    case StrategyKind::kRunToBlock:
      return make_run_to_block();
    case StrategyKind::kRandom:
      return make_random(settings.number("seed", seed, 0));
    case StrategyKind::kPct:
      return make_seeded_pct(settings, seed);
    case StrategyKind::kUniform:
      return make_seeded_uniform(settings, seed);
    case StrategyKind::kExhaustive:
      break;
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<Strategy>> make_plain_strategy(std::string_view name, std::uint64_t seed) {
  const std::size_t colon = name.find(':');
  const std::string_view word = name.substr(0, colon);
  Settings settings(colon == std::string_view::npos ? "" : name.substr(colon + 1));
  const std::optional<StrategyKind> kind = parse_enum<StrategyKind>(word);
  if (!kind) {
    return Error{"unknown strategy '" + std::string(word) + "'" +
                     did_you_mean(word, kEnumNames<StrategyKind>),
                 ""};
  }
  std::unique_ptr<Strategy> strategy = make_of_kind(*kind, settings, seed);
  if (strategy == nullptr) {
    return Error{
        "'" + std::string(word) + "' makes many schedules, and a run is one: explore with it", ""};
  }
  if (const auto problem = settings.problem()) {
    return Error{"strategy '" + std::string(word) + "': " + *problem, ""};
  }
  return strategy;
}

Result<std::unique_ptr<Strategy>> make_strategy(std::string_view name, std::uint64_t seed) {
  if (name.empty() || name.front() != '@') return make_plain_strategy(name, seed);
  const Result<Schedule> schedule = decode_schedule(name);
  if (!schedule.ok()) return schedule.error();
  auto replay = make_replay(schedule.value());
  if (!replay.ok()) return replay.error();
  return std::unique_ptr<Strategy>(std::move(replay).value());
}

}  // namespace lockstep::sim
