#include "lockstep/data/dataset.h"

#include <algorithm>
#include <cstddef>
#include <fmt/core.h>
#include <limits>
#include <utility>

#include "lockstep/base/check.h"

namespace lockstep::data {
namespace {

// Whether a matrix has rows * columns entries, without overflowing on the way.
bool fits(std::size_t entries, std::int64_t rows, std::int64_t columns) {
  if (rows == 0 || columns == 0) return entries == 0;
  const auto n = static_cast<std::uint64_t>(entries);
  const auto width = static_cast<std::uint64_t>(columns);
  return n % width == 0 && n / width == static_cast<std::uint64_t>(rows);
}

Error misfit(const std::string& part, std::size_t entries, const DatasetParts& parts) {
  return Error{.message = part + " has " + std::to_string(entries) + " entries, which do not fit " +
                          std::to_string(parts.size) + " samples",
               .where = parts.name};
}

Outcome check_shapes(const DatasetParts& parts) {
  if (parts.size < 0 || parts.feature_columns < 0 || parts.target_columns < 0) {
    return Error{.message = "sizes of a data set cannot be negative", .where = parts.name};
  }
  if (!fits(parts.features.size(), parts.size, parts.feature_columns)) {
    return misfit("features", parts.features.size(), parts);
  }
  if (!fits(parts.targets.size(), parts.size, parts.target_columns)) {
    return misfit("targets", parts.targets.size(), parts);
  }
  if (!parts.labels.empty() && !fits(parts.labels.size(), parts.size, 1)) {
    return misfit("labels", parts.labels.size(), parts);
  }
  if (!parts.tokens.empty() && !fits(parts.tokens.size(), parts.size, 1)) {
    return misfit("tokens", parts.tokens.size(), parts);
  }
  return success();
}

Outcome check_counts(const DatasetParts& parts) {
  if (!parts.labels.empty() && parts.target_columns > 0) {
    return Error{.message = "a data set has class labels or real targets, not both",
                 .where = parts.name};
  }
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t label : parts.labels) {
    if (label >= 0 && label < kLast) continue;
    return Error{.message = "class label " + std::to_string(label) + " is not a class number",
                 .where = parts.name};
  }
  for (const std::int64_t tokens : parts.tokens) {
    if (tokens >= 0) continue;
    return Error{.message = "a sample cannot have " + std::to_string(tokens) + " tokens",
                 .where = parts.name};
  }
  return success();
}

std::span<const double> row(const std::vector<double>& matrix,
                            std::int64_t columns,
                            std::int64_t i) {
  const auto width = static_cast<std::size_t>(columns);
  return std::span(matrix).subspan(static_cast<std::size_t>(i) * width, width);
}

struct Table {
  const std::vector<double>& values;
  std::int64_t rows;
  std::int64_t columns;
};

std::string no_sample(std::int64_t sample, std::int64_t size) {
  return fmt::format("no sample {}: the data set has {}", sample, size);
}

std::string wrong_buffer(std::size_t n_samples, std::size_t width, std::size_t n) {
  return fmt::format("a buffer of {} values for {} samples of {}: it needs {}",
                     n,
                     n_samples,
                     width,
                     n_samples * width);
}

template <typename T>
void gather(const Table& table, std::span<const std::int64_t> samples, std::span<T> out) {
  const auto width = static_cast<std::size_t>(table.columns);
  LOCKSTEP_CHECK(out.size() == samples.size() * width,
                 wrong_buffer(samples.size(), width, out.size()));
  T* to = out.data();
  for (const std::int64_t sample : samples) {
    LOCKSTEP_CHECK(sample >= 0 && sample < table.rows, no_sample(sample, table.rows));
    const double* const from = table.values.data() + static_cast<std::size_t>(sample) * width;
    for (std::size_t j = 0; j < width; ++j) to[j] = static_cast<T>(from[j]);
    to += width;
  }
}

}  // namespace

Dataset::Dataset(DatasetParts parts) : parts_(std::move(parts)) {
  for (const std::int64_t label : parts_.labels) classes_ = std::max(classes_, label + 1);
}

Result<Dataset> Dataset::make(DatasetParts parts) {
  if (Outcome shapes = check_shapes(parts); !shapes.ok()) return shapes.error();
  if (Outcome counts = check_counts(parts); !counts.ok()) return counts.error();
  return Dataset(std::move(parts));
}

std::span<const double> Dataset::features(std::int64_t sample) const {
  LOCKSTEP_CHECK(sample >= 0 && sample < size(), no_sample(sample, size()));
  return row(parts_.features, parts_.feature_columns, sample);
}

std::span<const double> Dataset::targets(std::int64_t sample) const {
  LOCKSTEP_CHECK(sample >= 0 && sample < size(), no_sample(sample, size()));
  return row(parts_.targets, parts_.target_columns, sample);
}

std::int64_t Dataset::label(std::int64_t sample) const {
  LOCKSTEP_CHECK(has_labels(), "this data set has no class labels");
  LOCKSTEP_CHECK(sample >= 0 && sample < size(), no_sample(sample, size()));
  return parts_.labels[static_cast<std::size_t>(sample)];
}

std::int64_t Dataset::tokens(std::int64_t sample) const {
  LOCKSTEP_CHECK(sample >= 0 && sample < size(), no_sample(sample, size()));
  return parts_.tokens.empty() ? 1 : parts_.tokens[static_cast<std::size_t>(sample)];
}

void Dataset::gather_features(std::span<const std::int64_t> samples, std::span<float> out) const {
  gather(Table{parts_.features, size(), feature_columns()}, samples, out);
}

void Dataset::gather_features(std::span<const std::int64_t> samples, std::span<double> out) const {
  gather(Table{parts_.features, size(), feature_columns()}, samples, out);
}

void Dataset::gather_targets(std::span<const std::int64_t> samples, std::span<float> out) const {
  gather(Table{parts_.targets, size(), target_columns()}, samples, out);
}

void Dataset::gather_targets(std::span<const std::int64_t> samples, std::span<double> out) const {
  gather(Table{parts_.targets, size(), target_columns()}, samples, out);
}

void Dataset::gather_labels(std::span<const std::int64_t> samples,
                            std::span<std::int64_t> out) const {
  LOCKSTEP_CHECK(out.size() == samples.size(), wrong_buffer(samples.size(), 1, out.size()));
  for (std::size_t i = 0; i < samples.size(); ++i) out[i] = label(samples[i]);
}

void Dataset::gather_tokens(std::span<const std::int64_t> samples,
                            std::span<std::int64_t> out) const {
  LOCKSTEP_CHECK(out.size() == samples.size(), wrong_buffer(samples.size(), 1, out.size()));
  for (std::size_t i = 0; i < samples.size(); ++i) out[i] = tokens(samples[i]);
}

}  // namespace lockstep::data
