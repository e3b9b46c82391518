// Values that only the model or another variant can show to be wrong: errors of the file, with their
// place, and never a broken contract of the run.
#include <gmock/gmock.h>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BadValuesTest : public ScenarioFiles {
 protected:
  static std::string error_beside(const std::string& text, const std::string& variant) {
    const Outcome others = check_other_variants(write(text), variant);
    return others.ok() ? "no error" : others.error().text();
  }
};

TEST_F(BadValuesTest, ABugStrikesWithinItsTensor) {
  const auto with = [](const std::string& bug) { return small_job() + "bug = [ " + bug + " ]\n"; };

  EXPECT_EQ(error_of(with("{ kind = \"write-tensor\", tensor = \"weight\", element = 1 }")),
            "job.toml:9:9: 'weight' has 1 elements, counted from 0: there is no element 1");
  EXPECT_EQ(error_of(with("{ kind = \"flip-bit\", tensor = \"weight\", element = 7 }")),
            "job.toml:9:9: 'weight' has 1 elements, counted from 0: there is no element 7");
  EXPECT_EQ(
      error_of(with("{ kind = \"flip-bit\", tensor = \"weight\", bit = 64 }")),
      "job.toml:9:9: an element of 'weight' has 64 bits, counted from 0: bit 64 is out of range");
  EXPECT_EQ(error_of(with("{ kind = \"flip-bit\", tensor = \"weight\", bit = 63 }")), "no error");
}

TEST_F(BadValuesTest, NumbersThatAreTurnedIntoWholeOnesHaveALargest) {
  const auto with = [](const std::string& compute) {
    return small_job() + "sim = { compute = { " + compute + " } }\n";
  };

  EXPECT_EQ(error_of(with("gflops = 1e9")), "no error");
  EXPECT_THAT(error_of(with("gflops = 2e9")), HasSubstr("it must be between 0.001 and 1e+09"));
  EXPECT_THAT(error_of(with("jitter = inf")), HasSubstr("it must be between 0 and 1e+06"));
  EXPECT_THAT(error_of(with("slow = [ { ranks = [0], factor = 1e7 } ]")),
              HasSubstr("it must be between 0 and 1e+06"));
}

TEST_F(BadValuesTest, ARankIsInAGroupOnce) {
  const auto with = [](const std::string& groups) {
    return replaced(small_job(),
                    "world = { ranks = 2 }",
                    "world = { ranks = 2, groups = { odd = " + groups + " } }");
  };

  EXPECT_THAT(error_of(with("[[0, 1, 0]]")), HasSubstr("a rank is in a group once"));
  EXPECT_THAT(error_of(with("[[0, 1]]")), Not(HasSubstr("once")));
}

TEST_F(BadValuesTest, ARunHasAsManyBatchesAsItsEventsFindMemory) {
  const auto with = [](const std::string& keys) {
    return replaced(small_job(), "steps = 1", keys);
  };

  EXPECT_EQ(error_of(with("steps = 50000001")),
            "job.toml:8:18: 'loop.steps' is 50000001: more than 100000000 batches of all ranks "
            "together, whose events a run keeps in memory; take fewer steps or ranks");
  EXPECT_EQ(error_of(with("steps = 50000000")), "no error");
  EXPECT_EQ(error_of(with("accumulate = 10, steps = 5000001")),
            "job.toml:8:35: 'loop.steps' is 5000001: more than 100000000 batches of all ranks "
            "together, whose events a run keeps in memory; take fewer steps or ranks");
  EXPECT_EQ(error_of(with("accumulate = 10, steps = 5000000")), "no error");
  EXPECT_EQ(error_of(with("epochs = 50000001")),
            "job.toml:8:19: 'loop.epochs' is 50000001: more than 100000000 batches of all ranks "
            "together, whose events a run keeps in memory; take fewer epochs or ranks");
  EXPECT_EQ(error_of(with("epochs = 50000000")), "no error");
}

TEST_F(BadValuesTest, AGlobalBatchIsDividedByTheRanks) {
  const auto with = [](const std::string& keys) {
    return small_job() + "[loader]\n" + keys + "\n";
  };

  EXPECT_EQ(
      error_of(with("global_batch = 3")),
      "job.toml:10:16: 'loader.global_batch' is 3, which 2 ranks do not divide: a script that "
      "asserts it ends here");
  EXPECT_EQ(error_of(with("batch = 1\nglobal_batch = 2")),
            "job.toml:11:16: a loader has either 'batch' or 'global_batch'");
  EXPECT_EQ(error_of(with("global_batch = 2")), "no error");
}

TEST_F(BadValuesTest, ARootIsARankOfTheWorld) {
  const auto with = [](const std::string& root) {
    return "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [1] }\n"
           "program = [ { body = [ { op = \"broadcast\", tensor = \"x\", root = " +
           root + " } ] } ]\n";
  };

  EXPECT_EQ(error_of(with("2")), "job.toml:4:65: 'op.root' is 2; it must be between 0 and 1");
  EXPECT_EQ(error_of(with("1")), "no error");
}

TEST_F(BadValuesTest, ASeparatorOfFieldsIsOneCharacter) {
  const auto with = [](const std::string& separator) {
    return replaced(
        small_job(),
        "data = { rows = [ { x = [1], y = [0] }, { x = [2], y = [0] } ] }",
        "data = { kind = \"csv\", path = \"x.csv\", separator = \"" + separator + "\" }");
  };

  for (const char* const wrong : {"", ", "}) {
    EXPECT_EQ(error_of(with(wrong)), "job.toml:5:52: 'data.separator' is one character");
  }
  EXPECT_EQ(error_of(with(";")).find("separator"), std::string::npos);
}

TEST_F(BadValuesTest, AMarkSaysWhatItIsAbout) {
  const auto with = [](const std::string& mark) {
    return small_job() + "sometimes = [ " + mark + " ]\n";
  };

  EXPECT_EQ(error_of(with("{ name = \"x\", event = \"snapshot\", rank = 0 }")), "no error");
  EXPECT_EQ(error_of(with("{ name = \"x\" }")),
            "job.toml:9:15: a mark needs an 'event', a 'law' or an 'outcome'");
  EXPECT_EQ(error_of(with("{ event = \"snapshot\" }")),
            "job.toml:9:15: a mark needs a 'name': what should happen");
  EXPECT_EQ(error_of(with("{ name = \"x\", event = \"snapshop\" }")),
            "job.toml:9:37: no event is called 'snapshop'; did you mean 'snapshot'?");
  EXPECT_EQ(error_of(with("{ name = \"x\", event = \"step\", rank = 9 }")),
            "job.toml:9:52: rank 9 does not exist: the world has ranks 0 to 1");
  EXPECT_EQ(error_of(with("{ name = \"x\", law = \"replica-equal\" }")).substr(0, 14),
            "job.toml:9:35:");
  EXPECT_EQ(error_of(with("{ name = \"x\", outcome = \"ok\", step = 1 }")),
            "job.toml:9:15: 'text', 'rank', 'step' and 'attempt' are those of an 'event'");
}

TEST_F(BadValuesTest, ASkippedStepIsNotTheWrapping) {
  const std::string bug = "bug = [ { kind = \"skip-step\", at = { event = \"EVENT\" } } ]\n";

  EXPECT_EQ(error_of(small_job() + replaced(bug, "EVENT", "wrap")),
            "job.toml:9:9: bug 'skip-step' cannot leave out the wrapping: set ddp.wrap = false");
  EXPECT_EQ(error_of(small_job() + replaced(bug, "EVENT", "forward")), "no error");
}

TEST_F(BadValuesTest, InitialValuesAreAsManyAsTheModelHas) {
  const auto with = [](const std::string& values) {
    return replaced(small_job(),
                    "{ kind = \"constant\", value = 1.0 }",
                    "{ kind = \"values\", values = " + values + " }");
  };

  EXPECT_EQ(error_of(with("[1.0, 2.0]")),
            "job.toml:4:35: the model has 1 elements, 'model.init.values' has 2");
  EXPECT_EQ(error_of(with("[1.0]")), "no error");
}

TEST_F(BadValuesTest, AGridHasAtMost32BitsOfPoints) {
  const auto with = [](const std::string& grid) {
    return replaced(small_job(),
                    "{ kind = \"constant\", value = 1.0 }",
                    "{ kind = \"grid\", grid = " + grid + " }");
  };

  EXPECT_EQ(error_of(with("31")),
            "job.toml:4:59: 'model.init.grid' is 31; it must be between 0 and 30");
  EXPECT_EQ(error_of(with("30")), "no error");
}

TEST_F(BadValuesTest, AMistakeInAVariantThatIsNotSelectedIsFound) {
  const std::string text = small_job() +
                           "[variant.fine]\nloop = { steps = 2 }\n"
                           "[variant.broken]\nloop = { stepps = 2 }\n";

  EXPECT_EQ(error_of(text), "no error");
  EXPECT_EQ(error_beside(text, ""),
            "job.toml:12:10: unknown key 'stepps' in 'loop'; did you mean 'steps'?");
  EXPECT_EQ(error_beside(text, "fine"),
            "job.toml:12:10: unknown key 'stepps' in 'loop'; did you mean 'steps'?");
  EXPECT_EQ(error_beside(text, "broken"), "no error");
  EXPECT_EQ(error_beside(replaced(text, "stepps", "steps"), ""), "no error");
}

}  // namespace
}  // namespace lockstep
