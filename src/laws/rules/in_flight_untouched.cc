// in-flight-untouched: no rank touches memory while a transfer owns it.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/remarks.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kInFlightUntouched = "in-flight-untouched";

/// Touches that are one mistake: the same access to the same transfer's memory, on any ranks.
struct Mistake {
  std::int32_t attempt = 0;
  std::int32_t group = 0;
  std::string posted_at;
  std::string site;
  std::string operation;
  bool written = false;
  TouchManner manner = TouchManner::kNone;
  friend auto operator<=>(const Mistake&, const Mistake&) = default;
};

class InFlightUntouched final : public Law {
 public:
  explicit InFlightUntouched(const LawPolicy& policy) : watched_(policy.watched) {}

  const LawInfo& info() const override { return *find_law(kInFlightUntouched); }

  EventKinds reads() const override { return kinds_of<CollectiveEvent, TouchEvent, LogEvent>(); }

  void require(RecordOptions& options) const override {
    options.collectives = options.touches = true;
  }

  void on_event(const Event& event, const NameTable& names) override {
    overlapping_.on_event(event, one_rank(event));
    dropped_.on_event(event, one_rank(event));
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
      if (call->phase == CollectivePhase::kPosted) ++n_posted_;
    } else if (const auto* touch = std::get_if<TouchEvent>(&event.body)) {
      on_touch(event, *touch, names);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    if (call == nullptr || !event.equal()) {
      Law::on_cohort(event, names);
    } else if (call->phase == CollectivePhase::kPosted) {
      n_posted_ += event.n_ranks();
    }
  }

  LawResult finish(const NameTable& names) override {
    std::vector<Finding> findings;
    findings.reserve(mistakes_.size());
    for (auto& [mistake, finding] : mistakes_) {
      std::sort(finding.ranks.begin(), finding.ranks.end());
      findings.push_back(std::move(finding));
    }
    LawResult result =
        watched_ || !findings.empty()
            ? conclude(kInFlightUntouched, std::move(findings), n_posted_, "collective events")
            : conclude(kInFlightUntouched, {}, 0, "a run in the simulator, which watches memory");
    add_remarks(result, names);
    return result;
  }

 private:
  void add_remarks(LawResult& result, const NameTable& names) const {
    auto overlapping = overlapping_.advice(
        "A-results-overlap",
        "Only what came last is there: each result needs a tensor of its own, as "
        "[torch.empty_like(x) for _ in range(n)] makes them, not [torch.empty_like(x)] * n.",
        names);
    if (overlapping) result.advice.push_back(std::move(*overlapping));
    auto dropped = dropped_.advice(
        "A-result-dropped",
        "The call works in place, on a tensor that it was given and nothing else holds: keep the "
        "tensor in a variable, and read the result from there.",
        names);
    if (dropped) result.advice.push_back(std::move(*dropped));
  }

  void on_touch(const Event& event, const TouchEvent& touch, const NameTable& names) {
    const Mistake mistake = {.attempt = event.at.attempt,
                             .group = touch.group,
                             .posted_at = std::string(names.text(touch.posted_at)),
                             .site = touch.site.text(),
                             .operation = std::string(names.text(touch.operation)),
                             .written = touch.written,
                             .manner = touch.manner};
    const auto [known, is_new] = mistakes_.try_emplace(mistake);
    Finding& finding = known->second;
    if (is_new || earlier(event, touch, finding)) describe(event, touch, mistake, finding);
    const auto same = std::find(finding.ranks.begin(), finding.ranks.end(), event.rank);
    if (same == finding.ranks.end()) finding.ranks.push_back(event.rank);
  }

  /// Ranks interleave arbitrarily: the first place is that of the lowest call.
  static bool earlier(const Event& event, const TouchEvent& touch, const Finding& finding) {
    return std::tuple(event.at.opt, touch.seq) < std::tuple(finding.step, finding.seq);
  }

  static void describe(const Event& event,
                       const TouchEvent& touch,
                       const Mistake& mistake,
                       Finding& finding) {
    const std::string call(name_of(touch.call));
    finding.event = "touch";
    finding.attempt = mistake.attempt;
    finding.group = mistake.group;
    finding.step = event.at.opt;
    finding.seq = touch.seq;
    finding.field = field_of(touch);
    finding.site = mistake.site;
    finding.other_site = mistake.posted_at;
    finding.cause = cause_of(event, touch);
    finding.message = message_of(touch, mistake, call);
    if (mistake.site.empty() && !mistake.posted_at.empty()) {
      finding.message += "; posted at " + mistake.posted_at;
    }
  }

  static std::string_view field_of(const TouchEvent& touch) {
    if (touch.manner == TouchManner::kAbandoned) return "wait";
    return touch.written ? "write" : "read";
  }

  static Cause cause_of(const Event& event, const TouchEvent& touch) {
    if (touch.manner != TouchManner::kNone) return Cause::kAsyncNoWait;
    // Training has not begun, and what arrives is rank 0's state.
    const bool of_the_start =
        touch.call == CollectiveOp::kBroadcast && touch.written && event.at.opt == 0;
    return of_the_start ? Cause::kInitBroadcastPartial : Cause::kOverlapRace;
  }

  static std::string message_of(const TouchEvent& touch,
                                const Mistake& mistake,
                                const std::string& call) {
    const std::string transfer =
        call + " #" + std::to_string(touch.seq) + " of group " + std::to_string(touch.group);
    switch (touch.manner) {
      case TouchManner::kAbandoned:
        return "the handle of " + transfer +
               " was dropped without wait(), so its result must not be used";
      case TouchManner::kValue:
        return mistake.operation + " uses a value that was read from the memory of " + transfer +
               " before wait()";
      case TouchManner::kNone:
        break;
    }
    return (touch.written ? "writes (" : "reads (") + mistake.operation + ") memory that " +
           transfer + (touch.receives ? " writes" : " reads") + " until wait()";
  }

  bool watched_;
  Remarks overlapping_{LogKind::kResultsOverlap};
  Remarks dropped_{LogKind::kResultDropped};
  std::int64_t n_posted_ = 0;
  std::map<Mistake, Finding> mistakes_;
};

}  // namespace

std::unique_ptr<Law> make_in_flight_untouched(const LawPolicy& policy) {
  return std::make_unique<InFlightUntouched>(policy);
}

}  // namespace lockstep::laws
