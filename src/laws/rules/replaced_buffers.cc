#include "lockstep/laws/rules/detail/buffers/replaced_buffers.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kCounter = "num_batches_tracked";

bool is_counter(NameId buffer, const NameTable& names) {
  const std::string_view name = names.text(buffer);
  return name.substr(name.rfind('.') + 1) == kCounter;
}

bool is_counter_of_all(std::span<const NameId> found,
                       const WrapEvent& wrap,
                       const NameTable& names) {
  const auto counts = [&](std::span<const NameId> layout) {
    return std::count_if(
        layout.begin(), layout.end(), [&](NameId name) { return is_counter(name, names); });
  };
  return counts(found) == counts(names.layout(wrap.buffers));
}

std::vector<Rank> as_ranks(const std::set<std::int32_t>& numbers) {
  std::vector<Rank> ranks;
  for (const std::int32_t number : numbers) ranks.push_back(Rank{number});
  return ranks;
}

}  // namespace

void ReplacedBuffers::Replaced::add(NameId name, const Event& event) {
  if (ranks.empty()) {
    buffer = name;
    step = event.at.opt;
  }
  step = std::min(step, event.at.opt);
  ranks.insert(to_int(event.rank));
  forwards.insert(event.at.sync);
}

void ReplacedBuffers::on_event(const Event& event,
                               const Wrappers& wrappers,
                               const NameTable& names) {
  if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
    n_forwards_[rank_wrapper_of(event)] += forward->grad ? 1 : 0;
    return;
  }
  const auto* state = std::get_if<StateEvent>(&event.body);
  const WrapperKey wrapper = wrapper_of(event.at);
  const WrapEvent* const wrap = wrappers.find(wrapper);
  if (state == nullptr || wrap == nullptr) return;
  if (state->kind != StateKind::kBuffer || state->point != StatePoint::kFound) return;
  const std::span<const NameId> found = names.layout(state->layout);
  for (const NameId buffer : found) {
    if (!is_counter(buffer, names)) values_[{wrapper, buffer}].add(buffer, event);
  }
  const auto counter = std::find_if(
      found.begin(), found.end(), [&](NameId buffer) { return is_counter(buffer, names); });
  if (counter == found.end()) return;
  // Before the first step it is a trial: a network that is drawn, or whose operations are counted.
  const bool trains = event.at.opt > 0 && is_counter_of_all(found, *wrap, names);
  (trains ? counters_ : some_counters_)[wrapper].add(*counter, event);
}

/// Windows of different lengths on the ranks, and ranks that ran out of inputs, explain another number of
/// batches.
bool ReplacedBuffers::ran_alike(WrapperKey wrapper, const Wrappers& wrappers) const {
  const WrapEvent* const wrap = wrappers.find(wrapper);
  std::set<std::int64_t> numbers;
  std::int32_t n_ranks = 0;
  for (const auto& [at, n] : n_forwards_) {
    if (at.key != wrapper) continue;
    numbers.insert(n);
    ++n_ranks;
  }
  // A rank that is not here was in step until it had no inputs left.
  if (wrap != nullptr && n_ranks < wrap->n_ranks) numbers.insert(0);
  return numbers.size() <= 1;
}

std::string ReplacedBuffers::places(const Replaced& replaced) const {
  const auto n = replaced.forwards.size();
  return n == 1 ? "before one forward" : "before " + std::to_string(n) + " forwards";
}

/// Rank 0 is the odd one where it differs from all the others, of which there are several.
std::vector<Rank> ReplacedBuffers::odd_ranks(WrapperKey wrapper,
                                             const Replaced& replaced,
                                             const Wrappers& wrappers) const {
  const WrapEvent* const wrap = wrappers.find(wrapper);
  const auto n_others = static_cast<std::int32_t>(replaced.ranks.size());
  if (wrap != nullptr && n_others > 1 && n_others == wrap->n_ranks - 1) return {Rank{0}};
  return as_ranks(replaced.ranks);
}

std::vector<Finding> ReplacedBuffers::findings(const Wrappers& wrappers,
                                               const NameTable& names) const {
  std::vector<Finding> findings;
  for (const auto& [wrapper, replaced] : counters_) {
    if (!ran_alike(wrapper, wrappers)) continue;
    Finding finding;
    finding.attempt = wrapper.attempt;
    finding.event = name_of(StatePoint::kFound);
    finding.tensor = names.text(replaced.buffer);
    finding.field = "batches";
    finding.ranks = odd_ranks(wrapper, replaced, wrappers);
    finding.step = replaced.step;
    finding.cause = Cause::kBatchNormUneven;
    finding.message = "batch norm has counted a different number of training batches on " +
                      ranks_text(as_ranks(replaced.ranks)) + " than on rank 0, " +
                      places(replaced) +
                      ": the ranks ran it in training mode a different number of times";
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Advice> ReplacedBuffers::advice(const Wrappers& wrappers,
                                            const NameTable& names) const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, replaced] : some_counters_) {
    if (counters_.contains(wrapper) || !ran_alike(wrapper, wrappers)) continue;
    advice.push_back({"A-batch-norm-uneven",
                      "batch norm has counted a different number of training batches on " +
                          ranks_text(as_ranks(replaced.ranks)) + " than on rank 0 (`" +
                          std::string(names.text(replaced.buffer)) + "`, step " +
                          std::to_string(replaced.step) + ", " + places(replaced) +
                          "), and every rank continues with rank 0's statistics. Call model.eval() "
                          "before every evaluation."});
  }
  for (const auto& [key, replaced] : values_) {
    const auto& [wrapper, buffer] = key;
    if (declared_.contains(key) || wrappers.ignored(wrapper, buffer, names)) continue;
    advice.push_back({"A-buffer-replaced",
                      "`" + std::string(names.text(buffer)) +
                          "`: rank 0's copy overwrote the values of " +
                          ranks_text(as_ranks(replaced.ranks)) + " " + places(replaced) +
                          ", first in step " + std::to_string(replaced.step) +
                          ". Write the same values on every rank or exclude the buffer from the "
                          "broadcast, unless only rank 0's should count."});
  }
  return advice;
}

}  // namespace lockstep::laws
