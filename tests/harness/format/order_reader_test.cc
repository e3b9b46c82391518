// Orders of reduction in a scenario.
#include "tests/support/scenario_files.h"

namespace lockstep {
namespace {

class OrderReaderTest : public ScenarioFiles {};

std::string with_order(const std::string& order) {
  return small_job() + "sim = { order = \"" + order + "\" }\n";
}

TEST_F(OrderReaderTest, NcclsOrdersAreRead) {
  for (const std::string name : {"rank", "nccl-ring", "nccl-tree@2", "nccl-ring:0,1;0,1"}) {
    const auto scenario = load(with_order(name));
    ASSERT_TRUE(scenario.ok()) << scenario.error().text();
    EXPECT_EQ(scenario.value().session.group.order.name(), name);
  }
}

TEST_F(OrderReaderTest, OthersAreRefused) {
  EXPECT_EQ(error_of(with_order("nccl-rnig")),
            "job.toml:9:17: 'sim.order' does not know 'nccl-rnig'; did you mean 'nccl-ring'?");
  EXPECT_EQ(error_of(with_order("nccl-ring:0,2,1")),
            "job.toml:9:17: the rings of 'nccl-ring:0,2,1' do not name the 2 ranks of this world");
}

}  // namespace
}  // namespace lockstep
