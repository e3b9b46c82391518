// A data set in memory: one row per sample, read by sample id.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::data {

/// What a data set is made from. Matrices are row major, one row per sample.
struct DatasetParts {
  std::string name = {};                  ///< For reports: "digits", "train.csv".
  std::int64_t size = 0;                  ///< Samples.
  std::int64_t feature_columns = 0;       ///< Entries of a feature row.
  std::vector<double> features = {};      ///< (size, feature_columns).
  std::int64_t target_columns = 0;        ///< Entries of a real-valued target row; 0 = none.
  std::vector<double> targets = {};       ///< (size, target_columns).
  std::vector<std::int64_t> labels = {};  ///< (size,) class numbers from 0, or empty.
  std::vector<std::int64_t> tokens = {};  ///< (size,) weights of token-weighted losses; empty: 1.
};

/// A table of samples: features, and a class label or a row of real targets, or neither.
///
/// Values are kept as doubles, which hold every float exactly; a batch is rounded to the job's type
/// when it is gathered. Immutable, so the ranks of a world share one.
class Dataset {
 public:
  /// Errors: a part whose length does not fit `size`; labels and real targets at once; a negative
  ///     label or token count.
  static Result<Dataset> make(DatasetParts parts);

  const std::string& name() const { return parts_.name; }

  std::int64_t size() const { return parts_.size; }

  std::int64_t feature_columns() const { return parts_.feature_columns; }

  std::int64_t target_columns() const { return parts_.target_columns; }

  bool has_labels() const { return !parts_.labels.empty(); }

  std::int64_t classes() const { return classes_; }  ///< Largest label + 1; 0 without labels.

  /// Requires (all four): 0 <= sample < size().
  std::span<const double> features(std::int64_t sample) const;
  std::span<const double> targets(std::int64_t sample) const;  ///< Empty without real targets.
  std::int64_t label(std::int64_t sample) const;               ///< Requires: has_labels().
  std::int64_t tokens(std::int64_t sample) const;              ///< 1 unless it was given.

  /// Writes the rows of a batch one after another, in the order of `samples`.
  ///
  /// Shapes: samples (B,); out (B, feature_columns), (B, target_columns) or (B,).
  /// Requires: ids below size(); out of exactly that shape.
  void gather_features(std::span<const std::int64_t> samples, std::span<float> out) const;
  /// The same in f64, as the rows are kept.
  void gather_features(std::span<const std::int64_t> samples, std::span<double> out) const;
  /// Real targets; without some, rows of no columns.
  void gather_targets(std::span<const std::int64_t> samples, std::span<float> out) const;
  /// The same in f64.
  void gather_targets(std::span<const std::int64_t> samples, std::span<double> out) const;
  /// Class numbers. Requires: has_labels().
  void gather_labels(std::span<const std::int64_t> samples, std::span<std::int64_t> out) const;
  /// How many tokens each sample has.
  void gather_tokens(std::span<const std::int64_t> samples, std::span<std::int64_t> out) const;

 private:
  explicit Dataset(DatasetParts parts);

  DatasetParts parts_;
  std::int64_t classes_ = 0;
};

}  // namespace lockstep::data
