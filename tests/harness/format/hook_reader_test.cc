// ddp.hook: a word or a table of PyTorch's options, and what laws learn about it.
#include <gmock/gmock.h>

#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HookReaderTest : public ScenarioFiles {
 protected:
  /// Line 9 is the wrapper's.
  static std::string hooked(const std::string& hook) {
    return small_job() + "ddp = { hook = " + hook + " }\n";
  }

  static HookSpec hook_of(const std::string& text) {
    const auto scenario = load(text);
    EXPECT_TRUE(scenario.ok()) << scenario.error().text();
    return scenario.ok() ? scenario.value().jobs[0]->ddp.hook : HookSpec();
  }
};

TEST_F(HookReaderTest, AWordIsAHookWithDefaults) {
  EXPECT_EQ(hook_of(small_job()).kind, HookKind::kNone);
  const HookSpec hook = hook_of(hooked("\"powersgd\""));
  EXPECT_EQ(hook.kind, HookKind::kPowerSgd);
  EXPECT_EQ(hook.power_sgd.rank, 1);
  EXPECT_EQ(hook.power_sgd.start_iter, 1000);
}

TEST_F(HookReaderTest, OptionsHaveTheirNamesInPyTorch) {
  const HookSpec power = hook_of(
      hooked("{ kind = \"powersgd\", matrix_approximation_rank = 2, start_powerSGD_iter = 0, "
             "min_compression_rate = 1.5, use_error_feedback = false, warm_start = false, "
             "orthogonalization_epsilon = 0.125, random_seed = 9, "
             "batch_tensors_with_same_shape = true }"));
  EXPECT_EQ(power.power_sgd.rank, 2);
  EXPECT_EQ(power.power_sgd.start_iter, 0);
  EXPECT_EQ(power.power_sgd.min_compression_rate, 1.5);
  EXPECT_FALSE(power.power_sgd.error_feedback);
  EXPECT_FALSE(power.power_sgd.warm_start);
  EXPECT_EQ(power.power_sgd.orthogonalization_epsilon, 0.125);
  EXPECT_EQ(power.power_sgd.seed, 9U);
  EXPECT_TRUE(power.power_sgd.batch_same_shapes);

  const HookSpec local =
      hook_of(hooked("{ kind = \"post-local-sgd\", start_localSGD_iter = 3, subgroup = 1, "
                     "post_local_gradient_allreduce = false, wrapper = \"fp16\" }"));
  EXPECT_EQ(local.local_sgd.start_iter, 3);
  EXPECT_EQ(local.local_sgd.subgroup, 1);
  EXPECT_FALSE(local.local_sgd.gradient_allreduce);
  EXPECT_EQ(local.wrapper, HookWrapper::kFp16);
}

TEST_F(HookReaderTest, SubgroupsAreNodesUnlessTheFileSaysOtherwise) {
  const std::string nodes =
      replaced(hooked("\"post-local-sgd\""), "ranks = 2", "nodes = 2, ranks_per_node = 1");
  EXPECT_EQ(hook_of(nodes).local_sgd.subgroup, 1);
  EXPECT_EQ(hook_of(hooked("\"post-local-sgd\"")).local_sgd.subgroup, 0);
  EXPECT_EQ(error_of(hooked("{ kind = \"post-local-sgd\", subgroup = 3 }")),
            "job.toml:9:16: subgroups of 3 ranks do not divide 2 ranks");
}

TEST_F(HookReaderTest, MistakesAreReportedAtTheirPlace) {
  EXPECT_EQ(error_of(hooked("\"powersdg\"")),
            "job.toml:9:16: 'ddp.hook' does not know 'powersdg'; did you mean 'powersgd'?");
  EXPECT_EQ(error_of(hooked("{ kind = \"powersgd\", start_powerSGD_itr = 2 }")),
            "job.toml:9:37: unknown key 'start_powerSGD_itr' in 'ddp.hook'; did you mean "
            "'start_powerSGD_iter'?");
  EXPECT_THAT(error_of(hooked("{ kind = \"fp16\", matrix_approximation_rank = 2 }")),
              HasSubstr("unknown key 'matrix_approximation_rank' in 'ddp.hook'"));
  EXPECT_THAT(error_of(hooked("{ kind = \"powersgd\", start_powerSGD_iter = 1 }")),
              HasSubstr("Expect `start_powerSGD_iter` > 1 if `use_error_feedback`"));
  EXPECT_THAT(error_of(hooked("\"batched-powersgd\"")),
              HasSubstr("fails in PyTorch at its first compressed iteration"));
  EXPECT_EQ(error_of(hooked("\"quantize-per-tensor\"")),
            "job.toml:9:16: the hook 'quantize-per-tensor' takes f32 gradients: set model.dtype = "
            "\"f32\"");
}

TEST_F(HookReaderTest, LawsAreNotAskedForWhatAJobGivesUpUnlessTheFileAsks) {
  const auto allowed = [](const std::string& text) {
    const auto scenario = load(text);
    EXPECT_TRUE(scenario.ok()) << scenario.error().text();
    return scenario.value().session.policy.allow;
  };

  EXPECT_THAT(allowed(hooked("\"allreduce\"")), IsEmpty());
  EXPECT_THAT(allowed(hooked("\"noop\"")), IsEmpty());
  EXPECT_THAT(allowed(hooked("\"fp16\"")), ElementsAre("gradient-mean", "single-process-equal"));
  EXPECT_THAT(allowed(hooked("{ kind = \"allreduce\", wrapper = \"bf16\" }")),
              ElementsAre("gradient-mean", "single-process-equal"));
  EXPECT_THAT(allowed(replaced(small_job(), "steps = 1", "epochs = 1, join = {}")),
              ElementsAre("optimizer-equal"));
  EXPECT_THAT(allowed(hooked("\"fp16\"") + "policy = { allow = [] }\n"), IsEmpty());
}

}  // namespace
}  // namespace lockstep
