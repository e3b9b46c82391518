// A model whose gradients a test can write down: each parameter is multiplied by given numbers, and
// those numbers are its gradient.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/ddp/ddp.h"
#include "lockstep/functional/functions.h"

namespace lockstep::testing {

struct TinyModel {
  explicit TinyModel(Runtime& rt) : runtime(&rt) {}

  Variable parameter(const std::string& name,
                     std::span<const double> values,
                     DType dtype = DType::kF32,
                     bool requires_grad = true) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    parameters.push_back(
        {name, Variable(Tensor::of(*runtime, shape, dtype, values), requires_grad)});
    return parameters.back().variable;
  }

  Variable parameter(const std::string& name, std::initializer_list<double> values) {
    return parameter(name, std::span(values.begin(), values.size()));
  }

  Variable buffer(const std::string& name,
                  std::initializer_list<double> values,
                  DType dtype = DType::kF32) {
    const Shape shape{static_cast<std::int64_t>(values.size())};
    const Tensor data =
        Tensor::of(*runtime, shape, dtype, std::span(values.begin(), values.size()));
    buffers.push_back({name, Variable(data)});
    return buffers.back().variable;
  }

  ReplicatedState state() const { return {parameters, buffers}; }

  Runtime* runtime;
  std::vector<NamedVariable> parameters;
  std::vector<NamedVariable> buffers;
};

/// sum(p * gradient): differentiates to `gradient`.
inline Variable term(const Variable& p, std::span<const double> gradient) {
  const Tensor factors = Tensor::of(p.runtime(), p.shape(), p.data().dtype(), gradient);
  return sum(mul(p, Variable(factors)));
}

inline Variable term(const Variable& p, std::initializer_list<double> gradient) {
  return term(p, std::span(gradient.begin(), gradient.size()));
}

/// As many elements as the parameter has, all `value`.
inline Variable flat_term(const Variable& p, double value) {
  return term(p, std::vector<double>(static_cast<std::size_t>(p.data().n_elems()), value));
}

/// The sum of terms that are made in the order they are written, so that the gradient of the last
/// one is ready first. (Nested calls would leave that order to the compiler.)
inline Variable total(std::initializer_list<Variable> terms) {
  Variable result;
  for (const Variable& term : terms) result = result.defined() ? add(result, term) : term;
  return result;
}

/// One forward through the wrapper and its backward. `loss()` builds the graph.
template <typename Loss>
void forward_backward(Ddp& ddp, Loss&& loss) {
  ddp.before_forward(true);
  const Variable output = ddp.after_forward(loss());
  output.backward();
}

inline std::vector<double> grad_of(const Variable& p) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < p.grad().n_elems(); ++i) values.push_back(p.grad().at(i));
  return values;
}

inline std::vector<double> data_of(const Variable& p) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < p.data().n_elems(); ++i) values.push_back(p.data().at(i));
  return values;
}

}  // namespace lockstep::testing
