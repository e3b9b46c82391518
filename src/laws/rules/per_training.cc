#include "lockstep/laws/rules/per_training.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"

namespace lockstep::laws {

namespace {

using Factory = std::unique_ptr<Law> (*)(const LawPolicy&);

class PerTraining final : public Law {
 public:
  PerTraining(Factory make, const LawPolicy& policy)
      : make_(make), policy_(policy), first_(make(policy)) {}

  const LawInfo& info() const override { return first_->info(); }

  EventKinds reads() const override { return first_->reads() | kinds_of<TrainingEvent>(); }

  void require(RecordOptions& options) const override { first_->require(options); }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* training = std::get_if<TrainingEvent>(&event.body)) {
      begin(event, training->number, names);
    } else if (note(event)) {
      first_->on_event(event, names);
      for (const auto& [number, law] : later_) law->on_event(event, names);
    } else {
      law_of(event).on_event(event, names);
    }
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const bool one = now_.empty() && !std::holds_alternative<TrainingEvent>(event.first->body);
    if (!one) return Law::on_cohort(event, names);
    note(*event.first);
    first_->on_cohort(event, names);
  }

  LawResult finish(const NameTable& names) override {
    LawResult all = first_->finish(names);
    for (const auto& [number, law] : later_) {
      LawResult own = law->finish(names);
      for (Finding& finding : own.findings) {
        finding.message += " (in training " + std::to_string(number + 1) + " of this program)";
      }
      add(std::move(own), all);
    }
    return all;
  }

 private:
  /// What a rank trains, and in which restart attempt: an attempt begins with the first training.
  struct Now {
    std::int32_t attempt = 0;
    std::int32_t number = 0;
  };

  /// Keeps what later trainings have to know, too: how many ranks there are, and who holds replicas.
  bool note(const Event& event) {
    if (std::holds_alternative<WrapEvent>(event.body)) {
      wraps_.insert_or_assign(wrapper_of(event.at), event);  // No spans inside: safe to keep.
      return true;
    }
    if (!std::holds_alternative<EnvironmentEvent>(event.body)) return false;
    environments_.insert_or_assign(event.at.attempt, event);
    return true;
  }

  void begin(const Event& event, std::int32_t number, const NameTable& names) {
    now_[to_int(event.rank)] = {event.at.attempt, number};
    if (number == 0) return;
    std::unique_ptr<Law>& law = later_[number];
    if (law != nullptr) return;
    law = make_(policy_);
    const EventKinds wanted = law->reads();
    for (const auto& [attempt, environment] : environments_) law->on_event(environment, names);
    if ((wanted & kinds_of<WrapEvent>()) == 0) return;
    for (const auto& [wrapper, wrap] : wraps_) law->on_event(wrap, names);
  }

  Law& law_of(const Event& event) const {
    const auto now = now_.find(to_int(event.rank));
    if (now == now_.end() || now->second.attempt != event.at.attempt) return *first_;
    return now->second.number == 0 ? *first_ : *later_.at(now->second.number);
  }

  static void add(LawResult own, LawResult& all) {
    if (own.verdict == Verdict::kNotCheckable) return;
    all.n_checked += own.n_checked;
    if (all.verdict != Verdict::kBroken) all.verdict = own.verdict;
    all.missing.clear();
    std::move(own.findings.begin(), own.findings.end(), std::back_inserter(all.findings));
    std::move(own.advice.begin(), own.advice.end(), std::back_inserter(all.advice));
  }

  Factory make_;
  LawPolicy policy_;
  std::unique_ptr<Law> first_;
  std::map<std::int32_t, std::unique_ptr<Law>> later_;  // By the training's number, from 1 on.
  std::map<WrapperKey, Event> wraps_;
  std::map<std::int32_t, Event> environments_;  // By restart attempt.
  std::map<std::int32_t, Now> now_;  // By rank; none before the first training has ended.
};

}  // namespace

std::unique_ptr<Law> make_per_training(Factory make, const LawPolicy& policy) {
  return std::make_unique<PerTraining>(make, policy);
}

}  // namespace lockstep::laws
