// Reads arrays that NumPy saved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
class FileSystem;
}  // namespace lockstep

namespace lockstep::data {

/// A one- or two-dimensional array of numbers, row major.
struct NpyArray {
  std::string type;  ///< NumPy's name: "<f4", "<f8", "<i4", "<i8", "|u1".
  std::int64_t rows = 0;
  std::int64_t columns = 1;  ///< 1 for one-dimensional arrays.
  std::vector<double> values;
};

/// Reads the bytes of a .npy file: format 1.0 or 2.0, little-endian f4, f8, i4, i8 or u1, C order.
///
/// Errors: where = "<file>:byte <n>" when the bytes at n are not what the format asks for, or a
///     value is not finite, or an integer is beyond 2^53 and would not survive as a double; where =
///     file for what is valid but not read (other types, Fortran order, more dimensions).
/// Source: NumPy Enhancement Proposal 1, "A Simple File Format for NumPy Arrays".
Result<NpyArray> parse_npy(std::string_view bytes, std::string_view file);

/// Files of a data set; an empty path means there is no such part.
struct NpyPaths {
  std::string features = {};
  std::string targets = {};  ///< Real targets, one row per sample.
  std::string labels = {};   ///< Class numbers, one-dimensional.
  std::string tokens = {};   ///< One-dimensional.
};

/// Makes a data set of .npy files with one row per sample.
///
/// Errors: those of parse_npy and Dataset::make; a label or token count that is not a whole number
///     from 0.
Result<Dataset> load_npy(FileSystem& files, const NpyPaths& paths);

}  // namespace lockstep::data
