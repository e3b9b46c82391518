// collectives-match: the members of a group issue matching calls in the same order.
#include <cstring>
#include <deque>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/signature_field.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kCollectivesMatch = "collectives-match";

bool is_pairwise(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

/// A call site, or the operation where no site is known: what is counted to distinguish an extra
/// call from a missing one.
struct CallKey {
  std::string site;
  CollectiveOp op = CollectiveOp::kBarrier;
  friend auto operator<=>(const CallKey&, const CallKey&) = default;
};

bool same_site(const CallSite& a, const CallSite& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

CallKey call_key(const Signature& signature) {
  if (signature.site.known()) return {signature.site.text(), CollectiveOp::kBarrier};
  return {"", signature.op};
}

/// Calls that look the same at one sequence number, and the ranks that made them.
struct Variant {
  Signature signature;
  std::int32_t step = 0;
  std::vector<Rank> ranks;
  std::int64_t n_steps = 0;  ///< Of all optimizers of the lowest rank, until then.
};

/// One sequence number, while its members arrive.
struct Slot {
  std::vector<Variant> variants;
  std::int32_t n_arrived = 0;
  bool mismatch = false;  ///< Some field differs.
  bool sites_differ = false;
};

/// A call that all members made alike.
struct CommonCall {
  CallSite site = {};
  std::int64_t n_steps = 0;
};

struct Disagreement {
  std::int64_t seq = 0;
  Slot slot;
  CommonCall before;  ///< The call before, if it was alike.
};

/// What one rank called in one group so far.
struct Caller {
  std::int64_t n_calls = 0;
  std::vector<std::pair<CallSite, std::int64_t>> by_site;
  std::map<CallKey, std::int64_t> by_key;  // Calls without a site.

  void count(const Signature& signature) {
    ++n_calls;
    if (!signature.site.known()) {
      ++by_key[call_key(signature)];
      return;
    }
    for (auto& [site, n] : by_site) {
      if (!same_site(site, signature.site)) continue;
      ++n;
      return;
    }
    by_site.emplace_back(signature.site, 1);
  }

  std::int64_t n_of(const Signature& signature) const {
    if (!signature.site.known()) {
      const auto known = by_key.find(call_key(signature));
      return known == by_key.end() ? 0 : known->second;
    }
    for (const auto& [site, n] : by_site) {
      if (same_site(site, signature.site)) return n;
    }
    return 0;
  }
};

struct GroupState {
  std::int64_t first_seq = 0;  ///< Of the oldest open slot.
  std::deque<Slot> slots;
  CommonCall last;                             ///< The call before the oldest open slot.
  RankWrapperMap<Caller> callers;              ///< Of ranks alone: wrappers do not matter here.
  std::optional<Disagreement> mismatch;        ///< The first one; what follows it is a consequence.
  std::vector<Disagreement> site_differences;  ///< The first of each pair of sites.

  const Caller* find(Rank rank) const {
    const auto caller = callers.all().find({to_int(rank), {}});
    return caller == callers.all().end() ? nullptr : &caller->second;
  }

  std::int64_t n_of(Rank rank, const Signature& signature) const {
    const Caller* const caller = find(rank);
    return caller == nullptr ? 0 : caller->n_of(signature);
  }
};

class CollectivesMatch final : public Law {
 public:
  explicit CollectivesMatch(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kCollectivesMatch); }

  EventKinds reads() const override {
    return kinds_of<CollectiveEvent,
                    DecisionEvent,
                    WrapEvent,
                    EndEvent,
                    EnvironmentEvent,
                    StepEvent>();
  }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_event(const Event& event, const NameTable& /*names*/) override {
    worlds_.on_event(event);
    decides_ = decides_ || std::holds_alternative<DecisionEvent>(event.body);
    if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
      if (collective->phase != CollectivePhase::kPosted) return;
      if (is_pairwise(collective->signature.op)) {
        on_message(event, *collective);
      } else {
        on_call(event, *collective, one_rank(event));
      }
    } else if (std::holds_alternative<StepEvent>(event.body)) {
      ++steps_.at({}, one_rank(event));
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      sizes_[{event.at.attempt, wrap->group}] = wrap->n_ranks;
    } else if (const auto* end = std::get_if<EndEvent>(&event.body)) {
      const bool died =
          end->outcome == EndOutcome::kKilled || end->outcome == EndOutcome::kException;
      if (died) died_.insert(event.at.attempt);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    if (call != nullptr && call->phase != CollectivePhase::kPosted) return;
    const RankRange all = all_ranks(event);
    if (std::holds_alternative<StepEvent>(event.first->body) && steps_.shares({}, all)) {
      ++steps_.at({}, all);
    } else if (call != nullptr && event.equal() && !is_pairwise(call->signature.op) &&
               is_whole_group(event, *call)) {
      on_call(*event.first, *call, all_ranks(event));
    } else {
      Law::on_cohort(event, names);
    }
  }

  LawResult finish(const NameTable& /*names*/) override {
    std::vector<Finding> findings = std::move(message_findings_);
    for (auto& [key, group] : groups_) {
      for (std::size_t i = 0; i < group.slots.size(); ++i) {
        close(group, group.first_seq + static_cast<std::int64_t>(i), group.slots[i]);
      }
      if (group.mismatch) {
        findings.push_back(judge(key, group, *group.mismatch));
      } else if (auto finding = shifted_sites(key, group)) {
        findings.push_back(std::move(*finding));
      }
    }
    return conclude(kCollectivesMatch,
                    std::move(findings),
                    n_checked_,
                    "collective events from two ranks or more");
  }

 private:
  using GroupKey = std::pair<std::int32_t, std::int32_t>;  // Attempt and group.

  /// Whether a cohort is the group that the call is made in, and its calls were equal until now.
  bool is_whole_group(const CohortEvent& event, const CollectiveEvent& call) {
    const GroupKey group{event.first->at.attempt, call.group};
    const RankRange all = all_ranks(event);
    return members(group) == event.n_ranks() && groups_[group].callers.shares({}, all) &&
           steps_.shares({}, all);
  }

  void on_call(const Event& event, const CollectiveEvent& call, RankRange who) {
    GroupState& group = groups_[{event.at.attempt, call.group}];
    group.callers.at({}, who).count(call.signature);
    const std::int64_t place = call.seq - group.first_seq;
    if (place < 0) return;  // A slot that was complete: a second post under one number.
    if (place >= static_cast<std::int64_t>(group.slots.size())) {
      group.slots.resize(static_cast<std::size_t>(place) + 1);
    }
    arrive(group.slots[static_cast<std::size_t>(place)], event, call.signature, who);
    const std::int32_t n_members = members({event.at.attempt, call.group});
    while (!group.slots.empty() && n_members > 0 && group.slots.front().n_arrived >= n_members) {
      close(group, group.first_seq++, group.slots.front());
      group.slots.pop_front();
    }
  }

  void arrive(Slot& slot, const Event& event, const Signature& signature, RankRange who) {
    slot.n_arrived += who.n;
    const std::int64_t n_steps = steps_.at({}, who);
    for (Variant& variant : slot.variants) {
      if (!same_site(variant.signature.site, signature.site)) continue;
      if (!matches(variant.signature, signature)) continue;
      const std::size_t n_before = variant.ranks.size();
      append(variant.ranks, who);
      // The lowest rank represents its side, whatever the order of arrival.
      if (variant.ranks[n_before] < variant.ranks.front()) {
        std::swap(variant.ranks.front(), variant.ranks[n_before]);
        variant.step = event.at.opt;
        variant.n_steps = n_steps;
      }
      return;
    }
    if (!slot.variants.empty()) {
      const Signature& first = slot.variants.front().signature;
      slot.sites_differ = slot.sites_differ || !same_site(first.site, signature.site);
      slot.mismatch = slot.mismatch || !matches(first, signature);
    }
    slot.variants.push_back({signature, event.at.opt, {}, n_steps});
    append(slot.variants.back().ranks, who);
  }

  std::int32_t members(const GroupKey& group) const {
    if (group.second == 0) return worlds_.of(group.first);
    const auto known = sizes_.find(group);
    return known == sizes_.end() ? 0 : known->second;
  }

  void close(GroupState& group, std::int64_t seq, Slot& slot) {
    if (slot.n_arrived > 1) n_checked_ += slot.n_arrived - 1;
    if (!slot.mismatch && !slot.sites_differ) {
      group.last = {};
      if (slot.variants.empty()) return;
      group.last = {slot.variants.front().signature.site, slot.variants.front().n_steps};
      return;
    }
    const CommonCall before = std::exchange(group.last, {});
    for (Variant& variant : slot.variants) std::sort(variant.ranks.begin(), variant.ranks.end());
    std::sort(slot.variants.begin(), slot.variants.end(), [](const Variant& a, const Variant& b) {
      return a.ranks.front() < b.ranks.front();
    });
    if (slot.mismatch && !group.mismatch) {
      group.mismatch = Disagreement{seq, std::move(slot), before};
    } else if (slot.sites_differ && !group.mismatch) {
      const bool known =
          std::any_of(group.site_differences.begin(),
                      group.site_differences.end(),
                      [&](const Disagreement& earlier) {
                        return std::equal(slot.variants.begin(),
                                          slot.variants.end(),
                                          earlier.slot.variants.begin(),
                                          earlier.slot.variants.end(),
                                          [](const Variant& a, const Variant& b) {
                                            return same_site(a.signature.site, b.signature.site) &&
                                                   a.ranks == b.ranks;
                                          });
                      });
      constexpr std::size_t kEnough = 64;
      if (!known && group.site_differences.size() < kEnough) {
        group.site_differences.push_back({seq, std::move(slot), before});
      }
    }
  }

  /// How much more often the ranks of `variant` made its call than the ranks of other variants did.
  static std::int64_t surplus(const GroupState& group, const Slot& slot, const Variant& variant) {
    const auto count_on = [&](Rank rank) { return group.n_of(rank, variant.signature); };
    std::int64_t elsewhere = 0;
    for (const Variant& other : slot.variants) {
      if (&other != &variant) elsewhere = std::max(elsewhere, count_on(other.ranks.front()));
    }
    return count_on(variant.ranks.front()) - elsewhere;
  }

  /// The side that is out of step: the smaller one; among equals the one whose call the others make
  /// less often (an extra call); and without that evidence the one that differs from the lowest
  /// rank.
  static const Variant& offender(const GroupState& group, const Slot& slot) {
    const Variant* best = &slot.variants.front();
    for (const Variant& variant : slot.variants) {
      const auto rank_of = [&](const Variant& v) {
        return std::tuple(v.ranks.size(), -surplus(group, slot, v), -to_int(v.ranks.front()));
      };
      if (rank_of(variant) < rank_of(*best)) best = &variant;
    }
    return *best;
  }

  Finding judge(const GroupKey& key, const GroupState& group, const Disagreement& found) {
    const Variant& odd = offender(group, found.slot);
    const Variant* norm = nullptr;
    for (const Variant& variant : found.slot.variants) {
      if (&variant == &odd) continue;
      const bool differs = !matches(odd.signature, variant.signature);
      if (differs && (norm == nullptr || variant.ranks.size() > norm->ranks.size()))
        norm = &variant;
    }
    // The smallest side may differ by its site alone: then its peers of equal signature are odd
    // too.
    if (norm == nullptr) norm = &found.slot.variants.front();
    Finding finding = describe(key, found, odd, *norm);
    const SignatureField field = first_difference(odd.signature, norm->signature);
    finding.field = name_of(field);
    finding.ranks.clear();
    for (const Variant& variant : found.slot.variants) {
      if (!matches(odd.signature, variant.signature)) continue;
      finding.ranks.insert(finding.ranks.end(), variant.ranks.begin(), variant.ranks.end());
    }
    std::sort(finding.ranks.begin(), finding.ranks.end());
    finding.message = "mismatched collectives: " + calls_text(odd, *norm) + "; field '" +
                      finding.field + "' differs";
    finding.cause = !decides_ && went_further(found) ? Cause::kCallSetDiffers
                                                     : cause(group, found.slot, odd, field);
    return finding;
  }

  Cause cause(const GroupState& group,
              const Slot& slot,
              const Variant& odd,
              SignatureField field) const {
    if (field == SignatureField::kLayout) return Cause::kBucketOrderDiffers;
    if (field == SignatureField::kCount || field == SignatureField::kSplits) {
      return Cause::kShapeMismatchCompletes;
    }
    if (field != SignatureField::kOp) return Cause::kDtypeRedopRootMismatch;
    const Variant& other =
        &odd == &slot.variants.front() ? slot.variants.back() : slot.variants.front();
    const bool extra = surplus(group, slot, odd) > 0;
    if (!extra && makes(group, odd, other.signature) && makes(group, other, odd.signature)) {
      return Cause::kOrderSwap;
    }
    if (!extra) return Cause::kNone;
    const bool odd_is_zero = odd.ranks.size() == 1 && odd.ranks.front() == Rank{0};
    if (odd_is_zero || (!decides_ && is_aside(other))) return Cause::kRank0OnlyCollective;
    // A call of these ranks alone. Where ranks decide things, a decision may be the cause (law 20).
    return decides_ ? Cause::kNone : Cause::kCodeSkew;
  }

  /// Whether all ranks had just made one call, and some of them make it again, without a step of an
  /// optimizer in between, while others went on: a loop that goes over different things.
  static bool went_further(const Disagreement& found) {
    if (!found.before.site.known()) return false;
    bool again = false;
    bool elsewhere = false;
    for (const Variant& variant : found.slot.variants) {
      const bool same = same_site(variant.signature.site, found.before.site);
      again = again || (same && variant.n_steps == found.before.n_steps);
      elsewhere = elsewhere || !same;
    }
    return again && elsewhere;
  }

  /// Rank 0 alone in what a save or a log does, while the others train.
  static bool is_aside(const Variant& variant) {
    return variant.ranks.size() == 1 && variant.ranks.front() == Rank{0} &&
           variant.signature.op != CollectiveOp::kAllReduce && variant.signature.site.known();
  }

  /// Whether the ranks of `variant` make this call too, sooner or later.
  static bool makes(const GroupState& group, const Variant& variant, const Signature& call) {
    return group.n_of(variant.ranks.front(), call) > 0;
  }

  static Finding describe(const GroupKey& key,
                          const Disagreement& found,
                          const Variant& odd,
                          const Variant& norm) {
    Finding finding;
    finding.attempt = key.first;
    finding.group = key.second;
    finding.event = "collective";
    finding.seq = found.seq;
    if (norm.step >= 0) finding.step = norm.step;
    finding.ranks = odd.ranks;
    finding.site = odd.signature.site.text();
    finding.other_site = norm.signature.site.text();
    return finding;
  }

  /// "rank 0 called barrier at save.py:12 where ranks 1-3 called all_reduce(f32[4], sum)".
  static std::string calls_text(const Variant& odd, const Variant& norm) {
    return ranks_text(odd.ranks) + " called " + signature_text(odd.signature) + " where " +
           ranks_text(norm.ranks) + " called " + signature_text(norm.signature);
  }

  /// Two sites of one collective are a usual idiom. They mean an extra call only if one side
  /// made more calls than the other, its site more often, and the other side's site comes on it
  /// too, later.
  std::optional<Finding> shifted_sites(const GroupKey& key, const GroupState& group) const {
    if (died_.contains(key.first)) return std::nullopt;  // A death explains unequal counts.
    for (const Disagreement& found : group.site_differences) {
      for (const Variant& odd : found.slot.variants) {
        if (const Variant* norm = shifted_against(group, found.slot, odd)) {
          Finding finding = describe(key, found, odd, *norm);
          finding.field = "site";
          finding.message = "an extra call shifts all later ones: " + calls_text(odd, *norm);
          if (odd.ranks == std::vector<Rank>{Rank{0}}) finding.cause = Cause::kRank0OnlyCollective;
          return finding;
        }
      }
    }
    return std::nullopt;
  }

  /// The side whose calls come one later on the ranks of `odd`, or null.
  static const Variant* shifted_against(const GroupState& group,
                                        const Slot& slot,
                                        const Variant& odd) {
    const Caller& odd_calls = *group.find(odd.ranks.front());
    for (const Variant& norm : slot.variants) {
      if (!odd.signature.site.known() || !norm.signature.site.known()) continue;
      const Caller& norm_calls = *group.find(norm.ranks.front());
      const bool more_calls = odd_calls.n_calls > norm_calls.n_calls;
      const bool more_here = odd_calls.n_of(odd.signature) > norm_calls.n_of(odd.signature);
      const bool comes_too = odd_calls.n_of(norm.signature) >= norm_calls.n_of(norm.signature);
      if (more_calls && more_here && comes_too) return &norm;
    }
    return nullptr;
  }

  // Messages pair by (source, target, tag), each pair with its own numbers.
  void on_message(const Event& event, const CollectiveEvent& call) {
    if (call.group != 0) return;  // Peers are group ranks; only the world's are ranks.
    const bool sends = call.signature.op == CollectiveOp::kSend;
    const std::int32_t self = to_int(event.rank);
    const std::int32_t peer = call.signature.peer;
    const MessageKey key{
        event.at.attempt, sends ? self : peer, sends ? peer : self, call.signature.tag, call.seq};
    const auto [other, is_first] = messages_.try_emplace(key, call.signature);
    if (is_first || other->second.op == call.signature.op) return;
    ++n_checked_;
    const Signature& mine = call.signature;
    const Signature& theirs = other->second;
    SignatureField field = SignatureField::kNone;
    if (mine.dtype != theirs.dtype) {
      field = SignatureField::kDtype;
    } else if (mine.count != theirs.count) {
      field = SignatureField::kCount;
    }
    if (field != SignatureField::kNone) {
      const Signature& sent = sends ? mine : theirs;
      const Signature& received = sends ? theirs : mine;
      Finding finding;
      finding.attempt = event.at.attempt;
      finding.event = "collective";
      finding.seq = call.seq;
      if (event.at.opt >= 0) finding.step = event.at.opt;
      finding.field = name_of(field);
      finding.ranks = {Rank{std::get<2>(key)}};
      finding.site = received.site.text();
      finding.other_site = sent.site.text();
      finding.message = "mismatched message: rank " + std::to_string(std::get<1>(key)) +
                        " called " + signature_text(sent) + " where rank " +
                        std::to_string(std::get<2>(key)) + " called " + signature_text(received);
      message_findings_.push_back(std::move(finding));
    }
    messages_.erase(other);
  }

  using MessageKey =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int64_t>;

  Worlds worlds_;
  std::map<GroupKey, std::int32_t> sizes_;  // Members of a group, as far as wrappers say.
  std::map<GroupKey, GroupState> groups_;
  std::map<MessageKey, Signature> messages_;
  RankWrapperMap<std::int64_t> steps_;  // Of each rank's optimizers: wrappers do not matter.
  bool decides_ = false;                // There are decision events.
  std::set<std::int32_t> died_;         // Attempts in which a rank died.
  std::vector<Finding> message_findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_collectives_match(const LawPolicy& policy) {
  return std::make_unique<CollectivesMatch>(policy);
}

}  // namespace lockstep::laws
