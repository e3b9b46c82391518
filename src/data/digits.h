// The handwritten digits that come with the project: a small real classification data set.
#pragma once

#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
class FileSystem;
}  // namespace lockstep

namespace lockstep::data {

/// Where the repository keeps the file; scenarios/data/README.md names its source and licence.
inline constexpr std::string_view kDigitsPath = "scenarios/data/digits.csv";

/// Loads the digits: 64 features a sample, the pixels divided by 16 (exact, so 0, 1/16, ... 1), and
/// labels 0 .. 9.
///
/// Errors: those of load_csv; a file that does not hold digits.
Result<Dataset> load_digits(FileSystem& files, std::string_view path = kDigitsPath);

}  // namespace lockstep::data
