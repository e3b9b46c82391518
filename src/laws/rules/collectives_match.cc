// collectives-match: the members of a group issue matching calls in the same order.
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/detail/forward_kinds.h"
#include "lockstep/laws/detail/left_out.h"
#include "lockstep/laws/detail/signature_field.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/call_slots.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/group_lists.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kCollectivesMatch = "collectives-match";

bool is_pairwise(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

bool is_of_forwards(const Event& event) {
  return (kinds_of<ForwardEvent, BackwardEvent, BatchEvent>() >> event.body.index() & 1U) != 0;
}

class CollectivesMatch final : public Law {
 public:
  explicit CollectivesMatch(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kCollectivesMatch); }

  EventKinds reads() const override {
    return kinds_of<CollectiveEvent,
                    GroupEvent,
                    DecisionEvent,
                    WrapEvent,
                    EndEvent,
                    EnvironmentEvent,
                    StepEvent,
                    ForwardEvent,
                    BackwardEvent,
                    BatchEvent>();
  }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_event(const Event& event, const NameTable& /*names*/) override {
    forwards_.on_event(event);
    observe(event);
  }

  void on_cohort(const CohortEvent& event, const NameTable& /*names*/) override {
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    const bool posted = call != nullptr && call->phase == CollectivePhase::kPosted;
    if (call != nullptr && !posted && !ends_left_out(*call)) return;
    const RankRange all = all_ranks(event);
    forwards_.on_cohort(event);
    if (is_of_forwards(*event.first)) return;
    if (std::holds_alternative<StepEvent>(event.first->body) && steps_.shares({}, all)) {
      ++steps_.at({}, all);
    } else if (posted && event.equal() && !is_pairwise(call->signature.op) &&
               is_whole_group(event, *call)) {
      on_call(*event.first, *call, all_ranks(event));
    } else {
      deliver(event, false, [this](const Event& own, RankRange /*who*/) { observe(own); });
    }
  }

  LawResult finish(const NameTable& /*names*/) override {
    std::vector<Finding> findings = std::move(message_findings_);
    std::ranges::move(lists_.findings(), std::back_inserter(findings));
    for (auto& [key, group] : groups_) {
      for (auto& [seq, slot] : group.slots) {
        Slot gap;  // Calls that no rank made end what was common before, however many.
        if (seq > group.first_seq) close(group, group.first_seq, gap);
        close(group, seq, slot);
        group.first_seq = seq + 1;
      }
      std::optional<Finding> finding = extra_before_mismatch(key, group);
      if (!finding && group.mismatch) finding = judge(key, group, *group.mismatch);
      if (!finding) finding = shifted_sites(key, group);
      if (!finding) continue;
      blame_dropped_forward(*finding);
      findings.push_back(std::move(*finding));
    }
    return conclude(kCollectivesMatch,
                    std::move(findings),
                    n_checked_,
                    "collective events from two ranks or more");
  }

 private:
  void observe(const Event& event) {
    worlds_.on_event(event);
    decides_ = decides_ || std::holds_alternative<DecisionEvent>(event.body);
    if (const auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
      if (ends_left_out(*collective)) return on_left_out(event, *collective);
      if (collective->phase != CollectivePhase::kPosted) return;
      if (is_pairwise(collective->signature.op)) {
        on_message(event, *collective);
      } else {
        on_call(event, *collective, one_rank(event));
      }
    } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      lists_.on_group(event, *group);
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

  using CommonCall = calls::CommonCall;
  using Disagreement = calls::Disagreement;
  using GroupState = calls::GroupState;
  using Slot = calls::Slot;
  using Variant = calls::Variant;
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
    calls::Caller& caller = group.callers.at({}, who);
    caller.count(call.signature);
    caller.next_seq = std::max(caller.next_seq, call.seq + 1);
    if (call.seq < group.first_seq) return;  // A slot that was complete: a second post of it.
    arrive(group.slots[call.seq], event, call.signature, who);
    close_complete({event.at.attempt, call.group}, group);
  }

  /// A rank made calls that it did not record: what they were is not known, only that they were made.
  void on_left_out(const Event& event, const CollectiveEvent& call) {
    const GroupKey key{event.at.attempt, call.group};
    GroupState& group = groups_[key];
    calls::Caller& caller = group.callers.at({}, one_rank(event));
    const std::int64_t n = n_left_out(call, caller.next_seq);
    if (n == 0) return;
    // The wrapper's own, as that one before them was: so counts of lines stay comparable.
    caller.count(call.signature, n);
    for (std::int64_t seq = std::max(caller.next_seq, group.first_seq); seq <= call.seq; ++seq) {
      ++group.slots[seq].n_arrived;
    }
    caller.next_seq = call.seq + 1;
    close_complete(key, group);
  }

  void close_complete(const GroupKey& key, GroupState& group) {
    const std::int32_t n_members = members(key);
    while (!group.slots.empty() && n_members > 0) {
      const auto next = group.slots.begin();
      if (next->first != group.first_seq || next->second.n_arrived < n_members) break;
      close(group, group.first_seq++, next->second);
      group.slots.erase(next);
    }
  }

  void arrive(Slot& slot, const Event& event, const Signature& signature, RankRange who) {
    slot.n_arrived += who.n;
    const std::int64_t n_steps = steps_.at({}, who);
    for (Variant& variant : slot.variants) {
      if (!calls::same_site(variant.signature.site, signature.site)) continue;
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
      slot.sites_differ = slot.sites_differ || !calls::same_site(first.site, signature.site);
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
    std::int64_t n_seen = 0;
    for (const Variant& variant : slot.variants) n_seen += std::ssize(variant.ranks);
    if (n_seen > 1) n_checked_ += n_seen - 1;
    if (group.mismatch) calls::follow(*group.mismatch, slot);
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
      const bool known = std::any_of(
          group.site_differences.begin(),
          group.site_differences.end(),
          [&](const Disagreement& earlier) {
            return std::equal(slot.variants.begin(),
                              slot.variants.end(),
                              earlier.slot.variants.begin(),
                              earlier.slot.variants.end(),
                              [](const Variant& a, const Variant& b) {
                                return calls::same_site(a.signature.site, b.signature.site) &&
                                       a.ranks == b.ranks;
                              });
          });
      constexpr std::size_t kEnough = 64;
      if (!known && group.site_differences.size() < kEnough) {
        group.site_differences.push_back({seq, std::move(slot), before});
      }
    }
  }

  /// What most ranks called instead of the odd call.
  static const Variant* norm_of(const Disagreement& found, const Variant& odd) {
    const Variant* norm = nullptr;
    for (const Variant& variant : found.slot.variants) {
      if (&variant == &odd) continue;
      const bool differs = !matches(odd.signature, variant.signature);
      if (differs && (norm == nullptr || variant.ranks.size() > norm->ranks.size()))
        norm = &variant;
    }
    // The smallest side may differ by its site alone: then its peers of equal signature are odd
    // too.
    return norm == nullptr ? &found.slot.variants.front() : norm;
  }

  Finding judge(const GroupKey& key, const GroupState& group, const Disagreement& found) {
    const Variant& odd = calls::offender(group, found.slot);
    const Variant* const norm = norm_of(found, odd);
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
    if (calls::permutes(found, odd.ranks.front(), norm->ranks.front())) {
      finding.message += "; both make the same " + std::to_string(1 + found.loop.size()) +
                         " calls in that loop, in another order: it goes over a dictionary or set "
                         "whose order is not the same on all ranks";
      finding.cause = Cause::kOrderSwap;
      return finding;
    }
    if (field != SignatureField::kOp && calls::is_extra(group, odd, *norm)) {
      finding.message = extra_text(odd) + ": " + finding.message;
    }
    finding.cause = !decides_ && calls::went_further(found) ? Cause::kCallSetDiffers
                                                            : cause(group, found.slot, odd, field);
    return finding;
  }

  /// A rank that left a backward out meets the others' reduction with whatever it calls next.
  void blame_dropped_forward(Finding& finding) const {
    const std::optional<std::int32_t> step = forwards_.first_dropped(finding.attempt);
    if (!step || (finding.step && *step > *finding.step)) return;
    finding.cause = Cause::kNanSkipOneRank;
    finding.message += "; " + forwards_.dropped_text(finding.attempt);
  }

  /// "rank 2 calls all_reduce once more than the others at train.cc:12".
  static std::string extra_text(const Variant& odd) {
    return ranks_text(odd.ranks) + (odd.ranks.size() == 1 ? " calls " : " call ") +
           std::string(name_of(odd.signature.op)) + " once more than the others at " +
           odd.signature.site.text();
  }

  /// A call too many fits the others' signature by chance and shifts all that follow, until one does
  /// not fit: the place of that one says little.
  std::optional<Finding> extra_before_mismatch(const GroupKey& key, const GroupState& group) const {
    if (!group.mismatch) return std::nullopt;
    for (const Disagreement& found : group.site_differences) {
      const Variant& odd = calls::offender(group, found.slot);
      for (const Variant& norm : found.slot.variants) {
        if (&norm == &odd || !calls::is_extra(group, odd, norm)) continue;
        Finding finding = describe(key, found, odd, norm);
        finding.field = "site";
        finding.message = extra_text(odd) +
                          ", which shifts all later ones: " + calls_text(odd, norm) + "; call " +
                          std::to_string(group.mismatch->seq) + " is the first that does not match";
        finding.cause = cause_of_extra(odd, norm);
        return finding;
      }
    }
    return std::nullopt;
  }

  Cause cause_of_extra(const Variant& odd, const Variant& other) const {
    const bool odd_is_zero = odd.ranks.size() == 1 && odd.ranks.front() == Rank{0};
    if (odd_is_zero || (!decides_ && is_aside(other))) return Cause::kRank0OnlyCollective;
    // A call of these ranks alone. Where ranks decide things, a decision may be the cause (law 20).
    return decides_ ? Cause::kNone : Cause::kCodeSkew;
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
    const bool extra = calls::surplus(group, slot, odd) > 0;
    if (!extra && calls::makes(group, odd, other.signature) &&
        calls::makes(group, other, odd.signature)) {
      return Cause::kOrderSwap;
    }
    return extra ? cause_of_extra(odd, other) : Cause::kNone;
  }

  /// Rank 0 alone in what a save or a log does, while the others train.
  static bool is_aside(const Variant& variant) {
    return variant.ranks.size() == 1 && variant.ranks.front() == Rank{0} &&
           variant.signature.op != CollectiveOp::kAllReduce && variant.signature.site.known();
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
        if (const Variant* norm = calls::shifted_against(group, found.slot, odd)) {
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
  ForwardKinds forwards_;
  std::map<GroupKey, std::int32_t> sizes_;  // Members of a group, as far as wrappers say.
  std::map<GroupKey, GroupState> groups_;
  std::map<MessageKey, Signature> messages_;
  RankWrapperMap<std::int64_t> steps_;  // Of each rank's optimizers: wrappers do not matter.
  bool decides_ = false;                // There are decision events.
  std::set<std::int32_t> died_;         // Attempts in which a rank died.
  std::vector<Finding> message_findings_;
  GroupLists lists_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_collectives_match(const LawPolicy& policy) {
  return std::make_unique<CollectivesMatch>(policy);
}

}  // namespace lockstep::laws
