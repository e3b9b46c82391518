#include "lockstep/harness/explore/shrink/shrink.h"

#include <array>
#include <utility>

#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/shrink/passes.h"
#include "lockstep/harness/format/load.h"

namespace lockstep::explore {
namespace {

void make_smaller(Shrinker& shrinker) {
  constexpr int kRounds = 8;
  constexpr std::array kPasses = {shrink_schedule,
                                  shrink_steps,
                                  shrink_world,
                                  shrink_job,
                                  drop_keys,
                                  shrink_lists,
                                  shrink_integers};
  for (int round = 0; round < kRounds && !shrinker.exhausted(); ++round) {
    const Cost before = shrinker.trial().cost;
    for (const auto& pass : kPasses) pass(shrinker);
    if (shrinker.trial().cost == before) return;
  }
}

/// The expectation that the small scenario meets as long as the failure is there: its own words,
/// and any other laws that fired after it.
TomlNode expectation_of(const Failure& failure, const std::vector<std::string>& laws) {
  TomlNode expect;
  put(expect, "outcome", text_node(std::string(name_of(failure.outcome))));
  if (failure.law.empty()) return expect;
  TomlNode finding;
  put(finding, "law", text_node(failure.law));
  if (failure.cause != Cause::kNone) {
    put(finding, "cause", text_node(std::string(id_of(failure.cause))));
  }
  if (!failure.field.empty()) put(finding, "field", text_node(failure.field));
  TomlNode fires;
  fires.kind = TomlNode::Kind::kArray;
  fires.items.push_back(std::move(finding));
  for (const std::string& law : laws) {
    if (law == failure.law) continue;
    TomlNode other;
    put(other, "law", text_node(law));
    fires.items.push_back(std::move(other));
  }
  put(expect, "fires", std::move(fires));
  return expect;
}

}  // namespace

Result<Shrunk> shrink(const TrialRunner& runner,
                      const TomlNode& document,
                      const std::string& schedule,
                      const ShrinkOptions& options) {
  Shrinker shrinker(runner, options);
  Result<Trial> before = runner.run(document, {.strategy = schedule});
  if (!before.ok()) return before.error();
  const Outcome started = shrinker.start(document, schedule);
  if (!started.ok()) return started.error();
  make_smaller(shrinker);

  Shrunk shrunk;
  shrunk.document = copy_of(shrinker.best());
  put(shrunk.document, "expect", expectation_of(shrinker.wanted(), shrinker.trial().laws));
  shrunk.before = std::move(before).value();
  shrunk.n_tries = shrinker.n_tries();
  const Result<Scenario> scenario = read_scenario_text(render_toml(shrunk.document), runner.path());
  if (!scenario.ok()) return scenario.error();
  Result<Trial> after = runner.run(scenario.value(), {});
  if (!after.ok()) return after.error();
  if (after.value().failure != shrinker.wanted()) {
    const std::string got =
        after.value().failure ? describe(*after.value().failure) : "no failure at all";
    return Error{"the shrunk scenario shows a different failure: " + got + " instead of " +
                     describe(shrinker.wanted()),
                 runner.path()};
  }
  shrunk.after = std::move(after).value();
  shrunk.after.cost = shrinker.trial().cost;
  return shrunk;
}

}  // namespace lockstep::explore
