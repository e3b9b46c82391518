// Batch for batch and draw for draw against PyTorch's DataLoader with real worker processes.
#include <gtest/gtest.h>

#include "tests/golden/loaded.h"

namespace lockstep::golden {
namespace {

bool is_map(const LoaderCase& words) {
  const std::string& source = words.text("source");
  return source != "plain" && source != "sharded" && source != "uneven";
}

// Reads as usual, but treats the workers' generators as `sabotage` says. `Twin` may keep state.
template <typename Twin>
class SabotagedRows final : public Rows {
 public:
  SabotagedRows(const LoaderCase& one, Twin twin) : Rows(one), twin_(std::move(twin)) {}

  void init(data::Worker& worker) override {
    twin_(worker);
    Rows::init(worker);
  }

 private:
  Twin twin_;
};

// Cases whose answer changes when `twin` has its way with each new worker, out of those compared.
struct Noticed {
  std::size_t noticed = 0;
  std::size_t compared = 0;
};

template <typename Twin, typename Filter>
Noticed notice(Twin twin, Filter&& matters) {
  Noticed result;
  for (const Case& one : read("loaders.txt")) {
    LoaderRun run(one);
    const LoaderCase& words = run.words();
    if (!is_map(words) || words.text("init") == "reseed" || !matters(words)) continue;
    SabotagedRows<Twin> rows(words, twin);
    result.noticed += run.passes(&rows) != one.values ? 1U : 0U;
    ++result.compared;
  }
  return result;
}

TEST(LoaderGoldenTest, BatchesAndWorkerDrawsEqualTorchOverThreePasses) {
  std::map<std::string, std::size_t> n_cases;
  for (const Case& one : read("loaders.txt")) {
    EXPECT_EQ(loaded(one), one.values) << one.text();
    const LoaderCase words(one);
    ++n_cases[words.text("workers") + (words.flag("persistent") ? " persistent" : "")];
  }
  EXPECT_EQ(n_cases.size(), 9U);  // 0 to 4 workers; 1 to 4 of them also persistent.
  for (const auto& [kind, count] : n_cases) EXPECT_GE(count, 10U) << kind;
}

TEST(LoaderGoldenTest, WorkersWithEqualSeedsAreNoticed) {
  const auto alike = [](data::Worker& worker) {
    worker.generator->manual_seed(worker.seed - static_cast<std::uint64_t>(worker.id));
  };
  const Noticed result = notice(alike, [](const LoaderCase& words) {
    return words.integer("workers") > 1 && words.integer("size") > 2 * words.integer("batch") &&
           words.text("source") == "shuffle";
  });

  EXPECT_GE(result.compared, 5U);
  EXPECT_EQ(result.noticed, result.compared);
}

TEST(LoaderGoldenTest, ABaseSeedThatIsNotDrawnAgainIsNoticed) {
  // Each pass starts its workers from the seeds of the first one.
  const auto stale = [first = std::map<std::int64_t, std::uint64_t>()](data::Worker& w) mutable {
    const auto known = first.try_emplace(w.id, w.seed).first;
    w.generator->manual_seed(known->second);
  };
  const auto restarts = [](const LoaderCase& words) {
    return words.integer("workers") > 0 && !words.flag("persistent") &&
           words.integer("size") > words.integer("batch") && !words.flag("drop") &&
           words.text("source") != "distributed";
  };

  const Noticed result = notice(stale, restarts);

  EXPECT_GE(result.compared, 5U);
  EXPECT_EQ(result.noticed, result.compared);
}

TEST(LoaderGoldenTest, TheSabotageItselfChangesNothingElse) {
  const Noticed result = notice([](data::Worker&) {}, [](const LoaderCase&) { return true; });

  EXPECT_GE(result.compared, 50U);
  EXPECT_EQ(result.noticed, 0U);
}

TEST(LoaderGoldenTest, BatchesInAnotherTurnAreNoticed) {
  std::size_t compared = 0;
  for (const Case& one : read("loaders.txt")) {
    const LoaderCase words(one);
    if (words.integer("workers") < 2 || words.integer("size") <= 2 * words.integer("batch")) {
      continue;
    }
    // The second worker answers first: the batches of the file itself with the first two swapped.
    const std::size_t first = one.values.find(" | ");
    const std::size_t second = one.values.find(" | ", first + 1);
    if (second == std::string::npos || words.text("source") != "shuffle") continue;
    const std::string swapped = one.values.substr(first + 3, second - first - 3) + " | " +
                                one.values.substr(0, first) + one.values.substr(second);
    EXPECT_NE(loaded(one), swapped) << one.text();
    ++compared;
  }
  EXPECT_GE(compared, 5U);
}

}  // namespace
}  // namespace lockstep::golden
