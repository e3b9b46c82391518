#include "lockstep/harness/explore/search/coverage.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/trace/memory_trace.h"

namespace lockstep::explore {

namespace {

class Counting final : public CountingStrategy {
 public:
  explicit Counting(sim::Strategy& inner) : inner_(&inner) {}

  void start(std::int32_t n_ranks) override {
    n_enabled_ = 0;
    inner_->start(n_ranks);
  }

  void on_enabled(const sim::Action& action) override {
    ++n_enabled_;
    inner_->on_enabled(action);
  }

  void on_disabled(sim::ActionId id) override {
    --n_enabled_;
    inner_->on_disabled(id);
  }

  sim::ActionId pick() override {
    if (n_enabled_-- > 1) ++counts_.choices;
    const sim::ActionId id = inner_->pick();
    const std::uint64_t kind = static_cast<std::uint64_t>(id) >> 60U;
    if (kind < kActionKinds) ++counts_.picks[kind];
    return id;
  }

  std::string describe() const override { return inner_->describe(); }

  bool watches() const override { return inner_->watches(); }

  void on_touch(std::uint64_t object) override { inner_->on_touch(object); }

  void on_quiet() override { inner_->on_quiet(); }

  const ActionCounts& counts() const override { return counts_; }

 private:
  sim::Strategy* inner_;
  ActionCounts counts_;
  std::uint64_t n_enabled_ = 0;
};

constexpr std::array<std::string_view, kActionKinds> kActionWords = {
    "resumptions", "transfers", "messages", "timers"};

bool includes(const MarkSpec& mark, const Event& event, const NameTable& names) {
  if (mark.rank && *mark.rank != to_int(event.rank)) return false;
  if (mark.step && *mark.step != event.at.opt) return false;
  if (mark.attempt && *mark.attempt != event.at.attempt) return false;
  if (!mark.event->includes(event)) return false;
  return mark.text.empty() || to_json_line(event, names).find(mark.text) != std::string::npos;
}

bool shows(const MarkSpec& mark, const MemoryTrace* trace) {
  if (trace == nullptr) return false;
  for (std::int32_t r = 0; r < trace->n_ranks(); ++r) {
    for (const Event& event : trace->events(Rank{r})) {
      if (includes(mark, event, trace->names())) return true;
    }
  }
  return false;
}

bool broke(const Report& report, const std::string& law) {
  return std::ranges::any_of(report.laws, [&](const LawResult& each) {
    return each.law == law && !each.findings.empty();
  });
}

bool reaches(const ScenarioResult& result, const MarkSpec& mark) {
  if (mark.outcome && *mark.outcome != result.report.outcome) return false;
  if (!mark.law.empty() && !broke(result.report, mark.law)) return false;
  return !mark.event || shows(mark, result.session.trace.get());
}

/// Each planned fault by its words, with its attempt where there are several.
std::string fault_name(const sim::Fault& fault) {
  std::string name = sim::describe(fault);
  if (fault.attempt > 0) name += ", attempt " + std::to_string(fault.attempt);
  return name;
}

std::vector<Reached> faults_of(const Scenario& scenario, const sim::SessionResult& session) {
  std::vector<std::string> struck;
  for (const sim::Attempt& attempt : session.attempts) {
    for (const sim::Fault& fault : attempt.struck) struck.push_back(fault_name(fault));
  }
  std::vector<Reached> faults;
  for (const sim::Fault& fault : scenario.session.faults) {
    Reached reached{.name = fault_name(fault), .where = {}};
    // Of faults with the same words as many count as struck.
    if (const auto found = std::ranges::find(struck, reached.name); found != struck.end()) {
      reached.n_runs = 1;
      struck.erase(found);
    }
    faults.push_back(std::move(reached));
  }
  return faults;
}

void add_reached(std::vector<Reached>& all, const std::vector<Reached>& later) {
  std::vector<char> used(all.size(), 0);
  for (const Reached& each : later) {
    std::size_t i = 0;
    while (i < used.size() &&
           (used[i] != 0 || all[i].name != each.name || all[i].where != each.where)) {
      ++i;
    }
    if (i == used.size()) {
      all.push_back(each);
      continue;
    }
    used[i] = 1;
    all[i].n_runs += each.n_runs;
  }
}

void add_laws(std::vector<LawCoverage>& all, const std::vector<LawCoverage>& later) {
  for (const LawCoverage& each : later) {
    const auto known = std::ranges::find(all, each.law, &LawCoverage::law);
    if (known == all.end()) {
      all.push_back(each);
      continue;
    }
    known->n_held += each.n_held;
    known->n_broken += each.n_broken;
    known->n_unchecked += each.n_unchecked;
  }
}

std::string counted(std::uint64_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what);
}

std::string actions_text(const ActionCounts& actions) {
  std::vector<std::string> done;
  std::vector<std::string> never;
  for (std::size_t kind = 0; kind < kActionKinds; ++kind) {
    if (actions.picks[kind] > 0) {
      done.push_back(counted(actions.picks[kind], kActionWords[kind]));
    } else {
      never.emplace_back(kActionWords[kind]);
    }
  }
  std::string text = "actions: " + (done.empty() ? "none" : join(done)) + "; " +
                     counted(actions.choices, "picks had an alternative");
  if (!never.empty()) text += "; never: " + join(never);
  return text + "\n";
}

/// "faults: 2 of 3 struck" and those that did not, a line each.
std::string reached_text(std::string_view what,
                         std::string_view done,
                         const std::vector<Reached>& list) {
  if (list.empty()) return {};
  std::string missing;
  std::size_t n_reached = 0;
  for (const Reached& each : list) {
    if (each.n_runs > 0) {
      ++n_reached;
      continue;
    }
    missing += "  never " + std::string(done) + ": " + each.name;
    if (!each.where.empty()) missing += " (" + each.where + ")";
    missing += "\n";
  }
  return std::string(what) + ": " + std::to_string(n_reached) + " of " +
         std::to_string(list.size()) + " " + std::string(done) + "\n" + missing;
}

void write_reached(JsonText& out, std::string_view key, const std::vector<Reached>& list) {
  out.key(key).open_array();
  for (const Reached& each : list) {
    out.open_object().key("name").text(each.name).key("where").text(each.where);
    out.key("runs").integer(static_cast<std::int64_t>(each.n_runs)).close_object();
  }
  out.close_array();
}

void write_number(JsonText& out, std::string_view key, std::uint64_t n) {
  out.key(key).integer(static_cast<std::int64_t>(n));
}

}  // namespace

std::unique_ptr<CountingStrategy> make_counting(sim::Strategy& inner) {
  return std::make_unique<Counting>(inner);
}

void add_actions(ActionCounts& all, const ActionCounts& later) {
  for (std::size_t kind = 0; kind < kActionKinds; ++kind) all.picks[kind] += later.picks[kind];
  all.choices += later.choices;
}

void Coverage::add(const Coverage& later) {
  n_runs += later.n_runs;
  add_actions(actions, later.actions);
  add_laws(laws, later.laws);
  add_reached(faults, later.faults);
  add_reached(marks, later.marks);
}

std::vector<Reached> Coverage::unreached() const {
  std::vector<Reached> list;
  std::ranges::copy_if(
      marks, std::back_inserter(list), [](const Reached& mark) { return mark.n_runs == 0; });
  return list;
}

Coverage coverage_of(const Scenario& scenario,
                     const ScenarioResult& result,
                     const ActionCounts& actions) {
  Coverage coverage{.n_runs = 1, .actions = actions, .laws = {}, .faults = {}, .marks = {}};
  count_laws(result.report, coverage.laws);
  coverage.faults = faults_of(scenario, result.session);
  for (const MarkSpec& mark : scenario.marks) {
    coverage.marks.push_back({mark.name, mark.where, reaches(result, mark) ? 1U : 0U});
  }
  return coverage;
}

std::string coverage_text(const Coverage& coverage) {
  return actions_text(coverage.actions) + laws_text(coverage.laws) +
         reached_text("faults", "struck", coverage.faults) +
         reached_text("marks", "reached", coverage.marks);
}

void write_coverage(JsonText& out, const Coverage& coverage) {
  write_number(out, "runs", coverage.n_runs);
  out.key("actions").open_object();
  for (std::size_t kind = 0; kind < kActionKinds; ++kind) {
    write_number(out, kActionWords[kind], coverage.actions.picks[kind]);
  }
  write_number(out, "choices", coverage.actions.choices);
  out.close_object().key("laws").open_array();
  for (const LawCoverage& law : coverage.laws) {
    out.open_object().key("law").text(law.law);
    write_number(out, "held", law.n_held);
    write_number(out, "broken", law.n_broken);
    write_number(out, "unchecked", law.n_unchecked);
    out.close_object();
  }
  out.close_array();
  write_reached(out, "faults", coverage.faults);
  write_reached(out, "marks", coverage.marks);
}

}  // namespace lockstep::explore
