// scheduler: how learning rates move.
#include <algorithm>

#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

/// What only one kind of schedule has.
template <typename Rule, typename Fill>
Section<Rule> of_kind(ScheduleKind kind, Fill fill) {
  return Section<Rule>("scheduler", {name_of(kind)}, [&](Section<Rule>& it) {
    it.differs_by_rank();
    fill(it);
  });
}

constexpr std::string_view kGamma = "The rate is multiplied by this.";
constexpr std::string_view kTotalIters = "Epochs until it has its last value.";
constexpr std::string_view kEtaMin = "The lowest rate.";

const Section<optim::StepLr>& step_section() {
  static const auto section = of_kind<optim::StepLr>(ScheduleKind::kStep, [](auto& it) {
    it.add("step_size", &optim::StepLr::step_size, "Epochs between falls.").at_least(1);
    it.add("gamma", &optim::StepLr::gamma, kGamma);
  });
  return section;
}

const Section<optim::MultiStepLr>& multistep_section() {
  static const auto section = of_kind<optim::MultiStepLr>(ScheduleKind::kMultistep, [](auto& it) {
    it.add("milestones", &optim::MultiStepLr::milestones, "At these epochs.");
    it.add("gamma", &optim::MultiStepLr::gamma, kGamma);
  });
  return section;
}

const Section<optim::ExponentialLr>& exponential_section() {
  static const auto section = of_kind<optim::ExponentialLr>(
      ScheduleKind::kExponential,
      [](auto& it) { it.add("gamma", &optim::ExponentialLr::gamma, kGamma); });
  return section;
}

const Section<optim::ConstantLr>& constant_section() {
  static const auto section = of_kind<optim::ConstantLr>(ScheduleKind::kConstant, [](auto& it) {
    it.add("factor", &optim::ConstantLr::factor, "Of the initial rate, until then.")
        .from(0.0)
        .links(RankLink::kFactor);
    it.add("total_iters", &optim::ConstantLr::total_iters, kTotalIters).at_least(1).counts();
  });
  return section;
}

const Section<optim::LinearLr>& linear_section() {
  static const auto section = of_kind<optim::LinearLr>(ScheduleKind::kLinear, [](auto& it) {
    it.add("start_factor", &optim::LinearLr::start_factor, "Of the initial rate, at first.")
        .from(0.0);
    it.add("end_factor", &optim::LinearLr::end_factor, "Of the initial rate, in the end.")
        .from(0.0);
    it.add("total_iters", &optim::LinearLr::total_iters, kTotalIters).at_least(1).counts();
  });
  return section;
}

const Section<optim::PolynomialLr>& polynomial_section() {
  static const auto section = of_kind<optim::PolynomialLr>(ScheduleKind::kPolynomial, [](auto& it) {
    it.add("total_iters", &optim::PolynomialLr::total_iters, kTotalIters).at_least(1).counts();
    it.add("power", &optim::PolynomialLr::power, "Of what is left of the way to 0.");
  });
  return section;
}

const Section<optim::CosineAnnealingLr>& cosine_section() {
  static const auto section =
      of_kind<optim::CosineAnnealingLr>(ScheduleKind::kCosine, [](auto& it) {
        it.add("t_max", &optim::CosineAnnealingLr::t_max, "Epochs on the way down.").at_least(1);
        it.add("eta_min", &optim::CosineAnnealingLr::eta_min, kEtaMin).from(0.0);
      });
  return section;
}

const Section<optim::CosineAnnealingWarmRestarts>& restarts_section() {
  using Rule = optim::CosineAnnealingWarmRestarts;
  static const auto section = of_kind<Rule>(ScheduleKind::kRestarts, [](auto& it) {
    it.add("t_0", &Rule::t_0, "Epochs of the first way down.").at_least(1);
    it.add("t_mult", &Rule::t_mult, "How many times as long each way is as the one before.")
        .at_least(1);
    it.add("eta_min", &Rule::eta_min, kEtaMin).from(0.0);
  });
  return section;
}

/// A rule with one value where the options have one per group.
struct OneCycleTable {
  optim::OneCycleLr rule;
  double max_lr = 0.1;
  double base_momentum = optim::OneCycleLr().base_momentum.front();
  double max_momentum = optim::OneCycleLr().max_momentum.front();
};

const Section<OneCycleTable>& onecycle_section() {
  using Table = OneCycleTable;
  static const auto section = of_kind<Table>(ScheduleKind::kOnecycle, [](auto& it) {
    const auto rule = [](auto member) { return in(&Table::rule, member); };
    it.add("max_lr", &Table::max_lr, "The highest rate.").from(0.0);
    it.add("total_steps", rule(&optim::OneCycleLr::total_steps), "Steps of the cycle.").at_least(1);
    it.add("pct_start", rule(&optim::OneCycleLr::pct_start), "Share of the cycle that goes up.")
        .from(0.0);
    it.add("anneal", rule(&optim::OneCycleLr::anneal), "Shape of the ways up and down.");
    it.add(
        "cycle_momentum", rule(&optim::OneCycleLr::cycle_momentum), "Momentum goes the other way.");
    it.add("base_momentum", &Table::base_momentum, "The lowest momentum.");
    it.add("max_momentum", &Table::max_momentum, "The highest momentum.");
    it.add("div_factor", rule(&optim::OneCycleLr::div_factor), "`max_lr` over the first rate.");
    it.add("final_div_factor",
           rule(&optim::OneCycleLr::final_div_factor),
           "The first rate over the last.");
    it.add("three_phase",
           rule(&optim::OneCycleLr::three_phase),
           "The last fall is a phase of its own.");
  });
  return section;
}

struct FactorTable {
  std::vector<double> factors;
};

const Section<FactorTable>& table_section() {
  static const auto section = of_kind<FactorTable>(ScheduleKind::kTable, [](auto& it) {
    it.add("factors",
           &FactorTable::factors,
           "Of the initial rate, one per epoch; the last one stays.")
        .required();
  });
  return section;
}

struct PlateauTable {
  optim::PlateauOptions options;
  double min_lr = optim::PlateauOptions().min_lr.front();
  PlateauMetric metric = SchedulerSpec().metric;
};

void check_plateau(TableReader& table, PlateauTable& plateau) {
  if (plateau.options.factor >= 1.0)
    table.problem().report("Factor should be < 1.0.", table.where("factor"));
}

const Section<PlateauTable>& plateau_section() {
  using Options = optim::PlateauOptions;
  static const auto section = of_kind<PlateauTable>(ScheduleKind::kPlateau, [](auto& it) {
    const auto option = [](auto member) { return in(&PlateauTable::options, member); };
    it.add(
        "metric",
        &PlateauTable::metric,
        "Each rank's own last loss, or the last evaluation of all ranks, after which rates move.");
    it.either("mode", option(&Options::maximize), "min", "max", "Which metric is better.");
    it.add("factor", option(&Options::factor), "The rate is multiplied by this, less than 1.")
        .from(0.0)
        .links(RankLink::kFactor);
    it.add("patience", option(&Options::patience), "Epochs without a better metric before that.");
    it.add("threshold", option(&Options::threshold), "Less of a change is none.");
    it.either("threshold_mode",
              option(&Options::absolute),
              "rel",
              "abs",
              "The threshold is a share of the metric, or a difference.");
    it.add("cooldown", option(&Options::cooldown), "Epochs to wait after that.");
    it.add("min_lr", &PlateauTable::min_lr, kEtaMin).from(0.0);
    it.add("eps", option(&Options::eps), "Smaller changes of a rate are left out.").from(0.0);
    it.check(check_plateau);
  });
  return section;
}

/// What all kinds have, and those that consist of others.
struct SchedulerTable : SchedulerSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
};

const Section<SchedulerTable>& scheduler_section() {
  using Table = SchedulerTable;
  static const Section<Table> section("scheduler", [](Section<Table>& it) {
    it.differs_by_rank();
    it.add("kind", &Table::kind, "The shape of the rates over time.").selects();
    it.add("per", &SchedulerSpec::per, "When the rates advance.");
    it.add("times", &SchedulerSpec::times, "How often they advance then.")
        .between(1, TableReader::kMostSmall)
        .counts();
    it.add("declared_times", &SchedulerSpec::declared_times, "How often one process advances them.")
        .between(1, TableReader::kMostSmall);
    it.code("parts", FieldType::kTables, "Schedules: `[{ kind = \"linear\", ... }, ...]`.")
        .of({ScheduleKind::kSequential, ScheduleKind::kChained})
        .required();
    it.add("milestones",
           &SchedulerSpec::milestones,
           "When the next part starts; one fewer than parts.")
        .of({ScheduleKind::kSequential});
  });
  return section;
}

template <typename Rule>
Rule rule_of(const Section<Rule>& section, TableReader& table) {
  Rule rule;
  section.read(table, rule);
  return rule;
}

optim::OneCycleLr read_one_cycle(TableReader& table) {
  OneCycleTable given = rule_of(onecycle_section(), table);
  given.rule.max_lr = {given.max_lr};
  given.rule.base_momentum = {given.base_momentum};
  given.rule.max_momentum = {given.max_momentum};
  return std::move(given.rule);
}

/// Factors of the initial rate, one per epoch; the last one stays in effect.
optim::LambdaLr read_table_rule(TableReader& table) {
  const std::vector<double> factors = rule_of(table_section(), table).factors;
  if (factors.empty()) {
    table.problem().report("kind = \"table\" needs 'factors': [1.0, 0.5, 0.25]", table.where());
    return {{[](std::int64_t) { return 1.0; }}};
  }
  return {{[factors](std::int64_t epoch) {
    return factors[std::min(static_cast<std::size_t>(epoch), factors.size() - 1)];
  }}};
}

optim::LrRule read_rule(TableReader& table, ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kStep:
      return rule_of(step_section(), table);
    case ScheduleKind::kMultistep:
      return rule_of(multistep_section(), table);
    case ScheduleKind::kExponential:
      return rule_of(exponential_section(), table);
    case ScheduleKind::kConstant:
      return rule_of(constant_section(), table);
    case ScheduleKind::kPolynomial:
      return rule_of(polynomial_section(), table);
    case ScheduleKind::kCosine:
      return rule_of(cosine_section(), table);
    case ScheduleKind::kRestarts:
      return rule_of(restarts_section(), table);
    case ScheduleKind::kOnecycle:
      return read_one_cycle(table);
    case ScheduleKind::kTable:
      return read_table_rule(table);
    default:
      return rule_of(linear_section(), table);
  }
}

/// A part has no parts, and no metric.
struct PartTable {
  std::string kind = std::string(name_of(ScheduleKind::kCosine));
};

const Section<PartTable>& part_section() {
  static const Section<PartTable> section(
      "scheduler.parts",
      [](Section<PartTable>& it) {
        it.differs_by_rank();
        const auto plain = std::span(kEnumNames<ScheduleKind>)
                               .first(static_cast<std::size_t>(ScheduleKind::kPlateau));
        it.add("kind", &PartTable::kind, "With the keys of that kind.")
            .words({plain.begin(), plain.end()});
      },
      SectionShape::kList);
  return section;
}

/// The parts of a sequential or chained schedule.
std::vector<optim::LrRule> read_parts(TableReader& table) {
  std::vector<optim::LrRule> rules;
  const TomlNode* parts = table.array("parts");
  for (std::size_t i = 0; parts != nullptr && i < parts->items.size(); ++i) {
    const TomlNode& node = parts->items[i];
    if (!node.is_table()) {
      table.problem().report("a part is a table: { kind = \"linear\" }", node.where);
      continue;
    }
    TableReader part(node, part_section().name(), table.problem());
    const std::string word = rule_of(part_section(), part).kind;
    rules.push_back(
        read_rule(part, parse_enum<ScheduleKind>(word).value_or(ScheduleKind::kCosine)));
    part.finish();
  }
  if (rules.empty()) {
    table.problem().report("'scheduler.parts' are one schedule or more", table.where("parts"));
  }
  return rules;
}

void read_compound(TableReader& table, SchedulerTable& scheduler) {
  scheduler.rules = read_parts(table);
  scheduler.chained = scheduler.kind == ScheduleKind::kChained;
  if (!scheduler.chained && scheduler.milestones.size() + 1 != scheduler.rules.size()) {
    table.problem().report("'scheduler.milestones' are one fewer than its parts",
                           table.where("milestones"));
  }
}

void read_plateau(TableReader& table, SchedulerTable& scheduler) {
  PlateauTable plateau = rule_of(plateau_section(), table);
  plateau.options.min_lr = {plateau.min_lr};
  scheduler.plateau = std::move(plateau.options);
  scheduler.metric = plateau.metric;
}

}  // namespace

std::vector<SchemaSection> scheduler_sections() {
  return {scheduler_section().described(),
          step_section().described(),
          multistep_section().described(),
          exponential_section().described(),
          constant_section().described(),
          linear_section().described(),
          polynomial_section().described(),
          cosine_section().described(),
          restarts_section().described(),
          onecycle_section().described(),
          table_section().described(),
          plateau_section().described(),
          part_section().described()};
}

SchedulerSpec read_scheduler(TableReader& root, Problem& problem) {
  if (!root.has("scheduler")) return {};
  TableReader table = section(root, "scheduler", problem);
  SchedulerTable scheduler;
  scheduler_section().read(table, scheduler);
  if (scheduler.kind == ScheduleKind::kPlateau) {
    read_plateau(table, scheduler);
  } else if (scheduler.kind == ScheduleKind::kSequential ||
             scheduler.kind == ScheduleKind::kChained) {
    read_compound(table, scheduler);
  } else {
    scheduler.rules = {read_rule(table, scheduler.kind)};
  }
  table.finish();
  return static_cast<const SchedulerSpec&>(scheduler);
}

}  // namespace lockstep
