#include "lockstep/nn/losses.h"

#include <algorithm>
#include <vector>

#include "lockstep/functional/layer_functions.h"

namespace lockstep::nn {

// Rows that count are gathered first: the sum then runs over them in order, and the gradient of a
// row that was left out is the zero that the adjoint of the gathering starts from.
Variable CrossEntropyLoss::operator()(const Variable& x, const Tensor& labels) const {
  const auto given = labels.read_span<std::int64_t>();
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == ignore_index_) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    kept.push_back(given[i]);
  }
  const auto n = static_cast<std::int64_t>(rows.size());
  if (rows.size() == given.size()) return of_counting(x, labels);

  const Tensor places = Tensor::empty(x.runtime(), {n}, DType::kI64);
  const Tensor truths = Tensor::empty(x.runtime(), {n}, DType::kI64);
  std::copy(rows.begin(), rows.end(), places.write<std::int64_t>());
  std::copy(kept.begin(), kept.end(), truths.write<std::int64_t>());
  return of_counting(embedding(x, places), truths);
}

Variable CrossEntropyLoss::of_counting(const Variable& x, const Tensor& labels) const {
  if (class_weights_.defined()) return cross_entropy(x, labels, class_weights_, reduction_);
  const bool is_mean = reduction_ == Reduction::kMean;
  return cross_entropy(x, labels, is_mean ? static_cast<double>(labels.n_elems()) : 1.0);
}

}  // namespace lockstep::nn
