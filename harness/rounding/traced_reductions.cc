#include "lockstep/harness/rounding/traced_reductions.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace lockstep {

namespace {

using Key = std::tuple<std::int32_t,                // attempt
                       std::int32_t,                // sync
                       std::int32_t,                // wrapper
                       std::int32_t,                // occurrence
                       std::int32_t,                // place
                       std::string,                 // tensor
                       std::vector<std::int32_t>>;  // members

Key key_of(const TracedReduction& reduction) {
  return {reduction.at.attempt,
          reduction.at.sync,
          reduction.at.wrapper,
          reduction.occurrence,
          reduction.place,
          reduction.tensor,
          reduction.members};
}

bool is_undefined(const GradEvent& grad, std::size_t i) {
  return i / 8 < grad.undefined.size() && ((grad.undefined[i / 8] >> (i % 8)) & 1U) != 0;
}

TracedTensor tensor_in(const GradEvent& grad, std::size_t i) {
  TracedTensor tensor;
  if (i < grad.digests.size()) tensor.digest = grad.digests[i];
  if (i < grad.sketches.size()) tensor.sketch = grad.sketches[i];
  if (i < grad.n_elems.size()) tensor.n_elems = grad.n_elems[i];
  return tensor;
}

/// What one wrapper of one rank is, as far as its events have said.
struct Wrapper {
  std::vector<std::int32_t> members;
  std::int32_t n_ranks = 1;
  HookEffect hook = HookEffect::kMean;
};

/// Folds one rank's events. A gradient's values are recorded before or after its event, so both wait
/// for the event of the reduced gradients, and values of these come after it.
class RankFolder {
 public:
  RankFolder(const MemoryTrace& trace, Rank rank, std::map<Key, TracedReduction>& found)
      : names_(trace.names()), rank_(rank), found_(found) {}

  void on(const Event& event) {
    if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
      groups_[group->group] = {group->members.begin(), group->members.end()};
    } else if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_[event.at.wrapper] = {groups_[wrap->group], wrap->n_ranks};
    } else if (const auto* hook = std::get_if<CommHookEvent>(&event.body)) {
      wrappers_[event.at.wrapper].hook = hook->effect;
    } else if (const auto* grad = std::get_if<GradEvent>(&event.body)) {
      if (grad->point == GradPoint::kPre) on_given(*grad, event.at.wrapper);
      if (grad->point == GradPoint::kPost) on_got(*grad, event.at);
    } else if (const auto* values = std::get_if<ValueEvent>(&event.body)) {
      on_values(*values, event.at.wrapper);
    }
  }

 private:
  using Slot = std::pair<std::int32_t, NameId>;  // Wrapper, tensor.

  void on_given(const GradEvent& grad, std::int32_t wrapper) {
    const std::span<const NameId> layout = names_.layout(grad.layout);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const auto values = given_values_.find({wrapper, layout[i]});
      if (is_undefined(grad, i)) {
        given_.erase({wrapper, layout[i]});
        continue;
      }
      TracedTensor& tensor = given_[{wrapper, layout[i]}];
      tensor = tensor_in(grad, i);
      if (values != given_values_.end()) tensor.values = values->second;
    }
  }

  void on_values(const ValueEvent& event, std::int32_t wrapper) {
    const Slot slot{wrapper, event.tensor};
    if (event.point == ValuePoint::kGradPre) {
      given_values_[slot] = event.values;
      const auto given = given_.find(slot);
      if (given != given_.end()) given->second.values = event.values;
    }
    const auto got = last_got_.find(slot);
    if (event.point == ValuePoint::kGradPost && got != last_got_.end()) {
      found_.at(got->second).parts.back().got.values = event.values;
    }
  }

  void on_got(const GradEvent& grad, const Position& at) {
    const std::optional<FloatFormat> format = FloatFormat::of(grad.dtype);
    const std::span<const NameId> layout = names_.layout(grad.layout);
    if (!format) return;
    const std::int32_t occurrence = occurrences_[{at.attempt, at.wrapper, at.sync}]++;
    const Wrapper& wrapper = wrappers_[at.wrapper];
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (is_undefined(grad, i)) continue;
      TracedReduction reduction{.at = at,
                                .occurrence = occurrence,
                                .place = static_cast<std::int32_t>(i),
                                .tensor = std::string(names_.text(layout[i])),
                                .members = wrapper.members,
                                .n_expected = wrapper.n_ranks,
                                .format = *format,
                                .hook = wrapper.hook,
                                .parts = {}};
      const Key key = key_of(reduction);
      TracedReduction& known = found_.try_emplace(key, std::move(reduction)).first->second;
      known.hook = std::max(known.hook, wrapper.hook);
      const auto given = given_.find({at.wrapper, layout[i]});
      TracedPart part{.rank = rank_, .got = tensor_in(grad, i)};
      if (given != given_.end()) part.given = given->second;
      known.parts.push_back(std::move(part));
      last_got_.insert_or_assign({at.wrapper, layout[i]}, key);
    }
    std::erase_if(given_, [&](const auto& each) { return each.first.first == at.wrapper; });
    std::erase_if(given_values_, [&](const auto& each) { return each.first.first == at.wrapper; });
  }

  const NameTable& names_;
  Rank rank_;
  std::map<Key, TracedReduction>& found_;
  std::map<std::int32_t, std::vector<std::int32_t>> groups_;
  std::map<std::int32_t, Wrapper> wrappers_;
  std::map<Slot, TracedTensor> given_;
  std::map<Slot, std::span<const double>> given_values_;
  std::map<Slot, Key> last_got_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> occurrences_;
};

}  // namespace

std::vector<TracedReduction> reductions_of(const MemoryTrace& trace) {
  std::map<Key, TracedReduction> found;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    RankFolder folder(trace, static_cast<Rank>(r), found);
    for (const Event& event : trace.events(static_cast<Rank>(r))) folder.on(event);
  }
  std::vector<TracedReduction> list;
  for (auto& [key, reduction] : found) list.push_back(std::move(reduction));
  return list;
}

bool comes_before(const TracedReduction& left, const TracedReduction& right) {
  return key_of(left) < key_of(right);
}

}  // namespace lockstep
