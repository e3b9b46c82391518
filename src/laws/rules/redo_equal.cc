// redo-equal: computing a micro-step again gives the same contributions, bit for bit.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/in_step/gradient_rows.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kRedoEqual = "redo-equal";

class RedoEqual final : public Law {
 public:
  const LawInfo& info() const override { return *find_law(kRedoEqual); }

  EventKinds reads() const override { return kinds_of<GradEvent>(); }

  void require(RecordOptions& options) const override { options.grad_local = true; }

  void on_event(const Event& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad == nullptr) return;
    if (grad->point != GradPoint::kInc && grad->point != GradPoint::kRedo) return;
    part(wrapper_of(event.at));
    if (grad->point == GradPoint::kInc) remember(rank_wrapper_of(event), event.at, *grad);
    if (grad->point == GradPoint::kRedo) compare(event, *grad, names);
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* grad = std::get_if<GradEvent>(&event.first->body);
    if (grad == nullptr) return;
    if (grad->point == GradPoint::kInc && GradientRows::takes(event)) {
      together_[wrapper_of(event.first->at)].keep(event, *grad);
    } else if (grad->point == GradPoint::kInc || grad->point == GradPoint::kRedo) {
      Law::on_cohort(event, names);
    }
  }

  LawResult finish(const NameTable& names) override {
    std::vector<Finding> findings;
    findings.reserve(first_.size());
    for (const auto& [place, ranks] : by_place())
      findings.push_back(finding_of(place, ranks, names));
    return conclude(kRedoEqual,
                    std::move(findings),
                    n_checked_,
                    "grad events at inc and redo (in a scenario: loop.redo = true)");
  }

 private:
  /// The contributions of a rank's last backward, as its event recorded them.
  struct Contributions {
    Position at;
    LayoutId layout = kNoLayout;
    bool open = false;  ///< Not compared yet.
    std::vector<std::uint64_t> digests;
    std::vector<std::uint8_t> undefined;
  };

  /// The same of ranks in step, which seldom compute again: kept at once, and per rank when asked for.
  struct Together {
    Position at;
    LayoutId layout = kNoLayout;
    std::int32_t n_ranks = 0;  ///< 0 = nothing is kept.
    GradientRows rows;

    void keep(const CohortEvent& event, const GradEvent& first) {
      at = event.first->at;
      layout = first.layout;
      n_ranks = event.n_ranks();
      rows.keep_digests(event);
    }
  };

  /// Where a rank's micro-step came out differently: its first tensor, and how many.
  struct Difference {
    WrapperKey wrapper;
    std::int32_t opt = 0;
    std::int32_t micro = 0;
    NameId tensor = kNoName;
    std::int32_t n_tensors = 0;
    friend auto operator<=>(const Difference&, const Difference&) = default;
  };

  /// Tensors without a contribution are absent.
  static std::map<NameId, std::uint64_t> by_name(std::span<const NameId> layout,
                                                 std::span<const std::uint64_t> digests,
                                                 std::span<const std::uint8_t> undefined) {
    std::map<NameId, std::uint64_t> named;
    for (std::size_t i = 0; i < std::min(layout.size(), digests.size()); ++i) {
      if (!bit(undefined, i)) named[layout[i]] = digests[i];
    }
    return named;
  }

  /// From here on, each rank of this wrapper has what it recorded last by itself.
  void part(WrapperKey wrapper) {
    const auto known = together_.find(wrapper);
    if (known == together_.end()) return;
    Together& together = known->second;
    for (std::int32_t rank = 0; rank < together.n_ranks; ++rank) {
      remember({rank, wrapper}, together.at, together.rows.of(rank, {.layout = together.layout}));
    }
    together.n_ranks = 0;
  }

  void remember(const RankWrapper& place, const Position& at, const GradEvent& grad) {
    Contributions& last = last_[place];
    last.at = at;
    last.layout = grad.layout;
    last.open = true;
    last.digests.assign(grad.digests.begin(), grad.digests.end());
    last.undefined.assign(grad.undefined.begin(), grad.undefined.end());
  }

  void compare(const Event& event, const GradEvent& grad, const NameTable& names) {
    const RankWrapper place = rank_wrapper_of(event);
    Contributions* const last = last_.find(place);
    if (last == nullptr || !last->open || !(last->at == event.at)) return;
    const auto once = by_name(names.layout(last->layout), last->digests, last->undefined);
    const auto again = by_name(names.layout(grad.layout), grad.digests, grad.undefined);
    Difference difference = {.wrapper = place.key, .opt = event.at.opt, .micro = event.at.micro};
    for (const NameId name : names.layout(grad.layout)) {
      const auto first = once.find(name);
      const auto second = again.find(name);
      if (first == once.end() && second == again.end()) continue;
      ++n_checked_;
      const bool both = first != once.end() && second != again.end();
      if (both && first->second == second->second) continue;
      if (difference.n_tensors++ == 0) difference.tensor = name;
    }
    if (difference.n_tensors > 0) first_.try_emplace(place, difference);
    last->open = false;
  }

  /// Ranks that came out differently at the same place and in the same tensors.
  std::map<Difference, std::vector<Rank>> by_place() const {
    std::map<Difference, std::vector<Rank>> places;
    for (const auto& [place, difference] : first_) places[difference].push_back(Rank{place.rank});
    return places;
  }

  static Finding finding_of(const Difference& place,
                            const std::vector<Rank>& ranks,
                            const NameTable& names) {
    Finding finding;
    finding.attempt = place.wrapper.attempt;
    finding.step = place.opt;
    finding.event = "grad.redo";
    finding.tensor = names.text(place.tensor);
    finding.ranks = ranks;
    finding.message =
        "recomputing micro-step " + std::to_string(place.micro) + " gave different bits";
    const std::int32_t n_more = place.n_tensors - 1;
    if (n_more > 0) {
      finding.message += ", also in " + std::to_string(n_more) + " more ";
      finding.message += n_more == 1 ? "tensor" : "tensors";
    }
    // What computes differently each time does so on all ranks.
    if (ranks.size() > 1)
      finding.message +=
          "; the same on several ranks, as with an operation that sums in no fixed order";
    finding.cause = ranks.size() == 1 ? Cause::kSdcBeforeReduce : Cause::kNone;
    return finding;
  }

  std::map<WrapperKey, Together> together_;
  RankWrapperMap<Contributions> last_;
  std::map<RankWrapper, Difference> first_;  // Of each rank and attempt.
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_redo_equal(const LawPolicy& /*policy*/) {
  return std::make_unique<RedoEqual>();
}

}  // namespace lockstep::laws
