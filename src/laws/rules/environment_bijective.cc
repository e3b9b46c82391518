// environment-bijective: every rank is unique, and all of them build the same model.
#include <algorithm>
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"

namespace lockstep::laws {

namespace {

class EnvironmentBijective final : public Law {
 public:
  static constexpr std::string_view kId = "environment-bijective";

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<WrapEvent, EnvironmentEvent, ConfigurationEvent>();
  }

  void require(RecordOptions& /*options*/) const override {}

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      const std::uint64_t words[] = {static_cast<std::uint64_t>(wrap->ignored)};
      const bool is_first = wrapped_.insert({event.at.attempt, event.rank}).second;
      if (is_first) ignored_[event.at.attempt].add(event, words);
      return;
    }
    if (const auto* given = std::get_if<ConfigurationEvent>(&event.body)) {
      const std::uint64_t words[] = {given->digest, static_cast<std::uint64_t>(given->value)};
      const std::pair key{std::string(names.text(given->name)), event.at.wrapper};
      launches_[event.at.attempt].configurations[key].add(event, words);
      return;
    }
    const auto* environment = std::get_if<EnvironmentEvent>(&event.body);
    if (environment == nullptr) return;
    Launch& launch = launches_[event.at.attempt];
    ++launch.n_checked;
    if (!launch.ranks.insert(to_int(event.rank)).second) {
      report(event, "rank", "two processes claim this rank", Cause::kTwoRankZeros);
    }
    const std::uint64_t world[] = {static_cast<std::uint64_t>(environment->world)};
    launch.worlds.add(event, world);
    claim(event, *environment, launch, names);
    if (environment->schema == 0) return;
    const std::uint64_t words[] = {environment->schema, static_cast<std::uint64_t>(kNoName)};
    launch.configurations[{std::string(kModel), -1}].add(event, words);
  }

  LawResult finish(const NameTable& names) override {
    std::int64_t n_checked = 0;
    for (const auto& [attempt, launch] : launches_) {
      n_checked += launch.n_checked;
      if (n_checked > 0 && !launch.ranks.empty()) report_worlds(attempt, launch);
      for (const auto& [key, ballot] : launch.configurations) {
        n_checked += ballot.n_comparisons();
        if (!ballot.minority(kDigest).empty()) {
          report_configuration(attempt, key.first, ballot);
        } else if (!ballot.unanimous()) {
          report_modules(attempt, key.second, ballot, names);
        }
      }
    }
    std::vector<Finding> findings;
    findings.reserve(findings_.size());
    for (auto& [key, finding] : findings_) {
      std::sort(finding.ranks.begin(), finding.ranks.end());
      findings.push_back(std::move(finding));
    }
    return conclude(kId, std::move(findings), n_checked, "environment events");
  }

 private:
  static constexpr std::string_view kModel = "model";
  static constexpr std::size_t kDigest = 0;  // Words of a configuration's ballot.
  static constexpr std::size_t kValue = 1;

  using Configured = std::pair<std::string, std::int32_t>;  // Name, and wrapper.
  using NodeSlot = std::pair<std::string, std::string>;     // Node, and local rank or device.

  /// What the ranks of one restart attempt were given.
  struct Launch {
    std::set<std::int32_t> ranks;
    std::map<NodeSlot, std::int32_t> local_ranks;
    std::map<NodeSlot, std::int32_t> devices;
    Ballot worlds;
    std::map<Configured, Ballot> configurations;
    std::int64_t n_checked = 0;
  };

  /// No other rank may have the same local rank or device on the same node. Where nodes are not
  /// known, they might be different ones.
  void claim(const Event& event,
             const EnvironmentEvent& environment,
             Launch& launch,
             const NameTable& names) {
    if (environment.node == kNoName) return;
    const std::string node(names.text(environment.node));
    if (environment.local_rank >= 0) {
      const std::string number = std::to_string(environment.local_rank);
      const auto [owner, is_free] =
          launch.local_ranks.try_emplace({node, number}, to_int(event.rank));
      if (!is_free && owner->second != to_int(event.rank)) {
        report(event,
               "local_rank",
               "local rank " + number + " of node " + node + " is also used by rank " +
                   std::to_string(owner->second),
               Cause::kTwoRankZeros);
      }
    }
    if (environment.device == kNoName) return;
    const std::string device(names.text(environment.device));
    const auto [owner, is_free] = launch.devices.try_emplace({node, device}, to_int(event.rank));
    if (!is_free && owner->second != to_int(event.rank)) {
      report(event,
             "device",
             "device " + device + " of node " + node + " is also used by rank " +
                 std::to_string(owner->second),
             Cause::kDuplicateDevice);
    }
  }

  /// One finding a field and attempt, with all ranks that have it.
  void report(const Event& event, const std::string& field, std::string message, Cause cause) {
    const auto [place, is_first] = findings_.try_emplace({event.at.attempt, field});
    Finding& finding = place->second;
    if (is_first) {
      finding.attempt = event.at.attempt;
      finding.event = "environment";
      finding.field = field;
      finding.cause = cause;
    }
    // The lowest rank's event counts, whatever the order of arrival.
    if (is_first || event.rank < *std::min_element(finding.ranks.begin(), finding.ranks.end())) {
      finding.message = std::move(message);
    }
    finding.ranks.push_back(event.rank);
  }

  /// A restart may have a different world from the previous attempt, but one for all its ranks.
  void report_worlds(std::int32_t attempt, const Launch& launch) {
    const auto by_world = launch.worlds.sides(0);
    const bool differ = by_world.size() > 1;
    const auto n_ranks = static_cast<std::uint64_t>(launch.ranks.size());
    if (!differ && by_world.begin()->first >= n_ranks) return;
    Finding& finding = findings_[{attempt, "world"}];
    finding.attempt = attempt;
    finding.event = "environment";
    finding.field = "world";
    finding.ranks = launch.worlds.minority(0);
    finding.cause =
        by_world.begin()->first == 1 ? Cause::kEnvMissingSolo : Cause::kWorldFromDevices;
    if (!differ) {
      for (const std::int32_t rank : launch.ranks) finding.ranks.push_back(Rank{rank});
    }
    finding.message = "the world size differs from the other ranks'";
    if (!differ) {
      finding.message = "the world size is " + std::to_string(by_world.begin()->first) + ", but " +
                        std::to_string(n_ranks) + " ranks were started";
    }
  }

  void report_configuration(std::int32_t attempt, const std::string& name, const Ballot& ballot) {
    if (name == kModel) return report_schemas(attempt, ballot);
    Finding& finding = findings_[{attempt, name}];
    finding.attempt = attempt;
    finding.event = "environment";
    finding.field = name;
    finding.ranks = ballot.minority(kDigest);
    finding.cause = Cause::kConfigurationDiffers;
    finding.message = "the values of '" + name + "' differ from the other ranks'";
  }

  void report_schemas(std::int32_t attempt, const Ballot& ballot) {
    Finding& finding = findings_[{attempt, "schema"}];
    finding.attempt = attempt;
    finding.event = "environment";
    finding.field = "schema";
    finding.ranks = ballot.minority(kDigest);
    finding.cause = Cause::kModelDiffers;
    finding.message =
        "the model differs from the other ranks' in the parameters' names, shapes or types, or in "
        "which are trainable or ignored";
    const auto wrapped = ignored_.find(attempt);
    if (wrapped == ignored_.end() || wrapped->second.unanimous()) return;
    finding.cause = Cause::kIgnoredSetDiffers;
    finding.message += "; the wrapper ignores different parameters";
  }

  /// The same parameters, and another function of them.
  void report_modules(std::int32_t attempt,
                      std::int32_t wrapper,
                      const Ballot& ballot,
                      const NameTable& names) {
    Finding& finding = findings_[{attempt, "modules of " + std::to_string(wrapper)}];
    finding.attempt = attempt;
    finding.event = "environment";
    finding.field = "modules";
    finding.ranks = ballot.minority(kValue);
    finding.cause = Cause::kModelDiffers;
    std::string_view own;
    std::string_view others;
    for (const auto& [value, ranks] : ballot.sides(kValue)) {
      const bool is_odd = Rank{ranks.front()} == finding.ranks.front();
      (is_odd ? own : others) = names.text(static_cast<NameId>(value));
    }
    std::string_view one;
    std::string_view other;
    while (one == other && !(own.empty() && others.empty())) {
      one = take_first(own);
      other = take_first(others);
    }
    finding.message =
        "the model has " + quoted(one) + " where the other ranks have " + quoted(other);
  }

  /// Takes the first description from a list of them.
  static std::string_view take_first(std::string_view& list) {
    constexpr std::string_view kBetween = "; ";
    const std::size_t end = std::min(list.find(kBetween), list.size());
    const std::string_view first = list.substr(0, end);
    list.remove_prefix(std::min(end + kBetween.size(), list.size()));
    return first;
  }

  static std::string quoted(std::string_view description) {
    return description.empty() ? "nothing" : "`" + std::string(description) + "`";
  }

  std::map<std::int32_t, Launch> launches_;  // By attempt.
  std::map<std::int32_t, Ballot> ignored_;   // The same, of what each rank's first wrapper ignores.
  std::set<std::pair<std::int32_t, Rank>> wrapped_;
  std::map<std::pair<std::int32_t, std::string>, Finding> findings_;
};

}  // namespace

std::unique_ptr<Law> make_environment_bijective(const LawPolicy& /*policy*/) {
  return std::make_unique<EnvironmentBijective>();
}

}  // namespace lockstep::laws
