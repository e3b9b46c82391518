#include "lockstep/laws/rules/detail/losses/loss_kinds.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lockstep/laws/report.h"

namespace lockstep::laws {

void LossKinds::on_event(const Event& event, std::int32_t n_averaged) {
  const auto* loss = std::get_if<LossEvent>(&event.body);
  if (loss == nullptr || !loss->grad || event.at.wrapper < 0) return;
  graphs_.on_loss(event, *loss);
  means_.on_loss(event, *loss, n_averaged);
  const Kind kind{loss->function, loss->reduction};
  const auto [known, is_first] =
      seen_[wrapper_of(event.at)].try_emplace(to_int(event.rank), Seen{kind, std::nullopt});
  if (!is_first && !known->second.second) known->second.second = kind;
}

void LossKinds::on_cohort(const CohortEvent& event, std::int32_t n_averaged) {
  const auto known = seen_.find(wrapper_of(event.first->at));
  const auto* loss = std::get_if<LossEvent>(&event.first->body);
  const bool says_more = loss != nullptr && (loss->graph != kNoName || UnevenMeans::is_read(*loss));
  const bool settled =
      !says_more && known != seen_.end() && std::ssize(known->second) >= event.n_ranks() &&
      std::ranges::all_of(known->second,
                          [](const auto& own) { return own.second.second.has_value(); });
  if (settled) return;
  each(event, [&](const Event& own) { on_event(own, n_averaged); });
}

/// Whether a rank's second loss is of another function than its first.
bool LossKinds::vary(const SeenByRank& by_rank) {
  return std::ranges::any_of(by_rank, [](const auto& own) {
    const Seen& seen = own.second;
    return seen.second && seen.second->function != seen.first.function;
  });
}

LossKinds::Sides LossKinds::sides_of(const SeenByRank& by_rank) {
  const bool varying = vary(by_rank);
  Sides sides;
  for (const auto& [rank, seen] : by_rank) {
    if (seen.first.reduction == LossReduction::kGiven) continue;
    const NameId function = varying ? kNoName : seen.first.function;
    sides[{function, seen.first.reduction}].push_back(Rank{rank});
  }
  return sides;
}

std::string LossKinds::text(const Kind& kind, const NameTable& names) {
  const std::string_view function =
      kind.function == kNoName ? std::string_view("one") : names.text(kind.function);
  return std::string(function) + " (" + std::string(name_of(kind.reduction)) + ")";
}

std::vector<Advice> LossKinds::advice(const NameTable& names) const {
  std::vector<Advice> advice;
  for (const auto& [wrapper, by_rank] : seen_) {
    const Sides sides = sides_of(by_rank);
    if (sides.size() < 2) continue;
    std::string list;
    for (const auto& [kind, ranks] : sides) {
      if (!list.empty()) list += "; ";
      list += text(kind, names) + " on " + ranks_text(ranks);
    }
    advice.push_back({"A-losses-differ",
                      "the ranks' first backward passes start from different losses: " + list +
                          ". Their gradients are averaged with equal weights."});
  }
  if (!advice.empty()) return advice;
  advice = graphs_.advice(names);
  for (Advice& uneven : means_.advice()) advice.push_back(std::move(uneven));
  return advice;
}

}  // namespace lockstep::laws
