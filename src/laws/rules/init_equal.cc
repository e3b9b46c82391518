// init-equal: the state every rank enters its first synchronising forward with is rank 0's.
#include <set>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/parameters/first_steps.h"
#include "lockstep/laws/rules/detail/parameters/frozen_modules.h"
#include "lockstep/laws/rules/detail/parameters/loads.h"

namespace lockstep::laws {

namespace {

constexpr std::string_view kInitEqual = "init-equal";

class InitEqual final : public Law {
 public:
  explicit InitEqual(const LawPolicy& policy)
      : n_ranks_(policy.n_ranks),
        buffers_(policy.buffers),
        whole_(policy.coverage <= 1),
        more_follows_(policy.more_follows) {}

  const LawInfo& info() const override { return *find_law(kInitEqual); }

  EventKinds reads() const override {
    return kinds_of<WrapEvent, ForwardEvent, StateEvent, SnapshotEvent, DataEvent>();
  }

  void require(RecordOptions& options) const override { options.states = true; }

  void on_event(const Event& event, const NameTable& names) override {
    loads_.on_event(event, one_rank(event));
    if (const auto* wrap = std::get_if<WrapEvent>(&event.body)) {
      wrappers_.on_wrap(event, *wrap);
    } else if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      if (!forward->synchronizing) places_[rank_wrapper_of(event)].went_alone = true;
    } else if (const auto* state = std::get_if<StateEvent>(&event.body)) {
      on_state(event, *state, names);
    } else if (const auto* data = std::get_if<DataEvent>(&event.body)) {
      frozen_.on_data(event, *data);
    } else if (const auto* snapshot = std::get_if<SnapshotEvent>(&event.body)) {
      // Parameters that no load shows were each rank's own, as with local SGD.
      if (snapshot->action != SnapshotAction::kLoad || snapshot->step < 0) return;
      RankPlace& place = places_[rank_wrapper_of(event)];
      place.keeps_own = !place.loaded_parameters;
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* forward = std::get_if<ForwardEvent>(&event.first->body);
    if (forward != nullptr && event.equal() && forward->synchronizing) return;
    const auto* state = std::get_if<StateEvent>(&event.first->body);
    if (state != nullptr && !is_read(*state) && !is_awaited(*state)) return;
    Law::on_cohort(event, names);
  }

  LawResult finish(const NameTable& names) override {
    for (const auto& [key, ballot] : forwards_) judge(key, ballot, names);
    forwards_.clear();
    // A job that never got to a forward is judged by how its wrapper left the construction.
    for (const auto& [key, ballot] : wraps_) {
      const WrapEvent* wrap = wrappers_.find(key.wrapper);
      const bool by_itself = wrap != nullptr && wrap->synchronizes;
      if (by_itself && !judged_.contains({key.wrapper, key.layout})) judge(key, ballot, names);
    }
    for (Finding& finding : first_steps_.take(more_follows_)) {
      findings_.push_back(std::move(finding));
    }
    LawResult result =
        conclude(kInitEqual,
                 std::move(findings_),
                 n_checked_,
                 "param events at the first synchronising forward, from two ranks or more");
    if (auto advice = frozen_.advice(n_ranks_, names)) result.advice.push_back(std::move(*advice));
    return result;
  }

 private:
  struct Key {
    WrapperKey wrapper;
    std::uint32_t layout = 0;
    StateKind kind = StateKind::kParam;
    bool is_loaded = false;  ///< After a load, which re-arms the law.
    std::int32_t sync = 0;   ///< Then, of the forward: a rank may have loaded alone before.
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  struct RankPlace {
    bool has_loaded = false;
    bool loaded_parameters = false;
    bool keeps_own = false;
    bool went_alone = false;  ///< A forward under no_sync came first: its buffers are its own.
    std::vector<std::pair<StateKind, LayoutId>> seen;  // Since the last load.
  };

  static bool is_read(const StateEvent& state) {
    return (state.kind == StateKind::kParam || state.kind == StateKind::kBuffer) &&
           (state.point == StatePoint::kWrap || state.point == StatePoint::kLoad ||
            state.point == StatePoint::kForward);
  }

  bool is_awaited(const StateEvent& state) const {
    return state.kind == StateKind::kParam && state.point == StatePoint::kStep &&
           first_steps_.any_waits();
  }

  void on_state(const Event& event, const StateEvent& state, const NameTable& names) {
    if (is_awaited(state)) return on_step(event, state, names);
    if (!is_read(state)) return;
    RankPlace& place = places_[rank_wrapper_of(event)];
    const Key key{wrapper_of(event.at), static_cast<std::uint32_t>(state.layout), state.kind};
    if (state.point == StatePoint::kWrap) {
      wraps_[key].add(event, state.digests);
    } else if (state.point == StatePoint::kLoad) {
      first_steps_.on_load(event);
      place.loaded_parameters = place.loaded_parameters || state.kind == StateKind::kParam;
      // A load is several events (parameters, frozen, buffers, optimizer) but re-arms once.
      if (!place.seen.empty()) place.has_loaded = true;
      place.seen.clear();
    } else if (state.point == StatePoint::kForward) {
      on_forward(event, state, place, key, names);
    }
  }

  void on_step(const Event& event, const StateEvent& state, const NameTable& names) {
    const WrapperKey wrapper = wrapper_of(event.at);
    const std::int32_t n_members = wrappers_.n_members(wrapper, n_ranks_);
    for (const NameId tensor : first_steps_.on_step(event, state, n_members, names)) {
      reported_.erase({wrapper, tensor});
    }
  }

  void on_forward(const Event& event,
                  const StateEvent& state,
                  RankPlace& place,
                  Key key,
                  const NameTable& names) {
    if (place.keeps_own && state.kind == StateKind::kParam) return;
    if (place.went_alone && state.kind == StateKind::kBuffer) return;
    if (state.kind == StateKind::kParam) first_steps_.on_forward(event);
    const std::pair<StateKind, LayoutId> entry{state.kind, state.layout};
    if (std::find(place.seen.begin(), place.seen.end(), entry) != place.seen.end()) return;
    place.seen.push_back(entry);
    key.is_loaded = place.has_loaded;
    if (key.is_loaded) key.sync = event.at.sync;
    Ballot& ballot = forwards_[key];
    ballot.add(event, state.digests);
    if (ballot.n_ranks() < wrappers_.n_members(key.wrapper, n_ranks_)) return;
    judge(key, ballot, names);
    forwards_.erase(key);
  }

  void judge(const Key& key, const Ballot& ballot, const NameTable& names) {
    judged_.insert({key.wrapper, key.layout});
    const WrapEvent* wrap = wrappers_.find(key.wrapper);
    const bool local = key.kind == StateKind::kBuffer && !synchronised(wrap);
    const Ballot* const at_wrap = local ? unequal_at_wrap(key, wrap) : nullptr;
    if (local && at_wrap == nullptr) return;
    n_checked_ += ballot.n_comparisons();
    if (ballot.unanimous()) return;
    const std::span<const NameId> layout = names.layout(static_cast<LayoutId>(key.layout));
    for (std::size_t i = 0; i < layout.size(); ++i) {
      std::vector<Rank> ranks = ballot.against_first(i);
      if (ranks.empty() || wrappers_.ignored(key.wrapper, layout[i], names)) continue;
      if (local && at_wrap->against_first(i).empty()) continue;
      if (!reported_.insert({key.wrapper, layout[i]}).second) continue;
      report(key, ballot.majority_opt(), i, std::move(ranks), names);
    }
  }

  void report(const Key& key,
              std::int32_t opt,
              std::size_t i,
              std::vector<Rank> ranks,
              const NameTable& names) {
    Key at_wrap = key;
    at_wrap.is_loaded = false;
    at_wrap.sync = 0;
    const auto wrapped = wraps_.find(at_wrap);
    const bool known = wrapped != wraps_.end();
    const bool equal_at_wrap = known && wrapped->second.against_first(i).empty();
    const WrapEvent* wrap = wrappers_.find(key.wrapper);
    Finding finding;
    finding.attempt = key.wrapper.attempt;
    finding.tensor = names.text(names.layout(static_cast<LayoutId>(key.layout))[i]);
    finding.ranks = std::move(ranks);
    finding.step = opt;
    finding.event = known && !equal_at_wrap ? "wrap" : "forward";
    const std::string what = key.kind == StateKind::kBuffer ? "the buffer " : "";
    finding.message = what + "differs from rank 0's when training starts";
    if (key.is_loaded || loads_.into(key.wrapper)) {
      finding.event = "forward";
      finding.cause = Cause::kLoadRank0Only;
      finding.message = what + "differs from rank 0's after a load";
    } else if (equal_at_wrap) {
      explain_write(key.wrapper, finding);
      // A part of a tensor says nothing of its rest.
      if (key.kind == StateKind::kParam && whole_) {
        const NameId tensor = names.layout(static_cast<LayoutId>(key.layout))[i];
        return first_steps_.open({std::move(finding), key.wrapper, tensor});
      }
    } else if (wrap != nullptr && !wrap->synchronizes) {
      finding.cause = Cause::kInitNoBroadcast;
      finding.message += "; nothing broadcast rank 0's values";
    } else if (known && key.kind == StateKind::kBuffer && !synchronised(wrap)) {
      finding.cause = Cause::kInitBuffersSkipped;
    } else if (known) {
      finding.cause = Cause::kInitBroadcastPartial;
    }
    findings_.push_back(std::move(finding));
  }

  /// Something has written to what wrapping had made equal.
  void explain_write(WrapperKey wrapper, Finding& finding) const {
    finding.message += "; it was equal when the model was wrapped and was written afterwards";
    const std::vector<Rank> readers =
        loads_.lone_readers(wrapper.attempt, wrappers_.n_members(wrapper, n_ranks_));
    finding.cause = readers.empty() ? Cause::kParameterNudged : Cause::kLoadRank0Only;
    if (readers.empty()) return;
    finding.message += "; since then only " + ranks_text(readers) +
                       (readers.size() == 1 ? " has" : " have") + " read a file";
  }

  /// Buffers that a wrapper leaves alone are each rank's own from the first batch on, and equal
  /// when it is made: unless the job says otherwise, or an earlier wrapper has trained them. Returns:
  /// where they differed then.
  const Ballot* unequal_at_wrap(const Key& key, const WrapEvent* wrap) const {
    if (wrap == nullptr || !wrap->synchronizes || buffers_ == BufferPolicy::kLocal) return nullptr;
    if (key.wrapper.wrapper != 0 || key.is_loaded) return nullptr;
    const auto wrapped = wraps_.find(key);
    const bool differ = wrapped != wraps_.end() && !wrapped->second.unanimous();
    return differ ? &wrapped->second : nullptr;
  }

  bool synchronised(const WrapEvent* wrap) const {
    const bool says = wrap != nullptr && wrap->buffer_policy != BufferPolicy::kNone;
    return (says ? wrap->buffer_policy : buffers_) != BufferPolicy::kLocal;
  }

  std::int32_t n_ranks_;
  BufferPolicy buffers_;
  bool whole_;
  bool more_follows_;
  Wrappers wrappers_;
  RankWrapperMap<RankPlace> places_;
  std::map<Key, Ballot> wraps_;
  std::map<Key, Ballot> forwards_;
  std::set<std::pair<WrapperKey, std::uint32_t>> judged_;
  Loads loads_;
  FirstSteps first_steps_;
  FrozenModules frozen_;
  std::set<std::pair<WrapperKey, NameId>> reported_;
  std::vector<Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_init_equal(const LawPolicy& policy) {
  return std::make_unique<InitEqual>(policy);
}

}  // namespace lockstep::laws
