// epoch-reshuffled: one order for all ranks, a different one each epoch.
#include <optional>
#include <set>
#include <tuple>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/remarks.h"
#include "lockstep/laws/rules/detail/samples/pass_parts.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kEpochReshuffled = "epoch-reshuffled";

/// Below this size two honest permutations are equal too often to mean anything: 1 pair in 21! is
/// rare enough, 1 in 2 is not, and consecutive seeds are worse than chance for tiny sets.
constexpr std::int64_t kOrdersMeanSomething = 21;

bool is_ours(std::string_view sampler) {
  const std::optional<KnownSampler> known = parse_enum<KnownSampler>(sampler);
  return known == KnownSampler::kDistributed || known == KnownSampler::kStream;
}

class EpochReshuffled final : public Law {
 public:
  explicit EpochReshuffled(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kEpochReshuffled); }

  EventKinds reads() const override {
    return kinds_of<EpochEvent, EnvironmentEvent, LogEvent, WrapEvent>();
  }

  void require(RecordOptions& options) const override { options.samples = true; }

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    kept_.on_event(event, one_rank(event));
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body))
      groups_.on_wrap(event, *wrap, worlds_);
    const auto* epoch = std::get_if<EpochEvent>(&event.body);
    if (epoch == nullptr || !epoch->shuffle) return;
    compare_with_last_epoch(event, *epoch, names);
    if (epoch->n_replicas < 2) return;  // Every rank draws for itself: no order to share.
    const std::int32_t nth =
        passes_[{to_int(event.rank), event.at.attempt, epoch->split, event.at.epoch}]++;
    const std::int32_t group = groups_.of(wrapper_of(event.at), to_int(event.rank), *epoch);
    const Key key{event.at.attempt, epoch->split, event.at.epoch, nth, group};
    Ballot& ballot = ballots_[key];
    const bool keyed = is_ours(names.text(epoch->sampler));
    const std::uint64_t words[] = {keyed ? epoch->generator_key : 0, epoch->order_digest};
    ballot.add(event, words);
    const std::int64_t n_sharing = group >= 0 ? epoch->n_replicas : worlds_.of(event.at.attempt);
    if (ballot.n_ranks() < n_sharing) return;
    judge(key, ballot);
    ballots_.erase(key);
  }

  LawResult finish(const NameTable& names) override {
    for (const auto& [key, ballot] : ballots_) judge(key, ballot);
    ballots_.clear();
    for (auto& [key, repeat] : repeats_) findings_.push_back(to_finding(key, repeat));
    LawResult result =
        conclude(kEpochReshuffled,
                 std::move(findings_),
                 n_checked_,
                 "epoch events of a shuffling sampler from two ranks or of two epochs");
    add_advice(result);
    auto kept = kept_.advice(
        "A-batches-kept",
        "set_epoch() does not change stored batches: iterate over the loader again in each epoch.",
        names);
    if (kept) result.advice.push_back(std::move(*kept));
    return result;
  }

 private:
  struct Key {
    std::int32_t attempt = 0;
    NameId split = kNoName;
    std::int32_t epoch = 0;
    std::int32_t nth = 0;
    std::int32_t group = -1;  ///< DividingGroups::of().
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  using Place = std::tuple<std::int32_t, std::int32_t, NameId>;  // Rank, attempt, split.

  struct LastEpoch {
    std::int32_t epoch = 0;
    std::uint64_t generator_key = 0;
    std::uint64_t order_digest = 0;
    std::int32_t step = 0;
    std::int32_t nth = 0;
  };

  /// The epochs of one rank as a loop names them that sets each at its end: 0, 0, 1, 2, ...
  struct Late {
    std::int32_t epoch = 0;
    std::int32_t step = 0;   ///< When the second pass of that name began.
    bool goes_on = false;    ///< Others came, one further each.
    bool otherwise = false;  ///< Others came that were not.
  };

  /// How the keys of one rank's passes follow one another, where each is a seed plus an epoch. A job that is resumed
  /// before epoch 3 and calls set_epoch() after each pass only reads epochs 0, 4, 5, ...: its first pass repeats the
  /// order of epoch 0.
  struct Advance {
    std::int64_t n_next = 0;   ///< Passes whose key is one more than that of the pass before,
    std::int64_t n_other = 0;  ///< and those where it is another one, but for the second pass:
    std::uint64_t first = 0;   ///< by how much it was more there; 0: by one, or not at all.
  };

  struct Repeat {
    std::int32_t epoch = 0;
    std::int32_t step = 0;
    bool key_differs = false;
    std::vector<Rank> ranks;
  };

  void compare_with_last_epoch(const Event& event,
                               const EpochEvent& epoch,
                               const NameTable& names) {
    if (!is_train_split(names.text(epoch.split))) return;
    const Place place(to_int(event.rank), event.at.attempt, epoch.split);
    LastEpoch now{event.at.epoch, epoch.generator_key, epoch.order_digest, event.at.opt};
    const auto [known, is_first] = last_.try_emplace(place, now);
    if (is_first) return;
    const LastEpoch before = known->second;
    const bool begins_again =
        now.epoch < before.epoch;  // By another sampler, as where a job is resumed.
    now.nth = begins_again ? 0 : before.nth + 1;
    known->second = now;
    if (!begins_again) note_name(place, before, now);
    if (!begins_again && is_ours(names.text(epoch.sampler)))
      note_advance(advances_[place], before, now);
    if (before.epoch == now.epoch) return;  // Begun again, not the next one.
    const bool keyed = is_ours(names.text(epoch.sampler));
    const bool comparable = epoch.dataset_size >= kOrdersMeanSomething;
    if (!keyed && !comparable) return;
    ++n_checked_;
    const bool same_key = keyed && before.generator_key == now.generator_key;
    const bool same_order = comparable && before.order_digest == now.order_digest;
    if (same_key || same_order) note_repeat(event, epoch, keyed && !same_key);
  }

  // A second pass by the name of the first may be begun again on purpose, from the old state. Then the passes
  // after it do not show a loop that is always one epoch late.
  void note_name(const Place& place, const LastEpoch& before, const LastEpoch& now) {
    if (now.nth == 1) {
      const bool same = before.epoch == now.epoch && before.generator_key == now.generator_key &&
                        before.order_digest == now.order_digest;
      if (same && before.step < now.step) late_[place] = {.epoch = now.epoch, .step = now.step};
      return;
    }
    const auto found = late_.find(place);
    if (found == late_.end()) return;
    const bool is_next = now.epoch == before.epoch + 1;
    found->second.goes_on = found->second.goes_on || is_next;
    found->second.otherwise = found->second.otherwise || !is_next;
  }

  static void note_advance(Advance& advance, const LastEpoch& before, const LastEpoch& now) {
    constexpr std::uint64_t kMostEpochs = 1U << 20U;  // Others are keys of other seeds.
    const std::uint64_t by = now.generator_key - before.generator_key;
    if (by == 0) return;
    if (by == 1) {
      ++advance.n_next;
    } else if (now.nth == 1 && advance.first == 0 && by < kMostEpochs) {
      advance.first = by;
    } else {
      ++advance.n_other;
    }
  }

  void add_resumed_advice(LawResult& result) const {
    for (const auto& [place, advance] : advances_) {
      if (advance.first == 0 || advance.n_next == 0 || advance.n_other > 0) continue;
      result.advice.push_back(
          {"A-epoch-set-late",
           "the first pass used the order of epoch 0 and the second that of epoch " +
               std::to_string(advance.first) +
               ". In a resumed job, call set_epoch(epoch) before each pass, also before the "
               "first."});
      return;
    }
  }

  void add_advice(LawResult& result) const {
    add_resumed_advice(result);
    for (const auto& [place, late] : late_) {
      if (!late.goes_on || late.otherwise) continue;
      const std::string epoch = std::to_string(late.epoch);
      result.advice.push_back(
          {"A-epoch-set-late",
           "two consecutive passes used epoch " + epoch + ", the second from step " +
               std::to_string(late.step) +
               ", and read the data in the same order. set_epoch(epoch) is probably called after "
               "each pass. Call it before the pass, unless the repetition is intended."});
      return;
    }
  }

  void note_repeat(const Event& event, const EpochEvent& epoch, bool key_differs) {
    Repeat& repeat = repeats_[{event.at.attempt, epoch.split}];
    if (repeat.ranks.empty() || event.at.epoch < repeat.epoch) {
      repeat = {event.at.epoch, event.at.opt, key_differs, {event.rank}};
    } else if (event.at.epoch == repeat.epoch) {
      repeat.ranks.push_back(event.rank);
    }
  }

  static Finding to_finding(const std::pair<std::int32_t, NameId>& key, Repeat& repeat) {
    std::sort(repeat.ranks.begin(), repeat.ranks.end());
    Finding finding;
    finding.attempt = key.first;
    finding.event = "epoch";
    finding.epoch = repeat.epoch;
    finding.step = repeat.step;
    finding.ranks = repeat.ranks;
    finding.field = repeat.key_differs ? "order" : "generator_key";
    finding.cause = repeat.key_differs ? Cause::kPersistentWorkerEpoch : Cause::kNoSetEpoch;
    finding.message =
        "epoch " + std::to_string(repeat.epoch) + " repeats the order of the previous one";
    if (!repeat.key_differs) finding.message += ": the sampler's epoch was not advanced";
    return finding;
  }

  void judge(const Key& key, const Ballot& ballot) {
    if (ballot.n_ranks() < 2) return;
    n_checked_ += ballot.n_ranks() - 1;
    if (ballot.unanimous() || !reported_.insert({key.attempt, key.split}).second) return;
    const bool keys_differ = !ballot.minority(0).empty();
    Finding finding;
    finding.attempt = key.attempt;
    finding.event = "epoch";
    finding.epoch = key.epoch;
    finding.step = ballot.majority_opt();
    finding.field = keys_differ ? "generator_key" : "order";
    finding.ranks = ballot.minority(keys_differ ? 0 : 1);
    finding.cause = Cause::kSamplerSeedDiffers;
    finding.message =
        "the ranks shuffled differently, so their shards overlap and leave samples out";
    findings_.push_back(std::move(finding));
  }

  Worlds worlds_;
  DividingGroups groups_;
  Remarks kept_{LogKind::kBatchesKept};
  std::map<std::tuple<std::int32_t, std::int32_t, NameId, std::int32_t>, std::int32_t> passes_;
  std::map<Key, Ballot> ballots_;
  std::map<Place, LastEpoch> last_;
  std::map<Place, Late> late_;
  std::map<Place, Advance> advances_;
  std::map<std::pair<std::int32_t, NameId>, Repeat> repeats_;
  std::set<std::pair<std::int32_t, NameId>> reported_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_epoch_reshuffled(const LawPolicy& policy) {
  return std::make_unique<EpochReshuffled>(policy);
}

}  // namespace lockstep::laws
