// Reads arbitrary bytes as comma-separated numbers: without a label, and with the first names of its
// header as label and target.
#include "lockstep/base/check.h"
#include "lockstep/data/csv.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

void read(std::string_view bytes, const data::CsvOptions& options) {
  const Result<data::Dataset> set = data::parse_csv(bytes, "table.csv", options);
  if (!set.ok()) return expect_a_sentence(set.error());
  for (std::int64_t i = 0; i < set.value().size(); ++i) {
    LOCKSTEP_CHECK(
        static_cast<std::int64_t>(set.value().features(i).size()) == set.value().feature_columns(),
        "every sample has all features");
  }
}

}  // namespace

void read_one(std::string_view bytes) {
  data::CsvOptions options;
  read(bytes, options);
  const std::string first(bytes.substr(0, bytes.find_first_of(",\n")));
  options.label_column = first;
  read(bytes, options);
  options.label_column.clear();
  options.target_columns = {first};
  options.header = data::CsvHeader::kPresent;
  read(bytes, options);
}

}  // namespace lockstep::fuzz
