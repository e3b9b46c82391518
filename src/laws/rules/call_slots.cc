#include "lockstep/laws/rules/call_slots.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "lockstep/laws/detail/signature_field.h"

namespace lockstep::laws::calls {

namespace {

CallKey call_key(const Signature& signature) {
  if (signature.site.known()) return {signature.site.text(), CollectiveOp::kBarrier};
  return {"", signature.op};
}

const Signature* call_of(const Slot& slot, Rank rank) {
  for (const Variant& variant : slot.variants) {
    if (std::find(variant.ranks.begin(), variant.ranks.end(), rank) != variant.ranks.end()) {
      return &variant.signature;
    }
  }
  return nullptr;
}

/// The line that all calls of a slot were made at, or an unknown one.
CallSite common_site(const Slot& slot) {
  if (slot.variants.empty() || slot.sites_differ) return {};
  return slot.variants.front().signature.site;
}

/// Keeps what follows a mismatch, while it is the same loop.
void follow(Disagreement& found, const Slot& slot) {
  constexpr std::size_t kLongest = 256;
  const CallSite site = common_site(found.slot);
  found.loop_ended = found.loop_ended || !site.known() || found.loop.size() == kLongest ||
                     slot.sites_differ || !same_site(site, common_site(slot));
  if (!found.loop_ended) found.loop.push_back(slot);
}

/// Whether a slot's sites differ as those of an earlier one did, between the same ranks.
bool is_repeated(const std::vector<Disagreement>& earlier, const Slot& slot) {
  return std::ranges::any_of(earlier, [&](const Disagreement& one) {
    return std::ranges::equal(
        slot.variants, one.slot.variants, [](const Variant& a, const Variant& b) {
          return same_site(a.signature.site, b.signature.site) && a.ranks == b.ranks;
        });
  });
}

/// Whether a rank makes the calls of another at this line, too: as many, or as many in each step.
bool makes_as_often(const Caller& one, const Caller& other, const CallSite& site) {
  const SiteCalls* const own = one.find(site);
  const SiteCalls* const usual = other.find(site);
  if (own == nullptr || usual == nullptr) return false;
  const bool knows_steps = own->n_steps > 0 && usual->n_steps > 0;
  return own->n >= usual->n ||
         (knows_steps && own->n_before * usual->n_steps >= usual->n_before * own->n_steps);
}

/// Keeps of a slot what says why calls differ. Returns how many calls were compared with another.
std::int64_t close(GroupState& group, std::int64_t seq, Slot& slot) {
  std::int64_t n_seen = 0;
  for (const Variant& variant : slot.variants) n_seen += std::ssize(variant.ranks);
  const std::int64_t n_compared = std::max<std::int64_t>(n_seen - 1, 0);
  if (group.mismatch) follow(*group.mismatch, slot);
  const CommonCall before = std::exchange(group.last, {});
  if (!slot.mismatch && !slot.sites_differ) {
    if (!slot.variants.empty()) {
      group.last = {slot.variants.front().signature.site, slot.variants.front().n_steps};
    }
    return n_compared;
  }
  if (group.mismatch) return n_compared;
  for (Variant& variant : slot.variants) std::ranges::sort(variant.ranks);
  std::ranges::sort(slot.variants, [](const Variant& a, const Variant& b) {
    return a.ranks.front() < b.ranks.front();
  });
  constexpr std::size_t kEnough = 64;
  if (slot.mismatch) {
    group.mismatch = Disagreement{seq, std::move(slot), before};
  } else if (group.site_differences.size() < kEnough &&
             !is_repeated(group.site_differences, slot)) {
    group.site_differences.push_back({seq, std::move(slot), before});
  }
  return n_compared;
}

}  // namespace

bool same_site(const CallSite& a, const CallSite& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

void Slot::arrive(const Signature& signature, const Doing& doing, RankRange who) {
  n_arrived += who.n;
  for (Variant& variant : variants) {
    if (!same_site(variant.signature.site, signature.site)) continue;
    if (!matches(variant.signature, signature)) continue;
    const std::size_t n_before = variant.ranks.size();
    append(variant.ranks, who);
    // The lowest rank represents its side, whatever the order of arrival.
    if (variant.ranks[n_before] < variant.ranks.front()) {
      std::swap(variant.ranks.front(), variant.ranks[n_before]);
      variant.step = doing.step;
      variant.n_steps = doing.n_steps;
      variant.evaluates = doing.evaluates;
    }
    return;
  }
  if (!variants.empty()) {
    const Signature& first = variants.front().signature;
    sites_differ = sites_differ || !same_site(first.site, signature.site);
    mismatch = mismatch || !matches(first, signature);
  }
  variants.push_back({signature, doing.step, {}, doing.n_steps, doing.evaluates});
  append(variants.back().ranks, who);
}

void GroupState::leave_out(std::int64_t first_call, std::int64_t last_call) {
  if (last_call < first_seq) return;  // A damaged trace.
  ++left_out[std::max(first_call, first_seq)];
  --left_out[last_call + 1];
}

std::int64_t GroupState::close_complete(std::int32_t n_members) {
  std::int64_t n_compared = 0;
  while (!slots.empty() || !left_out.empty()) {
    for (; !left_out.empty() && left_out.begin()->first <= first_seq;
         left_out.erase(left_out.begin())) {
      n_leaving += left_out.begin()->second;
    }
    const auto next = slots.begin();
    const bool recorded = next != slots.end() && next->first == first_seq;
    if (n_leaving + (recorded ? next->second.n_arrived : 0) < n_members) break;
    if (recorded) {
      n_compared += close(*this, first_seq++, next->second);
      slots.erase(next);
      continue;
    }
    // All left it out, and with it all that follow until something else is known.
    Slot gap;
    close(*this, first_seq, gap);
    first_seq = left_out.begin()->first;
    if (next != slots.end()) first_seq = std::min(first_seq, next->first);
  }
  return n_compared;
}

std::int64_t GroupState::close_all() {
  std::int64_t n_compared = 0;
  for (auto& [seq, slot] : slots) {
    Slot gap;  // Calls that no rank made end what was common before, however many.
    if (seq > first_seq) close(*this, first_seq, gap);
    n_compared += close(*this, seq, slot);
    first_seq = seq + 1;
  }
  slots.clear();
  return n_compared;
}

void Caller::count(const Signature& signature, std::int64_t n_steps, std::int64_t n) {
  n_calls += n;
  if (!signature.site.known()) {
    by_key[call_key(signature)] += n;
    return;
  }
  auto known = std::ranges::find_if(
      by_site, [&](const SiteCalls& calls) { return same_site(calls.site, signature.site); });
  if (known == by_site.end()) known = by_site.insert(known, {signature.site, 0, n_steps});
  if (known->n_steps != n_steps) {
    known->n_steps = n_steps;
    known->n_before = known->n;
  }
  known->n += n;
}

const SiteCalls* Caller::find(const CallSite& site) const {
  const auto known = std::ranges::find_if(
      by_site, [&](const SiteCalls& calls) { return same_site(calls.site, site); });
  return known == by_site.end() ? nullptr : &*known;
}

std::int64_t Caller::n_of(const Signature& signature) const {
  if (!signature.site.known()) {
    const auto known = by_key.find(call_key(signature));
    return known == by_key.end() ? 0 : known->second;
  }
  const SiteCalls* const calls = find(signature.site);
  return calls == nullptr ? 0 : calls->n;
}

const Caller* GroupState::find(Rank rank) const {
  const auto caller = callers.all().find({to_int(rank), {}});
  return caller == callers.all().end() ? nullptr : &caller->second;
}

std::int64_t GroupState::n_of(Rank rank, const Signature& signature) const {
  const Caller* const caller = find(rank);
  return caller == nullptr ? 0 : caller->n_of(signature);
}

std::int64_t surplus(const GroupState& group, const Slot& slot, const Variant& variant) {
  const auto count_on = [&](Rank rank) { return group.n_of(rank, variant.signature); };
  std::int64_t elsewhere = 0;
  for (const Variant& other : slot.variants) {
    if (&other != &variant) elsewhere = std::max(elsewhere, count_on(other.ranks.front()));
  }
  return count_on(variant.ranks.front()) - elsewhere;
}

const Variant* evaluating_alone(const Slot& slot) {
  const Variant* alone = nullptr;
  for (const Variant& variant : slot.variants) {
    if (!variant.evaluates) continue;
    const bool of_a_wrapper = *variant.signature.site.scope != '\0';
    if (!of_a_wrapper || variant.ranks != std::vector<Rank>{Rank{0}}) return nullptr;
    alone = &variant;
  }
  return alone;
}

const Variant& offender(const GroupState& group, const Slot& slot) {
  const Variant* best = &slot.variants.front();
  for (const Variant& variant : slot.variants) {
    const auto rank_of = [&](const Variant& v) {
      return std::tuple(v.ranks.size(), -surplus(group, slot, v), -to_int(v.ranks.front()));
    };
    if (rank_of(variant) < rank_of(*best)) best = &variant;
  }
  return *best;
}

bool is_extra(const GroupState& group, const Variant& odd, const Variant& norm) {
  const Signature& own = odd.signature;
  const Signature& usual = norm.signature;
  if (!own.site.known() || !usual.site.known() || same_site(own.site, usual.site)) return false;
  const auto n_of = [&](const Variant& side, const Signature& call) {
    return group.n_of(side.ranks.front(), call);
  };
  const std::int64_t n_more = n_of(odd, own) - n_of(norm, own);
  const std::int64_t n_fewer = n_of(norm, usual) - n_of(odd, usual);
  return n_more > 0 && n_of(odd, usual) > 0 && n_fewer <= n_more;
}

bool is_skipped(const GroupState& group, const Variant& odd, const Variant& norm) {
  const CallSite& left_out = norm.signature.site;
  const CallSite& instead = odd.signature.site;
  if (!left_out.known() || !instead.known() || *left_out.scope != '\0') return false;
  const Caller& own = *group.find(odd.ranks.front());
  const Caller& usual = *group.find(norm.ranks.front());
  const SiteCalls* const own_left_out = own.find(left_out);
  const SiteCalls* const own_instead = own.find(instead);
  const SiteCalls* const left_out_there = usual.find(left_out);
  const SiteCalls* const instead_there = usual.find(instead);
  const bool all_known = own_left_out != nullptr && own_instead != nullptr &&
                         left_out_there != nullptr && instead_there != nullptr;
  if (!all_known || own_instead->n < 2) return false;
  // The lines of a rank are in the order in which it first came to them.
  if (left_out_there >= instead_there) return false;
  const std::int64_t n_alike = left_out_there->n - instead_there->n;
  const std::int64_t n_more = own_instead->n - instead_there->n;
  return left_out_there->n > own_left_out->n && (n_alike == 0 || n_alike == 1) &&
         (n_more == 0 || n_more == 1);
}

bool went_further(const Disagreement& found) {
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

bool makes(const GroupState& group, const Variant& variant, const Signature& call) {
  return group.n_of(variant.ranks.front(), call) > 0;
}

const Variant* shifted_against(const GroupState& group, const Slot& slot, const Variant& odd) {
  const Caller& odd_calls = *group.find(odd.ranks.front());
  for (const Variant& norm : slot.variants) {
    if (!odd.signature.site.known() || !norm.signature.site.known()) continue;
    const Caller& norm_calls = *group.find(norm.ranks.front());
    const bool more_calls = odd_calls.n_calls > norm_calls.n_calls;
    const bool more_here = odd_calls.n_of(odd.signature) > norm_calls.n_of(odd.signature);
    const bool comes_too = makes_as_often(odd_calls, norm_calls, norm.signature.site);
    if (more_calls && more_here && comes_too) return &norm;
  }
  return nullptr;
}

bool permutes(const Disagreement& found, Rank one, Rank other) {
  std::vector<const Signature*> left;
  std::vector<const Signature*> right;
  const auto add = [&](const Slot& slot) {
    left.push_back(call_of(slot, one));
    right.push_back(call_of(slot, other));
  };
  add(found.slot);
  for (const Slot& slot : found.loop) add(slot);
  const auto missing = [](const Signature* call) { return call == nullptr; };
  return left.size() > 1 && std::none_of(left.begin(), left.end(), missing) &&
         std::none_of(right.begin(), right.end(), missing) &&
         std::is_permutation(
             left.begin(), left.end(), right.begin(), [](const Signature* a, const Signature* b) {
               return matches(*a, *b);
             });
}

}  // namespace lockstep::laws::calls
