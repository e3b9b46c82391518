// Whatever bytes arrive, the loaders answer with a data set or an error.
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/data/csv.h"
#include "lockstep/data/npy.h"

#include "tests/data/fake_host.h"

namespace lockstep::data {
namespace {

// Bytes that look enough like a table to reach every branch.
std::string any_table() {
  return *rc::gen::container<std::string>(rc::gen::weightedElement<char>({{8, '1'},
                                                                          {4, ','},
                                                                          {3, '\n'},
                                                                          {2, '-'},
                                                                          {2, '.'},
                                                                          {1, 'e'},
                                                                          {1, 'n'},
                                                                          {1, ' '},
                                                                          {1, '\r'},
                                                                          {1, '"'},
                                                                          {1, '\0'}}));
}

RC_GTEST_PROP(CsvProperty, AnyTextGivesFiniteRowsOrAnError, ()) {
  const std::string text = any_table();
  CsvOptions options;
  if (*rc::gen::arbitrary<bool>()) options.label_column = "-1";
  const Result<Dataset> result = parse_csv(text, "t.csv", options);
  if (!result.ok()) {
    RC_ASSERT(result.error().where.starts_with("t.csv"));
    return;
  }
  RC_ASSERT(result.value().size() > 0);
  for (std::int64_t i = 0; i < result.value().size(); ++i) {
    for (const double value : result.value().features(i)) RC_ASSERT(std::isfinite(value));
  }
}

RC_GTEST_PROP(CsvProperty, WrittenIntegersReadBack, ()) {
  const auto columns = *rc::gen::inRange<std::size_t>(1, 6);
  const auto rows = *rc::gen::inRange<std::size_t>(1, 20);
  const auto values = *rc::gen::container<std::vector<std::int32_t>>(
      rows * columns, rc::gen::arbitrary<std::int32_t>());
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += std::to_string(values[i]) + ((i + 1) % columns == 0 ? "\n" : ",");
  }

  const Dataset data = parse_csv(text, "t.csv", {}).value();

  for (std::size_t i = 0; i < values.size(); ++i) {
    RC_ASSERT(data.features(static_cast<std::int64_t>(i / columns))[i % columns] == values[i]);
  }
}

RC_GTEST_PROP(NpyProperty, DamagedFilesNeverCrash, ()) {
  const char* const names[] = {"grid_f4", "grid_f8_v2", "vector_i8", "vector_u1", "empty_f8"};
  const std::string path = names[*rc::gen::inRange<std::size_t>(0, 5)];
  std::string bytes = SourceFiles().read("tests/golden/npy/" + path + ".npy").value();
  const auto hits = *rc::gen::inRange<int>(1, 6);
  for (int i = 0; i < hits; ++i) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  }
  bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 9));

  const Result<NpyArray> result = parse_npy(bytes, "a.npy");

  if (result.ok()) {
    const NpyArray& array = result.value();
    RC_ASSERT(static_cast<std::int64_t>(array.values.size()) == array.rows * array.columns);
  } else {
    RC_ASSERT(result.error().where.starts_with("a.npy"));
  }
}

}  // namespace
}  // namespace lockstep::data
