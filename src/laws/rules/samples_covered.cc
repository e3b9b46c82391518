// samples-covered: one epoch's samples are the data set, each as often as declared, and splits are
// disjoint over all ranks.
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/data_read.h"
#include "lockstep/laws/rules/detail/samples/pass_parts.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kSamplesCovered = "samples-covered";

class SamplesCovered final : public Law {
 public:
  explicit SamplesCovered(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kSamplesCovered); }

  EventKinds reads() const override {
    return kinds_of<EpochEvent,
                    SampleEvent,
                    EnvironmentEvent,
                    DataEvent,
                    InputEvent,
                    WrapEvent,
                    GroupEvent,
                    ExchangeEvent>();
  }

  void require(RecordOptions& options) const override { options.samples = true; }

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    data_.on_event(event);
    groups_.on_event(event, worlds_);
    if (const auto* epoch = std::get_if<EpochEvent>(&event.body)) {
      on_epoch(event, *epoch, names);
    } else if (const auto* samples = std::get_if<SampleEvent>(&event.body)) {
      on_samples(event, *samples, names);
    }
  }

  LawResult finish(const NameTable& names) override {
    for (auto& [key, pass] : passes_) judge(key, pass, names, false);
    passes_.clear();
    const std::size_t n_before = findings_.size();
    judge_splits(names);
    for (Finding& finding : data_.findings(worlds_, names)) findings_.push_back(std::move(finding));
    // Ranks that hold out other rows also share out other rows.
    const bool leaks =
        std::any_of(findings_.begin() + static_cast<std::ptrdiff_t>(n_before),
                    findings_.end(),
                    [](const Finding& found) { return found.cause == Cause::kSplitLeak; });
    for (Finding& finding : findings_) {
      if (leaks && finding.cause == Cause::kNone) finding.cause = Cause::kSplitLeak;
    }
    LawResult result = conclude(kSamplesCovered,
                                std::move(findings_),
                                n_checked_ + data_.n_checked(),
                                "epoch and sample events of a sampler without replacement");
    result.advice = data_.advice(worlds_, names);
    return result;
  }

 private:
  // Training passes continue over restarts; other splits start again in each attempt.
  struct PassKey {
    NameId split = kNoName;
    std::int32_t attempt = -1;
    std::int32_t epoch = 0;
    std::int32_t nth = 0;
    friend auto operator<=>(const PassKey&, const PassKey&) = default;
  };

  struct RankSplit {
    std::int32_t rank = 0;
    std::int32_t attempt = 0;
    NameId split = kNoName;
    friend auto operator<=>(const RankSplit&, const RankSplit&) = default;
  };

  struct Reading {
    PassKey pass;
    bool begun = false;
  };

  void on_epoch(const Event& event, const EpochEvent& epoch, const NameTable& names) {
    Reading& reading = readings_[{to_int(event.rank), event.at.attempt, epoch.split}];
    const bool again = reading.begun && reading.pass.epoch == event.at.epoch;
    const PassKey finished = reading.pass;
    const bool had_one = reading.begun;
    reading.pass = {epoch.split,
                    is_train_split(names.text(epoch.split)) ? -1 : event.at.attempt,
                    event.at.epoch,
                    again ? reading.pass.nth + 1 : 0};
    reading.begun = true;
    sizes_[epoch.split] = epoch.dataset_size;
    if (judged_.contains(reading.pass)) return;  // Redone after a restart, from before its end.
    passes_[reading.pass].declared[event.at.attempt][to_int(event.rank)] = epoch;
    const std::pair leaving{finished, event.at.attempt};
    if (had_one && ++n_left_[leaving] == worlds_.of(event.at.attempt)) {
      const auto pass = passes_.find(finished);
      if (pass != passes_.end()) judge(finished, pass->second, names, true);
      if (pass != passes_.end()) passes_.erase(pass);
      n_left_.erase(leaving);
      judged_.insert(finished);
    }
  }

  void on_samples(const Event& event, const SampleEvent& samples, const NameTable& names) {
    const std::int32_t rank = to_int(event.rank);
    for (const std::int64_t id : samples.ids) {
      const auto [owner, is_new] = owners_[samples.split].try_emplace(id, rank);
      if (!is_new) owner->second = std::min(owner->second, rank);
    }
    if (is_train_split(names.text(samples.split))) {
      const auto [resumed, is_new] = resumed_at_.try_emplace(event.at.attempt, event.at.opt);
      if (!is_new) resumed->second = std::min(resumed->second, event.at.opt);
    }
    const auto reading = readings_.find({rank, event.at.attempt, samples.split});
    if (reading == readings_.end()) return;
    const auto pass = passes_.find(reading->second.pass);
    if (pass == passes_.end()) return;
    pass->second.consumed.push_back({event.at.attempt,
                                     event.at.opt,
                                     rank,
                                     event.at.wrapper,
                                     {samples.ids.begin(), samples.ids.end()}});
  }

  /// Steps that a later attempt did again from its snapshot do not count.
  bool redone(const Consumed& consumed) const {
    for (auto later = resumed_at_.upper_bound(consumed.attempt); later != resumed_at_.end();
         ++later) {
      if (consumed.opt >= later->second) return true;
    }
    return false;
  }

  /// What the attempts did of a pass that still counts. A different number of ranks divides an
  /// epoch again, so nothing of the attempts before that does.
  PassTally tally_of(const Pass& pass, bool train) const {
    std::set<std::int32_t> attempts;
    for (const Consumed& consumed : pass.consumed) {
      if (!train || !redone(consumed)) attempts.insert(consumed.attempt);
    }
    PassTally tally;
    if (attempts.empty()) return tally;
    tally.attempt = *attempts.rbegin();
    tally.n_ranks = pass.n_readers > 0 ? pass.n_readers : worlds_.of(tally.attempt);
    std::int32_t first = tally.attempt;
    for (auto at = attempts.rbegin(); at != attempts.rend() && alike(pass, *at, first); ++at) {
      first = *at;
      if (const auto declared = pass.declared.find(first); declared != pass.declared.end()) {
        tally.declared.insert(declared->second.begin(), declared->second.end());
      }
    }
    for (const Consumed& consumed : pass.consumed) {
      if (consumed.attempt < first || (train && redone(consumed))) continue;
      tally.add(consumed);
    }
    return tally;
  }

  /// Whether two attempts divided a pass among equally many ranks.
  bool alike(const Pass& pass, std::int32_t left, std::int32_t right) const {
    if (worlds_.of(left) != worlds_.of(right)) return false;
    const auto a = pass.declared.find(left);
    const auto b = pass.declared.find(right);
    if (a == pass.declared.end() || b == pass.declared.end()) return true;
    return a->second.begin()->second.n_replicas == b->second.begin()->second.n_replicas;
  }

  /// `finished`: all ranks have gone on to the next one.
  void judge(const PassKey& key, const Pass& pass, const NameTable& names, bool finished) {
    if (!groups_.any()) return judge_part(key, pass, names, finished);
    for (const Pass& part : groups_.parts_of(pass)) {
      judge_part(key, part, names, finished);
    }
  }

  void judge_part(const PassKey& key, const Pass& pass, const NameTable& names, bool finished) {
    const bool train = is_train_split(names.text(key.split));
    PassTally tally = tally_of(pass, train);
    if (groups_.may_share(tally)) tally.keep_one_reader_per_share();
    if (tally.declared.empty() || tally.counts.empty()) return;
    const EpochEvent& declared = tally.declared.begin()->second;
    const auto sampler = parse_enum<KnownSampler>(names.text(declared.sampler));
    const bool sharded = sampler == KnownSampler::kDistributed;
    // Foreign samplers may draw with replacement; outside training every rank may read everything.
    const bool once = sampler.has_value() && !sharded;
    if (!sharded && (!train || !once)) return;
    n_checked_ += static_cast<std::int64_t>(tally.counts.size());
    std::optional<Finding> finding;
    if (sharded) finding = tally.uneven_shares();
    if (!finding) finding = tally.wrong_counts(sampler == KnownSampler::kRandom);
    if (!finding && train && finished && !tally.is_complete()) finding = judge_resized(pass, tally);
    if (finding) report(key, tally, std::move(*finding), names);
  }

  /// An epoch that one number of ranks began and a different number ended, not from its
  /// start.
  std::optional<Finding> judge_resized(const Pass& pass, const PassTally& last) const {
    PassTally whole;
    std::set<std::int32_t> attempts;
    for (const Consumed& consumed : pass.consumed) {
      if (redone(consumed)) continue;
      attempts.insert(worlds_.of(consumed.attempt));
      whole.add(consumed);
    }
    const std::int64_t size = last.declared.begin()->second.dataset_size;
    const std::int64_t n_missing = size - std::ssize(whole.counts);
    const std::int64_t n_again = whole.surplus();
    if (attempts.size() < 2 || (n_missing <= 0 && n_again <= 0)) return std::nullopt;
    Finding finding;
    finding.field = n_again > 0 ? "duplicates" : "missing";
    finding.cause = Cause::kElasticWorldChange;
    finding.message = "training continued mid-epoch with a different number of ranks: " +
                      std::to_string(n_again) + " samples were read again, " +
                      std::to_string(std::max<std::int64_t>(n_missing, 0)) + " never";
    return finding;
  }

  void report(const PassKey& key, const PassTally& tally, Finding finding, const NameTable& names) {
    if (!reported_.insert(key.split).second) return;
    finding.event = "epoch";
    finding.epoch = key.epoch;
    finding.attempt = tally.attempt;
    finding.message = std::string(names.text(key.split)) + " split: " + finding.message;
    finding.step = tally.step;
    findings_.push_back(std::move(finding));
  }

  /// As declared by its epochs, else as many samples as were seen.
  std::int64_t size_of(NameId split) const {
    const auto declared = sizes_.find(split);
    if (declared != sizes_.end()) return declared->second;
    return static_cast<std::int64_t>(owners_.at(split).size());
  }

  void judge_splits(const NameTable& names) {
    for (const auto& [train, train_owners] : owners_) {
      if (!is_train_split(names.text(train))) continue;
      for (const auto& [other, owners] : owners_) {
        // Evaluating on the training set itself, as demos do, or on a part of it, is a choice.
        if (other == train || size_of(other) == size_of(train)) continue;
        ++n_checked_;
        judge_leak(train_owners, other, names);
      }
    }
  }

  using Owners = std::map<std::int64_t, std::int32_t>;  // The lowest rank that consumed an id.

  void judge_leak(const Owners& trained, NameId other, const NameTable& names) {
    std::int64_t n_shared = 0;
    std::set<Rank> ranks;
    for (const auto& [id, rank] : owners_.at(other)) {
      const auto owner = trained.find(id);
      if (owner == trained.end()) continue;
      ++n_shared;
      ranks.insert(Rank{owner->second});
    }
    if (n_shared == 0 || n_shared == std::ssize(owners_.at(other))) return;
    Finding finding;
    finding.event = "sample";
    finding.field = "split";
    finding.cause = Cause::kSplitLeak;
    finding.ranks.assign(ranks.begin(), ranks.end());
    finding.message = std::to_string(n_shared) + " samples of the " +
                      std::string(names.text(other)) + " split were trained on";
    findings_.push_back(std::move(finding));
  }

  Worlds worlds_;
  PassParts groups_;
  DataRead data_;
  std::map<RankSplit, Reading> readings_;
  std::map<PassKey, Pass> passes_;
  std::map<std::pair<PassKey, std::int32_t>, std::int32_t> n_left_;  // By pass and attempt.
  std::set<PassKey> judged_;
  std::map<std::int32_t, std::int32_t> resumed_at_;  // First step each attempt did.
  std::map<NameId, Owners> owners_;
  std::map<NameId, std::int64_t> sizes_;
  std::set<NameId> reported_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_samples_covered(const LawPolicy& policy) {
  return std::make_unique<SamplesCovered>(policy);
}

}  // namespace lockstep::laws
