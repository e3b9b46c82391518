// Views of tensors in programs, and where their touches are reported.
#include <gmock/gmock.h>

#include "lockstep/harness/run/run_scenario.h"

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ScenarioFiles {
 protected:
  static std::string program(const std::string& tensors, const std::string& body) {
    return "format = 1\nworld = { ranks = 2 }\ntensor.x = { shape = [4], fill = 1 }\n" + tensors +
           "\nprogram = [ { body = [ " + body + " ] } ]\n";
  }
};

TEST_F(ProgramTest, AViewIsAPartOfItsTensor) {
  const auto scenario = load(program("tensor.v = { view = \"x\", offset = 1, shape = [2] }",
                                     "{ op = \"write\", tensor = \"v\", value = 7 }, "
                                     "{ op = \"expect\", tensor = \"x\", equals = [1, 7, 7, 1] }"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  EXPECT_EQ(name_of(run_scenario(scenario.value(), {}).value().report.outcome), "ok");
}

TEST_F(ProgramTest, AViewLiesInsideATensorOfItsOwnMemory) {
  const std::string body = "{ op = \"barrier\" }";
  EXPECT_THAT(
      load(program("tensor.v = { view = \"x\", offset = 3, shape = [2] }", body)).error().text(),
      HasSubstr("the view does not lie inside 'x'"));
  EXPECT_THAT(load(program("tensor.v = { view = \"y\" }", body)).error().text(),
              HasSubstr("a view is of a declared tensor that is not a view itself"));
  EXPECT_THAT(load(program("tensor.v = { view = \"x\" }\ntensor.w = { view = \"v\" }", body))
                  .error()
                  .text(),
              HasSubstr("a view is of a declared tensor that is not a view itself"));
}

TEST_F(ProgramTest, ATouchWithoutASiteIsReportedAtItsLine) {
  const auto scenario = load(program("",
                                     "{ op = \"all_reduce\", tensor = \"x\", async = \"w\" },\n"
                                     "{ op = \"write\", tensor = \"x\", value = 0 },\n"
                                     "{ op = \"wait\", work = \"w\" }"));
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok());
  ASSERT_EQ(result.value().report.n_findings(), 1U);
  for (const LawResult& law : result.value().report.laws) {
    if (law.findings.empty()) continue;
    EXPECT_THAT(law.findings[0].site, HasSubstr(".toml:6"));
  }
}

TEST_F(ProgramTest, OneRanksExceptionIsTheErrorOfARunThatContinues) {
  const auto scenario = load(
      "format = 1\nworld = { ranks = 2 }\nsim = { keep_going = true }\ntensor.x = { shape = [4] }\n"
      "program = [ { ranks = [0], body = [ { op = \"all_reduce\", tensor = \"x\" } ] }, "
      "{ ranks = [1], body = [ { op = \"throw\", message = \"boom\" } ] } ]\n");
  ASSERT_TRUE(scenario.ok()) << scenario.error().text();
  const auto result = run_scenario(scenario.value(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(name_of(result.value().report.outcome), "error");
  EXPECT_EQ(result.value().report.error, "rank 1: boom");
}

}  // namespace
}  // namespace lockstep
