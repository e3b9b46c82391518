// Smaller data and models: what follows from what.
#include "lockstep/harness/explore/search/model_edits.h"

#include <gtest/gtest.h>

#include "lockstep/harness/format/document.h"

#include "tests/support/scenarios.h"

namespace lockstep::explore {
namespace {

using testing::document_of;

TEST(ModelEditsTest, DataThatAreMadeUpGetAsManyFeaturesAsTheModelTakes) {
  const TomlNode document = document_of(
      "data = { kind = \"regression\", size = 8, features = 3 }\n"
      "model = { kind = \"mlp\", widths = [3, 4, 1] }\n");
  const TomlNode expected = document_of(
      "data = { kind = \"regression\", size = 8, features = 2 }\n"
      "model = { kind = \"mlp\", widths = [2, 4, 1] }\n");

  EXPECT_EQ(render_toml(with_features(document, 2)), render_toml(expected));
}

TEST(ModelEditsTest, RowsThatAreWrittenOutAreCutAndHaveNoNumberOfFeatures) {
  const TomlNode document = document_of(
      "data = { rows = [ { x = [1, 2, 3], y = [4] } ] }\n"
      "model = { in = 3 }\n");
  const TomlNode expected = document_of(
      "data = { rows = [ { x = [1, 2], y = [4] } ] }\n"
      "model = { in = 2 }\n");

  EXPECT_EQ(render_toml(with_features(document, 2)), render_toml(expected));
}

}  // namespace
}  // namespace lockstep::explore
