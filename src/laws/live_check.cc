#include "lockstep/laws/live_check.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "lockstep/laws/law_id.h"
#include "lockstep/laws/rules/detail/calls/left_out.h"

namespace lockstep {

namespace {

// progress: whether calls complete and all ranks end alike. samples-covered: what the rest of the
// epoch brings. checkpoint-whole: the parts that are still to come. metric-true: samples of ranks
// that are still to come. trained-set: what the last windows of an epoch leave over, all epochs together.
constexpr std::array<LawId, 5> kAtTheEnd = {LawId::kProgress,
                                            LawId::kSamplesCovered,
                                            LawId::kCheckpointWhole,
                                            LawId::kMetricTrue,
                                            LawId::kTrainedSet};

constexpr std::string_view kCalls = name_of(LawId::kCollectivesMatch);

std::vector<std::string> ids_of_steps() {
  std::vector<std::string> ids;
  for (const LawInfo& law : trace_laws()) {
    if (!waits_for_the_end(law.id) && law.id != kCalls) ids.emplace_back(law.id);
  }
  return ids;
}

}  // namespace

bool waits_for_the_end(std::string_view law) {
  const std::optional<LawId> id = parse_enum<LawId>(law);
  return id && std::find(kAtTheEnd.begin(), kAtTheEnd.end(), *id) != kAtTheEnd.end();
}

Result<LiveCheck> LiveCheck::make(const TraceHeader& header,
                                  const LawPolicy& policy,
                                  const std::shared_ptr<NameTable>& names) {
  LawPolicy full = policy;
  full.n_ranks = header.n_ranks;
  full.exact = header.exact;
  full.watched = header.watched;
  full.coverage = header.coverage;
  full.one_clock = header.has_one_clock();
  full.more_follows = true;
  Result<LawSet> laws = LawSet::make(full, ids_of_steps());
  if (!laws.ok()) return laws.error();
  const std::array<std::string, 1> of_calls = {std::string(kCalls)};
  Result<LawSet> calls = LawSet::make(full, of_calls);
  if (!calls.ok()) return calls.error();
  return LiveCheck(std::move(laws).value(), std::move(calls).value(), header.n_ranks, names);
}

LiveCheck::LiveCheck(LawSet laws,
                     LawSet calls,
                     std::int32_t n_ranks,
                     std::shared_ptr<NameTable> names)
    : laws_(std::move(laws)),
      calls_(std::move(calls)),
      n_ranks_(n_ranks),
      names_(std::move(names)),
      ranks_(static_cast<std::size_t>(n_ranks)),
      waiting_(names_) {
  waiting_.ensure_ranks(n_ranks);
}

LiveCheck::LiveCheck(LiveCheck&&) noexcept = default;
LiveCheck& LiveCheck::operator=(LiveCheck&&) noexcept = default;
LiveCheck::~LiveCheck() = default;

void LiveCheck::on_event(const Event& event, const NameTable& names) {
  calls_.on_event(event, names);
  const bool begins_step = note(ranks_[to_index(event.rank)], event);
  waiting_.on_event(event, names);
  if (begins_step) advance();
}

/// A step begins with the first forward, or batch of the module inside, after the one before ended.
bool LiveCheck::note(RankState& state, const Event& event) {
  if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
    note_call(state, *call);
  } else if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
    state.calls.try_emplace(group->group, 0);
  } else if (std::holds_alternative<StepEvent>(event.body)) {
    state.stepped = true;
  }
  const auto* forward = std::get_if<ForwardEvent>(&event.body);
  const bool begins =
      forward != nullptr ? forward->training : std::holds_alternative<BatchEvent>(event.body);
  if (!begins || !state.stepped || state.n_open > 0) return false;
  Boundary boundary{.n_events = waiting_.events(event.rank).size(),
                    .attempt = event.at.attempt,
                    .calls = state.calls};
  const bool same = boundary.attempt == state.last.attempt && boundary.calls == state.last.calls;
  boundary.nth = same ? state.last.nth + 1 : 0;
  state.last = boundary;
  state.boundaries.push_back(std::move(boundary));
  state.stepped = false;
  return true;
}

void LiveCheck::note_call(RankState& state, const CollectiveEvent& call) {
  std::int64_t& next = state.next_seq[call.group];
  if (laws::ends_left_out(call)) {
    const std::int64_t n = laws::n_left_out(call, next);
    state.calls[call.group] += n;
    next += n;
    return;
  }
  const bool posted = call.phase == CollectivePhase::kPosted;
  state.n_open += posted ? 1 : -1;
  if (!posted) return;
  ++state.calls[call.group];
  const bool message =
      call.signature.op == CollectiveOp::kSend || call.signature.op == CollectiveOp::kRecv;
  if (!message) next = std::max(next, call.seq + 1);
}

/// Shows the laws everything up to the last boundary that all ranks have reached.
void LiveCheck::advance() {
  const std::vector<Boundary>& first = ranks_.front().boundaries;
  std::vector<std::size_t> n_events;
  for (std::size_t i = first.size(); i-- > 0;) {
    if (is_reached_by_all(first[i], n_events)) return show(n_events);
  }
}

/// Ranks are members of different groups: those of each must have made as many calls in it.
bool LiveCheck::is_reached_by_all(const Boundary& level, std::vector<std::size_t>& n_events) const {
  Calls agreed;
  n_events.clear();
  for (const RankState& rank : ranks_) {
    const auto fits = [&](const Boundary& own) {
      return own.attempt == level.attempt && own.nth == level.nth &&
             std::all_of(own.calls.begin(), own.calls.end(), [&](const auto& entry) {
               const auto known = agreed.find(entry.first);
               return known == agreed.end() || known->second == entry.second;
             });
    };
    const auto own = std::find_if(rank.boundaries.rbegin(), rank.boundaries.rend(), fits);
    if (own == rank.boundaries.rend()) return false;
    agreed.insert(own->calls.begin(), own->calls.end());
    n_events.push_back(own->n_events);
  }
  return true;
}

/// In which steps some rank had reduced gradients. Where none had, ranks may be meant to train alone and
/// to average later, as local SGD does.
void LiveCheck::note_reductions(std::span<const Event> events,
                                std::map<std::int32_t, bool>& reduced) {
  bool now = false;
  for (const Event& event : events) {
    if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
      now = now || backward->reduced;
    } else if (std::holds_alternative<StepEvent>(event.body)) {
      bool& step = reduced[event.at.opt];
      step = step || now;
      now = false;
    }
  }
}

void LiveCheck::show(const std::vector<std::size_t>& n_events) {
  MemoryTrace rest(names_);
  rest.ensure_ranks(n_ranks_);
  std::map<std::int32_t, bool> reduced;  // By step.
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::span<const Event> events = waiting_.events(Rank{static_cast<std::int32_t>(r)});
    note_reductions(events.first(n_events[r]), reduced);
    for (const Event& event : events.first(n_events[r])) laws_.on_event(event, *names_);
    for (const Event& event : events.subspan(n_events[r])) rest.on_event(event, *names_);
    std::vector<Boundary>& boundaries = ranks_[r].boundaries;
    std::erase_if(boundaries, [&](const Boundary& b) { return b.n_events <= n_events[r]; });
    for (Boundary& boundary : boundaries) boundary.n_events -= n_events[r];
  }
  for (const auto& [step, any] : reduced) {
    if (!any) first_alone_ = std::min(first_alone_, step);
  }
  waiting_ = std::move(rest);
  ++n_cuts_;
}

std::vector<LawResult> LiveCheck::finish() {
  std::vector<LawResult> results = laws_.finish(*names_);
  for (LawResult& law : results) {
    const std::optional<LawId> id = parse_enum<LawId>(law.law);
    if (id != LawId::kReplicasEqual && id != LawId::kReducedOnce) continue;
    std::erase_if(law.findings, [this](const Finding& finding) {
      return finding.cause != Cause::kBypassWrapper && finding.step.value_or(0) >= first_alone_;
    });
  }
  return results;
}

std::vector<LawResult> LiveCheck::finish_calls() { return calls_.finish(*names_); }

}  // namespace lockstep
