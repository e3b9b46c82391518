// single-process-equal, as far as one trace shows it: collectives inside losses. (Comparing with one
// process takes companion runs.)
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/losses/positional_targets.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kSingleProcessEqual = "single-process-equal";

/// What one rank's loss made of one call.
struct Share {
  std::int32_t rank = 0;
  ExchangeEvent event;
};

bool adds(ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAvg; }

/// What a rank's backward does with a result that it needs a call for.
enum class Flaw : std::uint8_t { kNone, kDropped, kNotAnswered };

Flaw flaw_of(const ExchangeEvent& exchange, bool gathers) {
  if (exchange.dropped) return Flaw::kDropped;
  if (exchange.answered) return Flaw::kNone;
  // The largest of all ranks' values, taken for its size, is a constant on purpose.
  if (!gathers && !adds(exchange.reduce)) return Flaw::kNone;
  if (exchange.join == ExchangeJoin::kConstant && !exchange.grad) return Flaw::kNone;
  return Flaw::kNotAnswered;
}

class SingleProcessEqual final : public Law {
 public:
  explicit SingleProcessEqual(const LawPolicy& /*policy*/) {}

  const LawInfo& info() const override { return *find_law(kSingleProcessEqual); }

  EventKinds reads() const override {
    return kinds_of<ExchangeEvent, InputEvent, LossEvent, WrapEvent>();
  }

  void require(RecordOptions& options) const override {
    options.touches = options.exchanges = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      return wrappers_.on_wrap(event, *wrap);
    }
    if (const auto* input = std::get_if<InputEvent>(&event.body)) {
      return targets_.on_input(event, *input, names);
    }
    if (const auto* loss = std::get_if<LossEvent>(&event.body)) {
      return targets_.on_loss(event, *loss);
    }
    const auto* exchange = std::get_if<ExchangeEvent>(&event.body);
    if (exchange != nullptr) targets_.on_exchange(event, *exchange);
    if (exchange == nullptr || !is_averaged(event, *exchange)) return;
    const Key key{event.at.attempt, exchange->group, exchange->seq};
    std::vector<Share>& shares = open_[key];
    shares.push_back({to_int(event.rank), *exchange});
    if (std::ssize(shares) >= exchange->n_ranks) {
      judge(key, shares, names);
      open_.erase(key);
    }
  }

  // Most programs gather nothing in their losses: then no rule needs their inputs and losses.
  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto& body = event.first->body;
    const bool of_targets =
        std::holds_alternative<InputEvent>(body) || std::holds_alternative<LossEvent>(body);
    if (!of_targets || targets_.active()) Law::on_cohort(event, names);
  }

  LawResult finish(const NameTable& names) override {
    for (auto& [key, shares] : open_) judge(key, shares, names);
    open_.clear();
    LawResult result =
        conclude(kSingleProcessEqual,
                 std::move(findings_),
                 n_checked_,
                 "a companion run of one process (a scenario), or a collective inside a loss");
    result.advice = targets_.advice(wrappers_);
    return result;
  }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;  // Attempt, group, call.

  /// Whether the gradients of all ranks that exchange values are averaged. Ranks that share out one
  /// model among them compute one loss together: there each has its own share of the gradient.
  bool is_averaged(const Event& event, const ExchangeEvent& exchange) const {
    const WrapEvent* const wrap = wrappers_.find(wrapper_of(event.at));
    return wrap != nullptr && (wrap->group == 0 || wrap->group == exchange.group);
  }

  /// Rows of the graph's own that lie in their rank's place do so on every rank. Where they come first,
  /// they are in the place of one rank, and what the others make of the rest was not looked at.
  static bool is_of_some_ranks(const std::vector<Share>& shares) {
    const ExchangeEvent& first = shares.front().event;
    return first.join == ExchangeJoin::kConstant && std::ssize(shares) < first.n_ranks;
  }

  /// Every rank has the same gradient for an average that was taken in place: the mean of theirs is
  /// what each of them has.
  static bool is_right_by_symmetry(const std::vector<Share>& shares) {
    const ExchangeEvent& first = shares.front().event;
    if (std::ssize(shares) < first.n_ranks || first.digest == 0) return false;
    return std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
      return share.event.join == ExchangeJoin::kInPlace && share.event.reduce == ReduceOp::kAvg &&
             share.event.digest == first.digest;
    });
  }

  static bool same_gradients(const std::vector<Share>& shares) {
    const std::uint64_t digest = shares.front().event.digest;
    return digest != 0 && std::all_of(shares.begin(), shares.end(), [&](const Share& share) {
             return share.event.digest == digest;
           });
  }

  /// Every rank has the same gradient for what all of them have, so that what each rank lacks of its
  /// own values' gradient is the same as often as there are other ranks; and its loss is multiplied by
  /// the number of ranks, which gives it just that.
  static bool is_made_up_for(const std::vector<Share>& shares) {
    if (std::ssize(shares) < shares.front().event.n_ranks || !same_gradients(shares)) return false;
    return std::all_of(
        shares.begin(), shares.end(), [](const Share& share) { return share.event.scaled; });
  }

  /// Whether the gradient of the mean loss is what the ranks have times their number: of a sum, or of what all have gathered,
  /// where each has the whole gradient of its own values.
  static bool lacks_a_factor(const std::vector<Share>& shares) {
    const ExchangeEvent& first = shares.front().event;
    if (!same_gradients(shares) || first.scaled) return false;
    if (first.call == CollectiveOp::kAllGather) return std::ssize(shares) >= first.n_ranks;
    return first.join == ExchangeJoin::kInPlace && first.reduce == ReduceOp::kSum;
  }

  void judge(const Key& key, std::vector<Share>& shares, const NameTable& names) {
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
      return a.rank < b.rank;
    });
    n_checked_ += std::ssize(shares);
    const CollectiveOp call = shares.front().event.call;
    const bool gathers = call != CollectiveOp::kAllReduce && call != CollectiveOp::kReduceScatter;
    judge_flaw(Flaw::kDropped, key, shares, gathers, names);
    // These two return the same to all ranks.
    const bool is_common = call == CollectiveOp::kAllReduce || call == CollectiveOp::kAllGather;
    if (gathers && is_of_some_ranks(shares)) return;
    if (is_right_by_symmetry(shares) || (is_common && is_made_up_for(shares))) return;
    judge_flaw(Flaw::kNotAnswered, key, shares, gathers, names);
  }

  void judge_flaw(Flaw flaw,
                  const Key& key,
                  const std::vector<Share>& shares,
                  bool gathers,
                  const NameTable& names) {
    std::vector<const Share*> flawed;
    for (const Share& share : shares) {
      if (flaw_of(share.event, gathers) == flaw) flawed.push_back(&share);
    }
    if (flawed.empty()) return;
    const ExchangeEvent& first = flawed.front()->event;
    if (!reported_.insert({std::get<0>(key), first.called_at, flaw}).second) return;
    Finding finding = finding_at(std::get<0>(key), flawed, names);
    if (flaw == Flaw::kDropped) {
      explain_dropped(finding);
    } else {
      explain_unanswered(first, gathers, lacks_a_factor(shares), finding);
    }
    findings_.push_back(std::move(finding));
  }

  static Finding finding_at(std::int32_t attempt,
                            const std::vector<const Share*>& flawed,
                            const NameTable& names) {
    const ExchangeEvent& first = flawed.front()->event;
    Finding finding;
    finding.attempt = attempt;
    finding.event = "exchange";
    finding.field = name_of(first.call);
    finding.site = names.text(first.called_at);
    for (const Share* const share : flawed) finding.ranks.push_back(Rank{share->rank});
    finding.step = first.step;
    finding.seq = first.seq;
    finding.group = first.group;
    return finding;
  }

  static void explain_dropped(Finding& finding) {
    finding.message = "the result of the differentiable " + finding.field +
                      " was discarded unread, and its input still holds this rank's own values";
    finding.cause = Cause::kCollectiveResultDropped;
  }

  static void explain_unanswered(const ExchangeEvent& exchange,
                                 bool gathers,
                                 bool factor,
                                 Finding& finding) {
    finding.message = "the loss depends on the result of " + finding.field +
                      ", but its backward does not communicate: the other ranks' gradients for "
                      "this rank's values are lost";
    finding.cause = gathers ? Cause::kGatherOwnShare : Cause::kCollectiveOutsideAutograd;
    if (!factor) return;
    finding.message += "; all ranks have the same gradient, so it is too small by a factor of " +
                       std::to_string(exchange.n_ranks) + ", the number of ranks";
  }

  Wrappers wrappers_;
  PositionalTargets targets_;
  std::map<Key, std::vector<Share>> open_;
  std::set<std::tuple<std::int32_t, NameId, Flaw>> reported_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_single_process_equal(const LawPolicy& policy) {
  return std::make_unique<SingleProcessEqual>(policy);
}

}  // namespace lockstep::laws
