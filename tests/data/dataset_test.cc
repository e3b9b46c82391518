#include "lockstep/data/dataset.h"

#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/check.h"

namespace lockstep::data {
namespace {

DatasetParts three_rows() {
  return {.name = "t",
          .size = 3,
          .feature_columns = 2,
          .features = {1, 2, 3, 4, 5, 0.1},
          .target_columns = 1,
          .targets = {10, 20, 30},
          .labels = {},
          .tokens = {1, 3, 2}};
}

std::string parts_error(DatasetParts parts) {
  const Result<Dataset> result = Dataset::make(std::move(parts));
  return result.ok() ? "" : result.error().text();
}

TEST(DatasetTest, GathersRowsInTheOrderAskedFor) {
  const Dataset data = Dataset::make(three_rows()).value();
  const std::vector<std::int64_t> ids = {2, 0, 2};

  std::vector<double> features(6);
  data.gather_features(ids, std::span(features));
  EXPECT_EQ(features, (std::vector<double>{5, 0.1, 1, 2, 5, 0.1}));
  std::vector<float> rounded(6);
  data.gather_features(ids, std::span(rounded));
  EXPECT_EQ(rounded, (std::vector<float>{5, 0.1F, 1, 2, 5, 0.1F}));
  std::vector<float> targets(3);
  data.gather_targets(ids, std::span(targets));
  EXPECT_EQ(targets, (std::vector<float>{30, 10, 30}));
  std::vector<std::int64_t> tokens(3);
  data.gather_tokens(ids, tokens);
  EXPECT_EQ(tokens, (std::vector<std::int64_t>{2, 1, 2}));
}

TEST(DatasetTest, LabelsCountTheClasses) {
  DatasetParts parts = three_rows();
  parts.targets.clear();
  parts.target_columns = 0;
  parts.labels = {0, 4, 1};
  parts.tokens.clear();
  const Dataset data = Dataset::make(std::move(parts)).value();
  EXPECT_EQ(data.classes(), 5);
  EXPECT_EQ(data.label(1), 4);
  EXPECT_EQ(data.tokens(1), 1);
  std::vector<std::int64_t> labels(2);
  data.gather_labels(std::vector<std::int64_t>{1, 0}, labels);
  EXPECT_EQ(labels, (std::vector<std::int64_t>{4, 0}));
}

TEST(DatasetTest, PartsThatDoNotFitAreRefused) {
  DatasetParts features = three_rows();
  features.features.pop_back();
  EXPECT_EQ(parts_error(features), "t: features has 5 entries, which do not fit 3 samples");
  DatasetParts labels = three_rows();
  labels.labels = {1, 2, 3};
  EXPECT_EQ(parts_error(labels), "t: a data set has class labels or real targets, not both");
  DatasetParts tokens = three_rows();
  tokens.tokens = {1, -1, 2};
  EXPECT_EQ(parts_error(tokens), "t: a sample cannot have -1 tokens");
  DatasetParts huge = three_rows();
  huge.size = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(parts_error(huge), "");
  DatasetParts negative = three_rows();
  negative.size = -1;
  EXPECT_NE(parts_error(negative), "");
}

TEST(DatasetTest, NegativeLabelsAreRefused) {
  EXPECT_EQ(parts_error({.name = "t",
                         .size = 1,
                         .feature_columns = 0,
                         .features = {},
                         .target_columns = 0,
                         .targets = {},
                         .labels = {-100},
                         .tokens = {}}),
            "t: class label -100 is not a class number");
}

TEST(DatasetTest, WrongIdsAndBuffersAreContractViolations) {
  const Dataset data = Dataset::make(three_rows()).value();
  std::vector<float> out(2);
  const std::vector<std::int64_t> beyond = {3};
  const std::vector<std::int64_t> two = {0, 1};
  EXPECT_THROW(data.gather_features(beyond, std::span(out)), ContractViolation);
  EXPECT_THROW(data.gather_features(two, std::span(out)), ContractViolation);
  EXPECT_THROW(static_cast<void>(data.features(-1)), ContractViolation);
  EXPECT_THROW(static_cast<void>(data.label(0)), ContractViolation);
}

}  // namespace
}  // namespace lockstep::data
