#include "lockstep/random/multinomial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <fmt/core.h>
#include <numeric>
#include <string>

#include "lockstep/base/check.h"
#include "lockstep/random/uniform.h"

namespace lockstep {
namespace {

template <typename T>
void fill_waits(Generator& generator, std::span<T> out, double rate) {
  LOCKSTEP_CHECK(rate > 0.0, fmt::format("an exponential rate is positive, not {}", rate));
  const double scale = -1.0 / rate;
  for (T& value : out) {
    std::array<double, 1> unit{};
    uniform(generator, unit);
    value = static_cast<T>(scale * std::log(1.0 - unit[0]));
  }
}

Error refused(std::string message) { return {.message = std::move(message), .where = ""}; }

Outcome check(std::span<const double> weights, const MultinomialOptions& options) {
  const auto n = static_cast<std::int64_t>(weights.size());
  if (options.count <= 0) return refused("cannot sample n_sample <= 0 samples");
  if (!options.replacement && options.count > n) {
    return refused("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  }
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0.0) {
      return refused("probability tensor contains either `inf`, `nan` or element < 0");
    }
  }
  const auto n_zero = std::count(weights.begin(), weights.end(), 0.0);
  if (n_zero == n) {
    return refused("invalid multinomial distribution (sum of probabilities <= 0)");
  }
  if (!options.replacement && options.count > n - n_zero) {
    return refused("cannot draw " + std::to_string(options.count) + " different samples from " +
                   std::to_string(n - n_zero) + " positive weights");
  }
  return success();
}

std::vector<std::int64_t> by_running_sum(Generator& generator,
                                         std::span<const double> weights,
                                         std::int64_t count) {
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  const double total = sums.back();
  for (double& sum : sums) sum /= total;
  sums.back() = 1.0;
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  for (std::int64_t& place : places) {
    std::array<double, 1> unit{};
    uniform(generator, unit);
    place = std::lower_bound(sums.begin(), sums.end(), unit[0]) - sums.begin();
  }
  return places;
}

std::vector<std::int64_t> by_quotient(Generator& generator,
                                      std::span<const double> weights,
                                      std::int64_t count) {
  std::vector<double> quotients(weights.size());
  exponential(generator, quotients);
  for (std::size_t i = 0; i < weights.size(); ++i) quotients[i] = weights[i] / quotients[i];
  std::vector<std::int64_t> places(weights.size());
  std::iota(places.begin(), places.end(), 0);
  std::partial_sort(places.begin(),
                    places.begin() + static_cast<std::ptrdiff_t>(count),
                    places.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      const double left = quotients[static_cast<std::size_t>(a)];
                      const double right = quotients[static_cast<std::size_t>(b)];
                      return left > right || (left == right && a < b);
                    });
  places.resize(static_cast<std::size_t>(count));
  return places;
}

}  // namespace

void exponential(Generator& generator, std::span<float> out, double rate) {
  fill_waits(generator, out, rate);
}

void exponential(Generator& generator, std::span<double> out, double rate) {
  fill_waits(generator, out, rate);
}

Result<std::vector<std::int64_t>> multinomial(Generator& generator,
                                              std::span<const double> weights,
                                              const MultinomialOptions& options) {
  const Outcome fine = check(weights, options);
  if (!fine.ok()) return fine.error();
  if (options.replacement) return by_running_sum(generator, weights, options.count);
  return by_quotient(generator, weights, options.count);
}

}  // namespace lockstep
