#include "lockstep/nn/embedding.h"

#include <fmt/core.h>

#include "lockstep/functional/layer_functions.h"
#include "lockstep/nn/init.h"

namespace lockstep::nn {

Embedding::Embedding(Runtime& runtime,
                     std::int64_t n_rows,
                     std::int64_t width,
                     EmbeddingOptions options)
    : Module(runtime), options_(options) {
  LOCKSTEP_CHECK(
      options.padding >= -1 && options.padding < n_rows,
      fmt::format(
          "padding {} is not a row of the embedding, which has {}", options.padding, n_rows));
  weight_ = register_parameter("weight", Tensor::zeros(runtime, {n_rows, width}, options.dtype));
  weight_.state().expects_sparse = options.sparse;
}

Embedding::Embedding(Runtime& runtime,
                     std::int64_t n_rows,
                     std::int64_t width,
                     Generator& generator,
                     EmbeddingOptions options)
    : Embedding(runtime, n_rows, width, options) {
  reset_parameters(generator);
}

Variable Embedding::forward(const Variable& indices) {
  return embedding(weight_, indices.data(), options_.padding, options_.sparse);
}

void Embedding::reset_own_parameters(Generator& generator) {
  init::normal(weight_.data(), generator);
  if (options_.padding >= 0) init::constant(weight_.data().rows(options_.padding, 1), 0.0);
}

std::string Embedding::description() const {
  return fmt::format("Embedding(padding={})", options_.padding);
}

}  // namespace lockstep::nn
