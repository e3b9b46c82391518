// optimizer.zero and optimizer.averager: what ranks share out, and what they keep apart for a
// while.
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

const Section<AveragingLevel>& level_section() {
  using Level = AveragingLevel;
  static const Section<Level> section(
      "optimizer.averager.levels",
      [](Section<Level>& it) {
        it.differs_by_rank();
        it.add("period", &Level::period, "Steps between averages.").at_least(1).counts();
        it.add("group_size", &Level::group_size, "Blocks of this many ranks average.")
            .at_least(1)
            .counts();
      },
      SectionShape::kList);
  return section;
}

const Section<AveragerSpec>& averager_section() {
  using Spec = AveragerSpec;
  static const Section<Spec> section("optimizer.averager", [](Section<Spec>& it) {
    it.differs_by_rank();
    it.add("warmup_steps", &Spec::warmup_steps, "Steps before the first average.").counts();
    it.tables("levels",
              &Spec::levels,
              level_section(),
              "a level is a table: { period = 2, group_size = 4 }",
              "Blocks of ranks, the last of all of them; instead of `period`.");
    it.add("period", &Spec::period, "Steps between averages over all ranks.").at_least(1).counts();
    it.check([](TableReader& table, Spec& averager) {
      if (averager.levels.empty() || !table.has("period")) return;
      table.problem().report("an averager has either 'levels' or one 'period'",
                             table.where("period"));
    });
  });
  return section;
}

/// What ranks share out or average.
struct SharingTable {
  std::int64_t zero = 0;
  std::optional<AveragerSpec> averager;
};

const Section<SharingTable>& sharing_section() {
  using Table = SharingTable;
  static const Section<Table> section("optimizer", [](Section<Table>& it) {
    it.differs_by_rank();
    it.add("zero", &Table::zero, "1 divides the optimizer's state among the ranks.").at_most(1);
    it.table("averager",
             &Table::averager,
             averager_section(),
             "Averages parameters after steps; absent: no.");
  });
  return section;
}

/// Keys that there are beside zero = 1.
const Section<OptimizerSpec>& zero_section() {
  static const Section<OptimizerSpec> section("optimizer", [](Section<OptimizerSpec>& it) {
    it.differs_by_rank();
    it.add("parameters_as_bucket_view",
           &OptimizerSpec::parameters_as_bucket_view,
           "With `zero = 1`: parameters live in buckets.");
  });
  return section;
}

void check_levels(const Job& job, std::int32_t n_ranks, TableReader& optimizer) {
  if (!job.optimizer.averager || job.optimizer.averager->levels.empty()) return;
  const std::vector<AveragingLevel>& levels = job.optimizer.averager->levels;
  bool divides = levels.back().group_size == n_ranks;
  for (const AveragingLevel& level : levels) {
    divides = divides && n_ranks % level.group_size == 0;
  }
  if (divides) return;
  optimizer.problem().report("the groups of an averager's levels divide the " +
                                 std::to_string(n_ranks) + " ranks, the last one has all of them",
                             optimizer.where("averager"));
}

}  // namespace

std::vector<SchemaSection> sharing_sections() {
  return {sharing_section().described(),
          zero_section().described(),
          averager_section().described(),
          level_section().described()};
}

void read_sharing(TableReader& optimizer, OptimizerSpec& spec) {
  SharingTable sharing;
  sharing_section().read(optimizer, sharing);
  spec.zero = sharing.zero == 1;
  if (spec.zero) zero_section().read(optimizer, spec);
  spec.averager = std::move(sharing.averager);
}

void check_sharing(const Job& job, std::int32_t n_ranks, TableReader& root, Problem& problem) {
  TableReader optimizer = section(root, "optimizer", problem);
  check_levels(job, n_ranks, optimizer);
  if (job.optimizer.zero && job.loop.snapshot.every_steps > 0) {
    problem.report("snapshots do not collect the shares of 'optimizer.zero = 1'",
                   optimizer.where("zero"));
  }
  if (job.optimizer.averager && job.loop.join) {
    problem.report("no joined rank shadows 'optimizer.averager'", optimizer.where("averager"));
  }
}

}  // namespace lockstep
