#include "lockstep/data/csv.h"

#include <vector>

#include <gtest/gtest.h>

#include "lockstep/data/digits.h"

#include "tests/data/fake_host.h"

namespace lockstep::data {
namespace {

std::vector<double> row(std::span<const double> values) { return {values.begin(), values.end()}; }

std::string csv_error(std::string_view text, const CsvOptions& options = {}) {
  const Result<Dataset> result = parse_csv(text, "t.csv", options);
  return result.ok() ? "" : result.error().text();
}

CsvOptions with_label(const std::string& column) {
  CsvOptions options;
  options.label_column = column;
  return options;
}

TEST(CsvTest, ReadsFeaturesAndLabels) {
  const Dataset data = parse_csv("1,2.5,0\n-3,4e2,1\n", "t.csv", with_label("-1")).value();
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(row(data.features(0)), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(row(data.features(1)), (std::vector<double>{-3, 400}));
  EXPECT_EQ(data.label(1), 1);
  EXPECT_EQ(data.classes(), 2);
  EXPECT_EQ(data.target_columns(), 0);
}

TEST(CsvTest, FindsColumnsByHeaderAndKeepsTheOrderOfTargets) {
  CsvOptions options;
  options.target_columns = {"y2", "y1"};
  options.token_column = "n";
  const Dataset data = parse_csv("y1, a ,n,y2\n1,2,3,4\n", "t.csv", options).value();
  EXPECT_EQ(row(data.features(0)), (std::vector<double>{2}));
  EXPECT_EQ(row(data.targets(0)), (std::vector<double>{4, 1}));
  EXPECT_EQ(data.tokens(0), 3);
}

TEST(CsvTest, AcceptsBlankLinesBlanksPlusSignsCarriageReturnsAndAByteOrderMark) {
  const Dataset data = parse_csv("\xEF\xBB\xBF\r\n 1 ,+2\r\n\r\n3,4", "t.csv", {}).value();
  EXPECT_EQ(data.size(), 2);
  EXPECT_EQ(row(data.features(0)), (std::vector<double>{1, 2}));
}

TEST(CsvTest, ASeparatorMayBeChosen) {
  CsvOptions options;
  options.separator = ';';
  EXPECT_EQ(parse_csv("1;2\n", "t.csv", options).value().feature_columns(), 2);
}

TEST(CsvTest, ErrorsNameLineAndColumn) {
  EXPECT_EQ(csv_error("1,2\n3,x4\n"), "t.csv:2:3: 'x4' is not a number");
  EXPECT_EQ(csv_error("1,2\n\n3, nan\n"), "t.csv:3:4: 'nan' is not finite");
  EXPECT_EQ(csv_error("inf,2\n"), "t.csv:1:1: 'inf' is not finite");
  EXPECT_EQ(csv_error("1,1e999\n"), "t.csv:1:3: '1e999' is not a number");
  EXPECT_EQ(csv_error("1,2\n3,4,5\n"), "t.csv:2:5: 3 columns instead of 2");
  EXPECT_EQ(csv_error("1,2\n3\n"), "t.csv:2:2: 1 columns instead of 2");
  EXPECT_EQ(csv_error("1,,3\n"), "t.csv:1:3: a number is missing");
  EXPECT_EQ(csv_error("1,2\n3, \n"), "t.csv:2:3: a number is missing");
  EXPECT_EQ(csv_error("1,\"2\"\n"), "t.csv:1:3: '\"2\"' is not a number");
}

TEST(CsvTest, LabelsAreWholeNumbersFromZero) {
  EXPECT_EQ(csv_error("1,0.5\n", with_label("1")), "t.csv:1:3: '0.5' is not a whole number from 0");
  EXPECT_EQ(csv_error("1,-1\n", with_label("1")), "t.csv:1:3: '-1' is not a whole number from 0");
  EXPECT_EQ(csv_error("1,1e30\n", with_label("1")),
            "t.csv:1:3: '1e30' is not a whole number from 0");
  EXPECT_EQ(csv_error("1,3.0\n", with_label("1")), "");
}

TEST(CsvTest, UnknownAndTwiceUsedColumnsAreRefused) {
  EXPECT_EQ(csv_error("pixel,label\n1,2\n", with_label("lable")),
            "t.csv: no column 'lable' among 2; did you mean 'label'?");
  EXPECT_EQ(csv_error("1,2\n", with_label("2")), "t.csv: no column '2' among 2");
  EXPECT_EQ(csv_error("1,2\n", with_label("-3")), "t.csv: no column '-3' among 2");
  CsvOptions twice = with_label("1");
  twice.token_column = "-1";
  EXPECT_EQ(csv_error("1,2\n", twice), "t.csv: column '-1' is used twice");
}

TEST(CsvTest, AFileWithoutRowsIsRefused) {
  EXPECT_EQ(csv_error(""), "t.csv: no rows of numbers");
  EXPECT_EQ(csv_error("\n \n"), "t.csv: no rows of numbers");
  EXPECT_EQ(csv_error("a,b\n"), "t.csv: no rows of numbers");
}

TEST(CsvTest, AMistakeInTheFirstRowIsNotAHeader) {
  EXPECT_EQ(csv_error("1,x\n3,4\n"), "t.csv:1:3: 'x' is not a number");
}

TEST(CsvTest, AHeaderMayBeForcedOrForbidden) {
  CsvOptions options;
  options.header = CsvHeader::kPresent;
  EXPECT_EQ(parse_csv("0,1\n2,3\n", "t.csv", options).value().size(), 1);
  options.header = CsvHeader::kAbsent;
  EXPECT_EQ(csv_error("a,b\n1,2\n", options), "t.csv:1:1: 'a' is not a number");
}

TEST(CsvTest, MissingFilesKeepTheFileSystemsError) {
  MemoryFiles files;
  EXPECT_EQ(load_csv(files, "gone.csv", {}).error().text(), "gone.csv: no such file");
}

// First image and class counts as UCI and scikit-learn document them.
TEST(DigitsTest, LoadsAllImages) {
  SourceFiles files;
  const Result<Dataset> loaded = load_digits(files);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const Dataset& digits = loaded.value();

  EXPECT_EQ(digits.size(), 1797);
  EXPECT_EQ(digits.feature_columns(), 64);
  EXPECT_EQ(digits.classes(), 10);
  std::vector<int> counts(10, 0);
  double total = 0.0;
  for (std::int64_t i = 0; i < digits.size(); ++i) {
    ++counts[static_cast<std::size_t>(digits.label(i))];
    for (const double pixel : digits.features(i)) total += pixel;
  }
  EXPECT_EQ(counts, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
  EXPECT_EQ(total * 16, 561718.0);
  EXPECT_EQ(row(digits.features(0).first(8)),
            (std::vector<double>{0, 0, 5.0 / 16, 13.0 / 16, 9.0 / 16, 1.0 / 16, 0, 0}));
}

TEST(DigitsTest, OtherTablesAreRefused) {
  MemoryFiles files;
  ASSERT_TRUE(files.publish("few.csv", "1,2,3\n").ok());
  EXPECT_EQ(load_digits(files, "few.csv").error().text(),
            "few.csv: digits have 64 pixels and labels 0 .. 9");
}

}  // namespace
}  // namespace lockstep::data
