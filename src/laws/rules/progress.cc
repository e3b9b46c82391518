// progress: every posted collective completes, and all ranks end in the same way.
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/detail/group_order.h"
#include "lockstep/laws/detail/left_out.h"
#include "lockstep/laws/detail/rank_life.h"
#include "lockstep/laws/detail/stragglers.h"
#include "lockstep/laws/rules/checkers.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kProgress = "progress";

class Progress final : public Law {
 public:
  explicit Progress(const LawPolicy& policy)
      : worlds_(policy.n_ranks), one_clock_(policy.one_clock) {}

  const LawInfo& info() const override { return *find_law(kProgress); }

  EventKinds reads() const override { return kAllEventKinds & ~kinds_of<ValueEvent>(); }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_event(const Event& event, const NameTable& names) override {
    worlds_.on_event(event);
    if (event.at.attempt < attempt_) return;
    if (event.at.attempt > attempt_) {
      // A restart forgives the attempt before it: that is what it is for.
      attempt_ = event.at.attempt;
      streams_ = {};
      groups_.clear();
    }
    forwards_.on_event(event);
    observe(event, one_rank(event), names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const Event& first = *event.first;
    const RankRange all = all_ranks(event);
    const auto* call = std::get_if<CollectiveEvent>(&first.body);
    const bool of_all = call == nullptr || (is_of_group(*call) && order_.knows(all));
    const bool alike = event.equal() || (kinds_of_words() >> first.body.index() & 1U) == 0;
    if (first.at.attempt != attempt_ || !of_all || !alike || !streams_.shares({}, all)) {
      return Law::on_cohort(event, names);
    }
    forwards_.on_cohort(event);
    observe(first, all, names);
    if (call != nullptr && call->phase == CollectivePhase::kPosted) {
      stragglers_.on_all_posted(event, *call);
    }
  }

  LawResult finish(const NameTable& /*names*/) override {
    for (auto& [place, life] : streams_.all()) lives_[place.rank] = std::move(life);
    const bool on_purpose = was_stopped();
    std::vector<Finding> findings = on_purpose ? std::vector<Finding>() : judge_calls();
    n_checked_ += std::count_if(lives_.begin(), lives_.end(), [](const auto& entry) {
      return entry.second.outcome != EndOutcome::kNone;
    });
    if (findings.size() > 1 && all_wait_for_waiters(findings)) {
      const Cause cause = cause_of_cycle();
      for (Finding& finding : findings) finding.cause = cause;
    }
    if (findings.empty() && !on_purpose) judge_ends(findings);
    LawResult result =
        conclude(kProgress, std::move(findings), n_checked_, "collective events or end events");
    if (result.verdict == Verdict::kHolds) {
      result.advice = order_.advice();
      if (auto late = one_clock_ ? stragglers_.advice() : std::nullopt)
        result.advice.push_back(std::move(*late));
    }
    return result;
  }

 private:
  /// Kinds of which more is read than that there was one.
  static constexpr EventKinds kinds_of_words() {
    return kinds_of<EndEvent, CollectiveEvent, GroupEvent>();
  }

  /// Who watched the job ended it in the middle: what was under way says nothing.
  bool was_stopped() const {
    return std::any_of(lives_.begin(), lives_.end(), [](const auto& entry) {
      return entry.second.reason == EndReason::kLawBroken;
    });
  }

  static bool is_of_group(const CollectiveEvent& call) {
    return call.signature.op != CollectiveOp::kSend && call.signature.op != CollectiveOp::kRecv;
  }

  void observe(const Event& event, RankRange who, const NameTable& names) {
    RankLife& life = streams_.at({}, who);
    if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      life.outcome = end->outcome;
      life.reason = end->reason;
      life.detail = names.text(end->detail);
      return;
    }
    life.last_kind = kind_of(event.body);
    life.last_opt = event.at.opt;
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      on_call(life, event, *call, who, names);
    } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      groups_[group->group].assign(group->members.begin(), group->members.end());
      life.made.insert(group->group);
    } else if (std::holds_alternative<ForwardEvent>(event.body)) {
      ++life.n_forwards;
      life.last_sync = std::max(life.last_sync, event.at.sync);
    }
  }

  /// One finding per channel: the first call in it that never completed.
  std::vector<Finding> judge_calls() const {
    std::map<Channel, std::int64_t> first_open;
    for (const auto& [rank, life] : lives_) {
      for (const OpenCall& call : life.open) {
        if (!is_stuck(life, call)) continue;
        const auto [known, is_new] = first_open.try_emplace(call.channel, call.seq);
        if (!is_new) known->second = std::min(known->second, call.seq);
      }
    }
    std::vector<Finding> findings;
    findings.reserve(first_open.size());
    for (const auto& [channel, seq] : first_open) findings.push_back(waiting_in(channel, seq));
    return findings;
  }

  Channel channel_of(const Event& event, const CollectiveEvent& call) const {
    const std::int32_t self = to_int(event.rank);
    const Signature& signature = call.signature;
    if (signature.op == CollectiveOp::kSend)
      return {call.group, self, world_rank(call.group, signature.peer), signature.tag};
    if (signature.op == CollectiveOp::kRecv)
      return {call.group, world_rank(call.group, signature.peer), self, signature.tag};
    return {call.group, -1, -1, 0};
  }

  /// Peers are named by their rank in the group; a group that no event describes is taken for one
  /// whose ranks are those of the world.
  std::int32_t world_rank(std::int32_t group, std::int32_t peer) const {
    const auto known = groups_.find(group);
    if (known == groups_.end() || peer < 0 || std::cmp_greater_equal(peer, known->second.size())) {
      return peer;
    }
    return known->second[static_cast<std::size_t>(peer)];
  }

  void on_call(RankLife& life,
               const Event& event,
               const CollectiveEvent& call,
               RankRange who,
               const NameTable& names) {
    const Channel channel = channel_of(event, call);
    if (ends_left_out(call, names)) {
      return order_.on_posted(event, call, who, life.leave_out(channel, call, event.at.sync));
    }
    if (call.phase == CollectivePhase::kPosted) {
      order_.on_posted(event, call, who, 1);
      if (channel.source < 0 && !who.all())
        stragglers_.on_posted(event, call, worlds_.of(attempt_));
      std::int64_t& n_posted = life.n_posted[channel];
      n_posted = std::max(n_posted, call.seq + 1);
      life.open.push_back({channel, call.seq, call.signature, event.at.opt});
      life.last_call = call.signature;
      n_checked_ += who.n;
      return;
    }
    const std::string_view status = names.text(call.status);
    // A call refused for its signature concerns collectives-match.
    const bool over = call.phase == CollectivePhase::kCompleted || status == "mismatch";
    if (over) return life.close(channel, call.seq);
    for (OpenCall& open : life.open) {
      if (open.seq != call.seq || open.channel != channel) continue;
      open.failed = true;
      open.timed_out = status == "timed_out";
    }
  }

  /// Whether its rank waits in this call forever. A rank that ended well may leave a call
  /// unawaited if all members posted it; one that failed was released by the call or had another
  /// reason; a dead one waits for nothing.
  bool is_stuck(const RankLife& life, const OpenCall& call) const {
    if (life.outcome == EndOutcome::kOk) return !missing(call.channel, call.seq).empty();
    if (life.outcome == EndOutcome::kException) return call.failed;
    return !has_vanished(life);
  }

  std::vector<std::int32_t> members(const Channel& channel) const {
    std::vector<std::int32_t> ranks;
    if (channel.source >= 0)
      return {std::min(channel.source, channel.target), std::max(channel.source, channel.target)};
    if (channel.group == 0) {
      const std::int32_t n_ranks = worlds_.of(attempt_);
      for (std::int32_t rank = 0; rank < n_ranks; ++rank) ranks.push_back(rank);
      return ranks;
    }
    const auto known = groups_.find(channel.group);
    if (known != groups_.end()) return known->second;
    for (const auto& [rank, life] : lives_) {
      if (life.n_posted.contains(channel)) ranks.push_back(rank);
    }
    return ranks;
  }

  std::vector<Rank> missing(const Channel& channel, std::int64_t seq) const {
    std::vector<Rank> ranks;
    const bool described = channel.group == 0 || groups_.contains(channel.group);
    if (channel.source >= 0 && !described) return ranks;  // Peers are not ranks there.
    for (const std::int32_t rank : members(channel)) {
      const auto life = lives_.find(rank);
      const auto posted = life == lives_.end() ? 0 : posted_by(life->second, channel);
      // A rank that died in the call no longer takes part in it.
      const bool left =
          posted > seq && has_vanished(life->second) && life->second.find(channel, seq) != nullptr;
      if (posted <= seq || left) ranks.push_back(Rank{rank});
    }
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  static std::int64_t posted_by(const RankLife& life, const Channel& channel) {
    const auto known = life.n_posted.find(channel);
    return known == life.n_posted.end() ? 0 : known->second;
  }

  Finding waiting_in(const Channel& channel, std::int64_t seq) const {
    Finding finding;
    finding.event = "collective";
    finding.attempt = attempt_;
    finding.group = channel.group;
    finding.seq = seq;
    finding.missing = missing(channel, seq);
    const OpenCall* call = nullptr;
    for (const auto& [rank, life] : lives_) {
      const OpenCall* open = life.find(channel, seq);
      if (open == nullptr || !is_stuck(life, *open)) continue;
      finding.ranks.push_back(Rank{rank});
      if (call == nullptr) call = open;
    }
    LOCKSTEP_CHECK(call != nullptr, "a rank waits in this call");
    finding.site = call->signature.site.text();
    if (call->opt >= 0) finding.step = call->opt;
    finding.message = "blocked forever in " + call_text(call->signature);
    if (finding.missing.empty()) {
      finding.message += ": all members posted it, and it never completed";
    }
    constexpr std::size_t kMaxListed = 3;
    for (std::size_t i = 0; i < std::min(kMaxListed, finding.missing.size()); ++i) {
      finding.message += (i == 0 ? ": " : "; ") + absence(finding.missing[i]);
    }
    if (const std::string dropped = forwards_.dropped_text(attempt_); !dropped.empty()) {
      finding.message += "; " + dropped;
    }
    if (const std::string windows = forwards_.window_text(attempt_); !windows.empty()) {
      finding.message += "; they accumulate over " + windows;
    }
    finding.cause = cause(finding, channel);
    return finding;
  }

  std::string absence(Rank rank) const {
    const std::string who = "rank " + std::to_string(to_int(rank)) + " ";
    const auto known = lives_.find(to_int(rank));
    if (known == lives_.end()) return who + "recorded nothing";
    const RankLife& life = known->second;
    const std::string last = last_seen(life);
    if (life.is_spinning()) return who + "is spinning without making progress" + last;
    if (life.outcome == EndOutcome::kOk) return who + "exited before making this call" + last;
    if (is_dead(life)) {
      const std::string how =
          life.outcome == EndOutcome::kException ? "raised an exception" : "died";
      return who + how + (life.detail.empty() ? "" : " (" + life.detail + ")") + last;
    }
    if (!life.open.empty()) return who + "is blocked in " + call_text(life.open.front().signature);
    std::string note = life.detail;
    if (note == name_of(life.outcome)) note.clear();
    return who + "never made this call" + (note.empty() ? "" : " (" + note + ")") + last;
  }

  static std::string last_seen(const RankLife& life) {
    if (life.last_kind.empty()) return "";
    // Recorders that know calls alone do not know steps.
    if (life.last_opt < 0) return ", its last call was " + call_text(life.last_call);
    return ", last seen at " + std::string(life.last_kind) + " in step " +
           std::to_string(life.last_opt);
  }

  bool is_dead(const RankLife& life) const {
    return life.outcome == EndOutcome::kException || has_vanished(life);
  }

  /// Killed, or gone without a word where others have left one.
  bool has_vanished(const RankLife& life) const {
    if (life.outcome == EndOutcome::kKilled) return true;
    return life.outcome == EndOutcome::kNone && any_ended(lives_);
  }

  Cause cause(const Finding& finding, const Channel& channel) const {
    const bool one_died =
        std::any_of(finding.missing.begin(), finding.missing.end(), [this](Rank rank) {
          const auto life = lives_.find(to_int(rank));
          return life != lives_.end() && is_dead(life->second) && !life->second.was_ended();
        });
    if (one_died) return Cause::kRankCrash;
    if (all_posted(channel, *finding.seq)) return cause_of_lost(finding, channel);
    for (const Rank rank : finding.missing) {
      const Cause why = cause_of_absence(rank, finding, channel);
      if (why != Cause::kNone) return why;
    }
    return Cause::kNone;
  }

  /// Why this rank never made a call that others wait in.
  Cause cause_of_absence(Rank rank, const Finding& finding, const Channel& channel) const {
    const auto known = lives_.find(to_int(rank));
    if (known == lives_.end() || is_dead(known->second)) return Cause::kRankCrash;
    if (channel.source >= 0)
      return rank == Rank{channel.source} ? Cause::kMissingSend : Cause::kMissingRecv;
    const RankLife& life = known->second;
    const RankLife& waiting = lives_.at(to_int(finding.ranks.front()));
    if (life.is_spinning()) return Cause::kLivelock;
    // It neither ended nor waits in a call.
    const bool frozen = life.open.empty() && waiting.n_forwards > 0;
    if (life.outcome != EndOutcome::kOk) return frozen ? Cause::kFrozenDevice : Cause::kNone;
    return cause_of_early_end(rank, finding, channel);
  }

  /// Why this rank exited, and normally, before a call that others wait in.
  Cause cause_of_early_end(Rank rank, const Finding& finding, const Channel& channel) const {
    const RankLife& life = lives_.at(to_int(rank));
    const Rank waiter = finding.ranks.front();
    const RankLife& waiting = lives_.at(to_int(waiter));
    const Cause other_way = forwards_.difference(attempt_);
    if (other_way != Cause::kNone || waiting.n_forwards == 0) return other_way;
    const OpenCall* call = waiting.find(channel, *finding.seq);
    const bool in_forward = call != nullptr && call->signature.op == CollectiveOp::kBroadcast;
    if (life.n_forwards < waiting.n_forwards || in_forward) return Cause::kUnevenBatches;
    // The same number of forwards, and one reduction fewer.
    const bool as_many = forwards_.n_synchronizing(to_int(rank), attempt_) >=
                         forwards_.n_synchronizing(to_int(waiter), attempt_);
    return as_many ? Cause::kBranchNoGraph : Cause::kNone;
  }

  bool all_posted(const Channel& channel, std::int64_t seq) const {
    const std::vector<std::int32_t> ranks = members(channel);
    return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
      const auto life = lives_.find(rank);
      return life != lives_.end() && posted_by(life->second, channel) > seq;
    });
  }

  static bool alike(const Signature& a, const Signature& b) {
    return a.op == b.op && a.reduce == b.reduce && a.dtype == b.dtype && a.count == b.count &&
           a.root == b.root;
  }

  /// Why a call that all members posted does not complete.
  Cause cause_of_lost(const Finding& finding, const Channel& channel) const {
    const Signature* first = nullptr;
    for (const auto& [rank, life] : lives_) {
      const OpenCall* open = life.find(channel, *finding.seq);
      if (open == nullptr) continue;
      if (first != nullptr && !alike(open->signature, *first))
        return Cause::kNone;  // Law 6 names it.
      first = &open->signature;
      if (!open->timed_out) continue;
      // A rank that gave up was released by a watchdog: over a late rank, or over a silent link.
      return finding.missing.empty() ? Cause::kSlowRank0Timeout : Cause::kLinkFlap;
    }
    // Where no rank says how it ended, ranks may have died in this call.
    return channel.source < 0 && any_ended(lives_) ? Cause::kPartition : Cause::kNone;
  }

  /// Every member makes the call that creates a group: one that never did can never arrive.
  bool is_made_by_all(const Channel& channel) const {
    if (!groups_.contains(channel.group)) return true;
    const std::vector<std::int32_t> ranks = members(channel);
    return std::all_of(ranks.begin(), ranks.end(), [&](std::int32_t rank) {
      const auto life = lives_.find(rank);
      return life != lives_.end() && life->second.made.contains(channel.group);
    });
  }

  /// Why ranks wait in a circle: calls of several groups, or messages that are never received.
  Cause cause_of_cycle() const {
    std::set<std::int32_t> groups;
    std::set<CollectiveOp> messages;
    bool all_made = true;
    for (const auto& [rank, life] : lives_) {
      for (const OpenCall& call : life.open) {
        if (call.channel.source < 0) {
          groups.insert(call.channel.group);
          all_made = all_made && is_made_by_all(call.channel);
        } else {
          messages.insert(call.signature.op);
        }
      }
    }
    if (!groups.empty() && !messages.empty()) return Cause::kNone;
    if (!all_made) return Cause::kSubgroupOnSomeRanks;
    if (groups.size() > 1) return Cause::kTwoCommCycle;
    if (messages.size() > 1) return Cause::kTagMismatch;
    return messages.contains(CollectiveOp::kSend) ? Cause::kSendSend : Cause::kNone;
  }

  /// No rank is merely late: each missing rank waits in another call itself.
  static bool all_wait_for_waiters(const std::vector<Finding>& findings) {
    std::set<Rank> waiting;
    for (const Finding& finding : findings)
      waiting.insert(finding.ranks.begin(), finding.ranks.end());
    return std::all_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return !finding.missing.empty() &&
             std::all_of(finding.missing.begin(), finding.missing.end(), [&](Rank rank) {
               return waiting.contains(rank);
             });
    });
  }

  /// No rank waits; then all must have ended in the same way.
  void judge_ends(std::vector<Finding>& findings) const {
    if (!any_ended(lives_)) return;
    const std::map<EndOutcome, std::vector<Rank>> by_outcome = ends();
    // After an exception the world is stopped, and the others are killed: not their
    // own doing.
    if (by_outcome.contains(EndOutcome::kException) && !by_outcome.contains(EndOutcome::kOk))
      return;
    if (by_outcome.size() == 1 && !by_outcome.contains(EndOutcome::kStuck)) return;
    for (const auto& [outcome, ranks] : by_outcome) {
      if (outcome != EndOutcome::kOk) findings.push_back(bad_end(outcome, ranks));
    }
  }

  /// A rank whose trace stops counts as killed.
  std::map<EndOutcome, std::vector<Rank>> ends() const {
    std::map<EndOutcome, std::vector<Rank>> by_outcome;
    const std::int32_t n_ranks = worlds_.of(attempt_);
    for (std::int32_t rank = 0; rank < n_ranks; ++rank) {
      const auto known = lives_.find(rank);
      const bool unknown = known == lives_.end() && !worlds_.known(attempt_);
      if (unknown || is_unseen(lives_, rank)) continue;
      const bool ended = known != lives_.end() && known->second.outcome != EndOutcome::kNone;
      by_outcome[ended ? known->second.outcome : EndOutcome::kKilled].push_back(Rank{rank});
    }
    return by_outcome;
  }

  Finding bad_end(EndOutcome outcome, const std::vector<Rank>& ranks) const {
    const bool stuck = outcome == EndOutcome::kStuck;
    Finding finding;
    finding.event = "end";
    finding.attempt = attempt_;
    finding.ranks = ranks;
    finding.message = stuck ? "never exited" : "did not end like the others: " + absence(ranks[0]);
    finding.cause = stuck ? Cause::kNone : Cause::kRankCrash;
    const auto known = lives_.find(to_int(ranks[0]));
    if (known != lives_.end() && known->second.last_opt >= 0) {
      finding.step = known->second.last_opt;
    }
    return finding;
  }

  static std::string call_text(const Signature& signature) {
    const std::string site = signature.site.text();
    return std::string(name_of(signature.op)) + (site.empty() ? "" : " (" + site + ")");
  }

  Worlds worlds_;
  bool one_clock_;
  std::int32_t attempt_ = 0;
  RankWrapperMap<RankLife> streams_;                          // Of ranks alone, while events come.
  RankLives lives_;                                           // By rank, at the end.
  std::map<std::int32_t, std::vector<std::int32_t>> groups_;  // World ranks by group rank.
  std::int64_t n_checked_ = 0;
  GroupOrder order_;
  Stragglers stragglers_;
  ForwardKinds forwards_;
};

}  // namespace

std::unique_ptr<Law> make_progress(const LawPolicy& policy) {
  return std::make_unique<Progress>(policy);
}

}  // namespace lockstep::laws
