#include "lockstep/harness/explore/shrink/shrinker.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/run/repeat_laws.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::explore {
namespace {

std::uint64_t digest_of(const TomlNode& document) {
  const std::string text = render_toml(document);
  return sm64(text.data(), static_cast<std::int64_t>(text.size()), DType::kU8);
}

/// What the file says of itself, not of the run.
void strip(TomlNode& document) {
  for (const char* key : {"title", "origin", "expect"}) drop(document, key);
  const TomlNode* folder = find_at(document, "replay.folder");
  const std::string text = folder == nullptr ? "" : folder->text;
  drop(document, "replay");
  if (!text.empty()) put(document, "replay.folder", text_node(text));
}

/// Laws that need extra runs are checked only if a scenario names them.
void name_laws(TomlNode& document, const Scenario& scenario) {
  TomlNode list;
  list.kind = TomlNode::Kind::kArray;
  for (const LawId law : kRepeatLaws) {
    if (names_law(scenario, law)) list.items.push_back(text_node(std::string(name_of(law))));
  }
  if (!list.items.empty()) put(document, "expect.quiet", std::move(list));
}

bool follows_schedule(const TomlNode& document) {
  const TomlNode* strategy = find_at(document, "sim.strategy");
  return strategy != nullptr && strategy->text.starts_with('@');
}

}  // namespace

Outcome Shrinker::start(const TomlNode& document, const std::string& schedule) {
  const Result<Scenario> scenario = scenario_of(document, runner_->path());
  if (!scenario.ok()) return scenario.error();
  best_ = copy_of(document);
  strip(best_);
  name_laws(best_, scenario.value());
  const Result<Trial> first = runner_->run(best_, {.strategy = schedule});
  if (!first.ok()) return first.error();
  if (!first.value().failure) return Error{"this run does not fail", runner_->path()};
  trial_ = first.value();
  wanted_ = trial_.failure;
  const std::optional<LawId> law = parse_enum<LawId>(wanted_->law);
  const bool repeats =
      law && std::find(kRepeatLaws.begin(), kRepeatLaws.end(), *law) != kRepeatLaws.end();
  if (!repeats) drop(best_, "expect");
  start_schedule(schedule);
  bound_livelock();
  return success();
}

/// The file's own strategy and seed give way to the default, or to what was picked in fact.
void Shrinker::start_schedule(const std::string& schedule) {
  TomlNode plain = copy_of(best_);
  drop(plain, "sim.strategy");
  drop(plain, "sim.schedule_seed");
  if (auto trial = failing(plain)) {
    adopt(std::move(plain), std::move(*trial));
    return;
  }
  put(plain, "sim.strategy", text_node(trial_.schedule));
  if (auto trial = failing(plain)) {
    adopt(std::move(plain), std::move(*trial));
    return;
  }
  if (!schedule.empty()) put(best_, "sim.strategy", text_node(schedule));
}

/// A livelock need not spin for long to show itself.
void Shrinker::bound_livelock() {
  constexpr std::uint64_t kManyChoices = 100'000;
  constexpr std::int64_t kPoints = 10'000;
  if (trial_.n_choices > kManyChoices && wanted_->outcome == RunOutcome::kHang) {
    TomlNode bounded = copy_of(best_);
    put(bounded, "sim.livelock_points", integer_node(kPoints));
    if (auto trial = failing(bounded)) adopt(std::move(bounded), std::move(*trial));
  }
  livelock_points_ = std::max<std::uint64_t>(20'000, 4 * trial_.n_choices);
}

std::optional<Trial> Shrinker::failing(const TomlNode& document) const {
  const auto fails_under = [&](const std::string& strategy) -> std::optional<Trial> {
    auto trial =
        runner_->attempt(document, {.strategy = strategy, .livelock_points = livelock_points_});
    const bool same = trial && trial->failure && options_.same(*wanted_, *trial->failure);
    return same ? std::move(trial) : std::nullopt;
  };
  auto trial = fails_under("");
  if (!follows_schedule(document)) return trial;
  for (std::uint64_t seed = 0; seed < options_.n_schedules && !trial; ++seed) {
    trial = fails_under("random:seed=" + std::to_string(seed));
  }
  return trial;
}

bool Shrinker::offer(TomlNode candidate) {
  if (exhausted() || !tried_.insert(digest_of(candidate)).second) return false;
  ++n_tries_;
  auto trial = failing(candidate);
  if (!trial || !(trial->cost < trial_.cost)) return false;
  adopt(std::move(candidate), std::move(*trial));
  return true;
}

void Shrinker::adopt(TomlNode document, Trial trial) {
  best_ = std::move(document);
  trial_ = std::move(trial);
  if (follows_schedule(best_)) put(best_, "sim.strategy", text_node(trial_.schedule));
}

std::vector<std::size_t> minimize(
    std::size_t n, const std::function<bool(const std::vector<std::size_t>&)>& holds) {
  std::vector<std::size_t> kept(n);
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  for (std::size_t chunk = std::max<std::size_t>(n / 2, 1); chunk > 0; chunk /= 2) {
    std::size_t begin = 0;
    while (begin < kept.size()) {
      const std::size_t end = std::min(begin + chunk, kept.size());
      std::vector<std::size_t> fewer(kept.begin(),
                                     kept.begin() + static_cast<std::ptrdiff_t>(begin));
      fewer.insert(fewer.end(), kept.begin() + static_cast<std::ptrdiff_t>(end), kept.end());
      if (holds(fewer)) {
        kept = std::move(fewer);
      } else {
        begin = end;
      }
    }
  }
  return kept;
}

}  // namespace lockstep::explore
