#include "lockstep/laws/rules/detail/mean/ended_contributions.h"

#include <algorithm>
#include <string>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::int64_t kFewestBefore = 2;  // Reductions with everything.
constexpr std::int64_t kFewestMissed = 3;

}  // namespace

bool EndedContributions::is_whole(const OpenReduction& open) {
  return std::ranges::all_of(open.undefined, [](std::uint8_t bits) { return bits == 0; });
}

void EndedContributions::note(Tensor& tensor, std::size_t i, const OpenReduction& open) {
  std::size_t n_absent = 0;
  for (const Local& local : open.locals) {
    if (open.sketch(local, i) == nullptr) {
      ++n_absent;
      Absence& absence =
          tensor.of_rank.try_emplace(local.rank, Absence{.step = open.opt}).first->second;
      ++absence.n_missed;
    } else if (tensor.of_rank.contains(local.rank)) {
      tensor.returned = true;
    }
  }
  tensor.returned = tensor.returned || n_absent == open.locals.size();
}

void EndedContributions::on_reduction(const AlignmentKey& alignment, const OpenReduction& open) {
  Reductions& reductions = reductions_[{alignment.wrapper, alignment.layout}];
  if (reductions.tensors.empty() && is_whole(open)) {
    ++reductions.n_whole;
    return;
  }
  if (reductions.n_whole < kFewestBefore) return;
  for (std::size_t i = 0; i < open.n_tensors; ++i) {
    const bool absent = std::ranges::any_of(
        open.locals, [&](const Local& local) { return open.sketch(local, i) == nullptr; });
    if (absent || reductions.tensors.contains(i)) note(reductions.tensors[i], i, open);
  }
  for (const Local& local : open.locals) {
    std::size_t i = 0;
    while (i < open.n_tensors && open.sketch(local, i) == nullptr) ++i;
    if (i < open.n_tensors) last_[{alignment.wrapper, local.rank}] = open.opt;
  }
}

/// Whether the rank went on contributing to other tensors: it has not run out of inputs.
bool EndedContributions::is_ended(WrapperKey wrapper,
                                  std::int32_t rank,
                                  const Absence& absence) const {
  const auto last = last_.find({wrapper, rank});
  return absence.n_missed >= kFewestMissed && last != last_.end() && last->second > absence.step;
}

std::map<std::int32_t, EndedContributions::Absence> EndedContributions::ended(
    WrapperKey wrapper, const Tensor& tensor) const {
  std::map<std::int32_t, Absence> found;
  if (tensor.returned) return found;
  for (const auto& [rank, absence] : tensor.of_rank) {
    if (is_ended(wrapper, rank, absence)) found.emplace(rank, absence);
  }
  return found;
}

std::string EndedContributions::text(const std::map<std::int32_t, Absence>& ended,
                                     std::string_view tensor) {
  std::vector<Rank> ranks;
  ranks.reserve(ended.size());
  for (const auto& [rank, absence] : ended) ranks.push_back(Rank{rank});
  return ranks_text(ranks) + (ranks.size() == 1 ? " contributes" : " contribute") +
         " nothing to `" + std::string(tensor) + "` from step " +
         std::to_string(ended.begin()->second.step) +
         " on, after contributing in every earlier step, while other ranks still do: zeros enter "
         "the mean. Was a layer frozen or skipped on some ranks only?";
}

std::vector<Advice> EndedContributions::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  std::set<WrapperKey> said;
  for (const auto& [place, reductions] : reductions_) {
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(place.layout));
    for (const auto& [i, tensor] : reductions.tensors) {
      const std::map<std::int32_t, Absence> ranks = ended(place.wrapper, tensor);
      if (ranks.empty() || !said.insert(place.wrapper).second) continue;
      advice.push_back({"A-contribution-ended", text(ranks, names.text(layout[i]))});
    }
  }
  return advice;
}

}  // namespace lockstep::laws
