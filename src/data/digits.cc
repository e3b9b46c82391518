#include "lockstep/data/digits.h"

#include <string>
#include <utility>

#include "lockstep/data/csv.h"

namespace lockstep::data {
namespace {

constexpr std::int64_t kPixels = 64;
constexpr double kBrightest = 16.0;

}  // namespace

Result<Dataset> load_digits(FileSystem& files, std::string_view path) {
  CsvOptions options;
  options.label_column = "-1";
  const Result<Dataset> loaded = load_csv(files, path, options);
  if (!loaded.ok()) return loaded.error();
  const Dataset& raw = loaded.value();
  const std::string where(path);
  if (raw.feature_columns() != kPixels || raw.classes() > 10) {
    return Error{.message = "digits have 64 pixels and labels 0 .. 9", .where = where};
  }
  DatasetParts parts;
  parts.name = "digits";
  parts.size = raw.size();
  parts.feature_columns = kPixels;
  for (std::int64_t i = 0; i < raw.size(); ++i) {
    for (const double pixel : raw.features(i)) {
      if (pixel < 0 || pixel > kBrightest) {
        return Error{.message = "a pixel of sample " + std::to_string(i) + " is outside 0 .. 16",
                     .where = where};
      }
      parts.features.push_back(pixel / kBrightest);
    }
    parts.labels.push_back(raw.label(i));
  }
  return Dataset::make(std::move(parts));
}

}  // namespace lockstep::data
