// rng-scopes: shared random streams are equal, private ones distinct.
#include <map>
#include <set>
#include <span>
#include <tuple>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/teams.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kRngScopes = "rng-scopes";
/// What each rank's parts of a divided model begin with: one digest of all parts that hold other values than a constant's.
constexpr std::string_view kInitialShards = "initial shards";

/// Who draws when. Restart attempts are left out on purpose: an epoch that is done again after a
/// restart may draw what it drew before.
struct Drawer {
  std::int32_t epoch = 0;
  std::int32_t rank = 0;
  std::int64_t worker = -1;

  friend auto operator<=>(const Drawer&, const Drawer&) = default;
};

struct Draw {
  Drawer drawer;
  std::int32_t attempt = 0;
  std::int32_t step = 0;
};

std::string text_of(const Drawer& drawer) {
  std::string text = "rank " + std::to_string(drawer.rank);
  if (drawer.worker >= 0) text += ", worker " + std::to_string(drawer.worker);
  return text + ", epoch " + std::to_string(drawer.epoch);
}

class RngScopes final : public Law {
 public:
  explicit RngScopes(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kRngScopes); }

  EventKinds reads() const override {
    return kinds_of<RngEvent, EnvironmentEvent, GroupEvent, WrapEvent>();
  }

  void require(RecordOptions& /*options*/) const override {}

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    averaging_.on_event(event);
    const auto* rng = std::get_if<RngEvent>(&event.body);
    if (rng == nullptr) return;
    if (rng->shared) {
      meet(event, *rng, names);
      return;
    }
    const Drawer drawer{event.at.epoch, to_int(event.rank), rng->worker};
    PrivateStream& stream = private_[std::string(names.text(rng->stream))];
    stream.drawers.insert(drawer);
    stream.by_state[rng->state].push_back({drawer, event.at.attempt, event.at.opt});
  }

  LawResult finish(const NameTable& /*names*/) override {
    for (const auto& [key, ballot] : ballots_) judge(key, ballot);
    ballots_.clear();
    for (auto& [name, stream] : private_) judge(name, stream);
    return conclude(kRngScopes,
                    std::move(findings_),
                    n_checked_,
                    "rng events from two ranks, workers or epochs");
  }

 private:
  struct Key {
    std::int32_t attempt = 0;
    std::int32_t epoch = 0;
    std::string stream;
    std::int64_t worker = -1;
    std::int32_t nth = 0;

    friend auto operator<=>(const Key&, const Key&) = default;
  };

  struct PrivateStream {
    std::set<Drawer> drawers;
    std::map<std::uint64_t, std::vector<Draw>> by_state;
  };

  void meet(const Event& event, const RngEvent& rng, const NameTable& names) {
    Key key{event.at.attempt, event.at.epoch, std::string(names.text(rng.stream)), rng.worker, 0};
    key.nth = passes_[{to_int(event.rank), key}]++;
    Ballot& ballot = ballots_[key];
    const std::uint64_t words[] = {rng.state};
    ballot.add(event, words);
    if (ballot.n_ranks() < worlds_.full(key.attempt)) return;
    judge(key, ballot);
    ballots_.erase(key);
  }

  void judge(const Key& key, const Ballot& ballot) {
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous() || !reported_.insert({key.attempt, key.stream}).second) return;
    Finding finding = finding_at(key.stream, {key.epoch, 0, key.worker});
    finding.attempt = key.attempt;
    finding.step = ballot.majority_opt();
    finding.ranks = ballot.minority(0);
    finding.cause = Cause::kRngNotShared;
    finding.message =
        "the ranks should share stream '" + key.stream + "', but draw from it in different states";
    findings_.push_back(std::move(finding));
  }

  /// Of one stream only the earliest repetition is reported: the rest follows from it.
  void judge(const std::string& name, PrivateStream& stream) {
    n_checked_ += static_cast<std::int64_t>(stream.drawers.size()) - 1;
    const Draw* first = nullptr;
    const Draw* again = nullptr;
    for (auto& [state, draws] : stream.by_state) {
      std::stable_sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) {
        return std::tie(a.drawer, a.attempt) < std::tie(b.drawer, b.attempt);
      });
      for (const Draw& draw : draws) {
        const Draw* const before = repeated_by(draw, draws);
        if (before == nullptr) continue;
        // A rank may begin once more with what it began with.
        if (name == kInitialShards && draw.drawer.rank == before->drawer.rank) continue;
        if (again == nullptr || draw.drawer < again->drawer) {
          first = before;
          again = &draw;
        }
        break;
      }
    }
    if (again != nullptr) findings_.push_back(repetition(name, *first, *again));
  }

  /// The first of `draws`, in order, that `draw` must not repeat; null, if there is none before it.
  const Draw* repeated_by(const Draw& draw, std::span<const Draw> draws) const {
    for (const Draw& before : draws) {
      if (before.drawer == draw.drawer) return nullptr;
      if (!averaging_.apart(before.drawer.rank, draw.drawer.rank)) return &before;
    }
    return nullptr;
  }

  static Finding repetition(const std::string& name, const Draw& first, const Draw& again) {
    Finding finding = finding_at(name, again.drawer);
    finding.attempt = again.attempt;
    finding.step = again.step;
    finding.ranks.push_back(Rank{first.drawer.rank});
    if (again.drawer.rank != first.drawer.rank) {
      finding.ranks.push_back(Rank{again.drawer.rank});
      std::sort(finding.ranks.begin(), finding.ranks.end());
    }
    // Clones of one rank come from how its workers are seeded, clones between ranks from one seed.
    const bool within_rank = again.drawer.rank == first.drawer.rank;
    finding.cause = within_rank ? Cause::kWorkerSeedClones : Cause::kRngSameDropout;
    // Ranks whose streams were distinct before they took them over from a checkpoint.
    if (!within_rank && again.attempt > 0) finding.cause = Cause::kRngRank0Restored;
    finding.message = "stream '" + name + "' should be private, but " + text_of(again.drawer) +
                      " repeats the draws of " + text_of(first.drawer);
    if (name == kInitialShards) explain_shards(first, again, finding);
    return finding;
  }

  static void explain_shards(const Draw& first, const Draw& again, Finding& finding) {
    finding.cause = Cause::kShardsAlike;
    finding.message = "all shards that rank " + std::to_string(again.drawer.rank) +
                      " has of the model begin with the same values as rank " +
                      std::to_string(first.drawer.rank) + "'s";
  }

  static Finding finding_at(const std::string& stream, const Drawer& drawer) {
    Finding finding;
    finding.event = "rng";
    finding.tensor = stream;
    finding.field = "state";
    finding.epoch = drawer.epoch;
    return finding;
  }

  Worlds worlds_;
  Averaging averaging_;
  std::map<std::pair<std::int32_t, Key>, std::int32_t> passes_;
  std::map<Key, Ballot> ballots_;
  std::set<std::pair<std::int32_t, std::string>> reported_;
  std::map<std::string, PrivateStream> private_;  ///< Grows with ranks, workers and epochs.
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_rng_scopes(const LawPolicy& policy) {
  return std::make_unique<RngScopes>(policy);
}

}  // namespace lockstep::laws
