#include "lockstep/laws/rules/detail/losses/divided_losses.h"

#include <algorithm>
#include <fmt/core.h>
#include <iterator>

#include "lockstep/base/enum_names.h"

namespace lockstep {

namespace laws {

/// Loss functions of which half is a loss of its own.
enum class HalvedLoss : std::uint8_t { kMeanOfSquares };

}  // namespace laws

template <>
inline constexpr EnumNames<1> kEnumNames<laws::HalvedLoss> = {"mse_loss"};

}  // namespace lockstep

namespace lockstep::laws {

namespace {

/// The sum of its terms was divided by a number that is known.
bool has_known_divisor(const LossEvent& loss) {
  return loss.reduction == LossReduction::kGiven && loss.n_terms > 0 && loss.denominator > 0.0;
}

/// A backward starts from it, or reaches it: no loss function was called.
bool is_of_backward(const LossEvent& loss) { return loss.n_rows == 0; }

bool is_half_of_squares(const LossEvent& loss, const NameTable& names) {
  return is_of_backward(loss) && parse_enum<HalvedLoss>(names.text(loss.function)) &&
         loss.denominator == 2.0 * static_cast<double>(loss.n_terms);
}

}  // namespace

bool DividedLosses::reads(const Event& event, const LossEvent& loss) const {
  return loss.grad && event.at.wrapper >= 0 && (has_known_divisor(loss) || !counts_.empty());
}

void DividedLosses::on_loss(const Event& event,
                            const LossEvent& loss,
                            RankRange who,
                            const Averaged& averaged) {
  if (!reads(event, loss)) return;
  const auto [n_averaged, names] = averaged;
  note_elsewhere(wrapper_of(event.at), loss, who);
  if (!has_known_divisor(loss) && !counts_.contains(wrapper_of(event.at))) return;
  std::map<std::int32_t, Count>& by_rank = counts_[wrapper_of(event.at)];
  const double by_all = static_cast<double>(loss.n_terms) * n_averaged;
  const bool divided = has_known_divisor(loss) && n_averaged > 1 && loss.denominator == by_all &&
                       !is_half_of_squares(loss, *names);
  for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
    Count& count = by_rank[rank];
    count.n_ranks = n_averaged;
    ++(is_of_backward(loss) ? count.n_started : count.n_called);
    if (divided) ++count.n_divided;
  }
}

// One backward may start from the sum of several wrappers' losses, and a factor of one summand is its weight. A loss function
// is called first, and its result may be divided after that; what a backward starts from is whole.
void DividedLosses::note_elsewhere(WrapperKey wrapper, const LossEvent& loss, RankRange who) {
  const bool is_known = has_known_divisor(loss);
  const std::int32_t undivided = is_of_backward(loss) ? (is_known ? -1 : 0) : (is_known ? 0 : 1);
  for (auto& [other, by_rank] : counts_) {
    if (other == wrapper) continue;
    for (auto& [rank, count] : by_rank) {
      if (rank >= who.first && rank < who.first + who.n) count.n_undivided_elsewhere += undivided;
    }
  }
}

void DividedLosses::on_step(const Event& event, RankRange who, bool as_it_is) {
  const auto known = counts_.find(wrapper_of(event.at));
  if (known == counts_.end()) return;
  for (auto& [rank, count] : known->second) {
    if (rank < who.first || rank >= who.first + who.n) continue;
    ++count.n_steps;
    const std::int32_t n_losses = std::max(count.n_called, count.n_started);
    const bool all =
        count.n_divided > 0 && count.n_divided >= n_losses && count.n_undivided_elsewhere <= 0;
    if (all && as_it_is && n_losses != count.n_ranks) ++count.n_divided_steps;
    count.n_called = count.n_started = count.n_divided = count.n_undivided_elsewhere = 0;
  }
}

std::vector<Advice> DividedLosses::advice(WrapperKey wrapper) const {
  const std::map<std::int32_t, Count>& by_rank = counts_.at(wrapper);
  const Count& first = by_rank.begin()->second;
  const auto divided = [](const auto& own) { return is_divided(own.second); };
  if (std::ssize(by_rank) != first.n_ranks || !std::ranges::all_of(by_rank, divided)) return {};
  return {
      {"A-divided-again",
       fmt::format(
           "in all {} steps the losses were divided by {} (the number of ranks) and by their "
           "number of terms, and the wrapper divides by the number of ranks again. Divide once.",
           first.n_steps,
           first.n_ranks)}};
}

std::vector<WrapperKey> DividedLosses::wrappers() const {
  std::vector<WrapperKey> wrappers;
  for (const auto& [wrapper, by_rank] : counts_) wrappers.push_back(wrapper);
  return wrappers;
}

}  // namespace lockstep::laws
