#include "lockstep/data/synthetic.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "lockstep/random/uniform.h"

namespace lockstep::data {
namespace {

constexpr UniformRange kUnit{.from = -1.0, .to = 1.0};

// Streams of one seed, kept apart so that the model does not move when rows are added.
constexpr std::uint64_t kRowStream = 0x9e3779b9;

/// Floats, so that float and double jobs train on the same features.
std::vector<double> draw_reals(Generator& generator, std::size_t n, UniformRange range) {
  std::vector<float> floats(n);
  uniform(generator, floats, range);
  return {floats.begin(), floats.end()};
}

std::vector<double> draw_whole(Generator& generator, std::size_t n, std::int64_t bound) {
  std::vector<double> values(n);
  const auto range = static_cast<std::uint64_t>(2 * bound + 1);
  for (double& value : values) {
    const auto draw = static_cast<std::int64_t>(generator.random() % range);
    value = static_cast<double>(draw - bound);
  }
  return values;
}

/// out[j] = b[j] + x[0] w[0, j] + x[1] w[1, j] + ..., left to right.
void affine(std::span<const double> x, const std::vector<double>& w, std::vector<double>& out) {
  const std::size_t outputs = out.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < outputs; ++j) out[j] += x[i] * w[i * outputs + j];
  }
}

class Maker {
 public:
  explicit Maker(const SyntheticOptions& options)
      : options_(options),
        features_(static_cast<std::size_t>(options.features)),
        outputs_(static_cast<std::size_t>(options.outputs)),
        model_(options.seed),
        rows_(options.seed ^ kRowStream) {
    parts_.size = options.size;
    parts_.feature_columns = options.features;
  }

  DatasetParts regression() {
    parts_.name = "synthetic regression";
    parts_.target_columns = options_.outputs;
    const bool given = !options_.weights.empty();
    const std::vector<double> weights =
        given ? options_.weights : draw_reals(model_, features_ * outputs_, kUnit);
    const std::vector<double> biases =
        given ? std::vector<double>(outputs_, 0.0) : draw_reals(model_, outputs_, kUnit);
    const UniformRange noise{.from = -options_.noise, .to = options_.noise};
    for (std::int64_t i = 0; i < options_.size; ++i) {
      const std::vector<double> x = draw_reals(rows_, features_, kUnit);
      std::vector<double> y = draw_reals(rows_, outputs_, noise);
      for (std::size_t j = 0; j < outputs_; ++j) y[j] += biases[j];
      affine(x, weights, y);
      append(x, y);
    }
    return std::move(parts_);
  }

  DatasetParts classification() {
    parts_.name = "synthetic classification";
    const std::vector<double> centres = draw_reals(model_, features_ * outputs_, kUnit);
    const UniformRange spread{.from = -options_.noise, .to = options_.noise};
    for (std::int64_t i = 0; i < options_.size; ++i) {
      const std::int64_t label = i % options_.outputs;
      std::vector<double> x = draw_reals(rows_, features_, spread);
      for (std::size_t j = 0; j < features_; ++j) {
        const double centre = centres[static_cast<std::size_t>(label) * features_ + j];
        x[j] = static_cast<double>(static_cast<float>(x[j] + centre));
      }
      append(x, {});
      parts_.labels.push_back(label);
    }
    return std::move(parts_);
  }

  DatasetParts dyadic() {
    parts_.name = "synthetic dyadic";
    parts_.target_columns = options_.outputs;
    const std::vector<double> weights = draw_whole(model_, features_ * outputs_, 2);
    for (std::int64_t i = 0; i < options_.size; ++i) {
      const std::vector<double> x = draw_whole(rows_, features_, 2);
      std::vector<double> y = draw_whole(rows_, outputs_, 1);
      affine(x, weights, y);
      append(x, y);
    }
    return std::move(parts_);
  }

  DatasetParts ramp() {
    parts_.name = "synthetic ramp";
    parts_.feature_columns = 1;
    for (std::int64_t i = 0; i < options_.size; ++i) {
      parts_.features.push_back(static_cast<double>(10 * i));
    }
    return std::move(parts_);
  }

 private:
  void append(const std::vector<double>& x, const std::vector<double>& y) {
    parts_.features.insert(parts_.features.end(), x.begin(), x.end());
    parts_.targets.insert(parts_.targets.end(), y.begin(), y.end());
  }

  SyntheticOptions options_;
  std::size_t features_;
  std::size_t outputs_;
  Generator model_;
  Generator rows_;
  DatasetParts parts_;
};

Error refuse(const std::string& what) { return {.message = what, .where = "synthetic data"}; }

}  // namespace

Result<Dataset> make_synthetic(const SyntheticOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20U;
  constexpr std::int64_t kMostRows = std::int64_t{1} << 40U;
  if (options.size < 1 || options.features < 1 || options.outputs < 1) {
    return refuse("size, features and outputs must be at least 1");
  }
  if (options.features > kMost || options.outputs > kMost ||
      options.size > kMostRows / (options.features + options.outputs)) {
    return refuse("more than 2^40 values");
  }
  if (!std::isfinite(options.noise) || options.noise < 0 || options.noise > 1e30) {
    return refuse("noise must be a number from 0");
  }
  const auto n_weights = static_cast<std::int64_t>(options.weights.size());
  const bool regression = options.kind == SyntheticKind::kRegression;
  if (n_weights != 0 && (!regression || n_weights != options.features * options.outputs)) {
    return refuse("weights belong to regression, one for each feature and output");
  }
  Maker maker(options);
  switch (options.kind) {
    case SyntheticKind::kRegression:
      return Dataset::make(maker.regression());
    case SyntheticKind::kClassification:
      return Dataset::make(maker.classification());
    case SyntheticKind::kDyadic:
      return Dataset::make(maker.dyadic());
    case SyntheticKind::kRamp:
      return Dataset::make(maker.ramp());
  }
  return refuse("unknown kind");
}

}  // namespace lockstep::data
