// Reads a data set from comma-separated numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
class FileSystem;
}  // namespace lockstep

namespace lockstep::data {

enum class CsvHeader : std::uint8_t {
  kDetect,  ///< The first line is a header when none of its fields is a number or empty.
  kPresent,
  kAbsent,
};

/// How the columns of a file are read. A column is named by its header ("label") or by its number
/// from 0, negative from the end ("-1").
struct CsvOptions {
  char separator = ',';
  CsvHeader header = CsvHeader::kDetect;
  std::string label_column;                 ///< Class numbers, or empty: none.
  std::vector<std::string> target_columns;  ///< Real targets, in this order; not with a label.
  std::string token_column;                 ///< Tokens of a sample, or empty: 1 each.
};

/// Reads `text`; columns not named in the options are features, in the file's order.
///
/// Blank lines, blanks around fields, CRLF and a byte order mark are accepted; quotes are not.
///
/// Errors: "<file>:<line>:<column>" of the first field that is missing, superfluous, not a number,
///     not finite, or (label, tokens) not a whole number from 0; an unknown or twice used column; a
///     file without rows.
Result<Dataset> parse_csv(std::string_view text, std::string_view file, const CsvOptions& options);

/// The same from a file.
Result<Dataset> load_csv(FileSystem& files, std::string_view path, const CsvOptions& options);

}  // namespace lockstep::data

namespace lockstep {

template <>
inline constexpr EnumNames<3> kEnumNames<data::CsvHeader> = {"detect", "present", "absent"};

}  // namespace lockstep
