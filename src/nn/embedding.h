#pragma once

#include <cstdint>
#include <string>

#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// What a table of rows may do besides looking up.
struct EmbeddingOptions {
  std::int64_t padding = -1;  ///< A row that starts at zero and gets no gradient; -1: none.
  DType dtype = DType::kF32;
  bool sparse = false;  ///< The gradient lists the touched rows (SparseRows): SGD without momentum,
                        ///< Adagrad and SparseAdam take it, other optimizers refuse it.
};

/// A row of parameter "weight" (V, D) for each index. Without a generator the weight is zero.
///
/// Source: torch.nn.Embedding; initial values are bit-equal to 1.13 under the same seed.
class Embedding final : public Module {
 public:
  Embedding(Runtime& runtime,
            std::int64_t n_rows,
            std::int64_t width,
            EmbeddingOptions options = {});
  Embedding(Runtime& runtime,
            std::int64_t n_rows,
            std::int64_t width,
            Generator& generator,
            EmbeddingOptions options = {});

  /// `indices` i64 of (R,) -> (R, D).
  Variable forward(const Variable& indices) override;

  const Variable& weight() const { return weight_; }

 private:
  std::string description() const override;
  void reset_own_parameters(Generator& generator) override;

  EmbeddingOptions options_;
  Variable weight_;
};

}  // namespace lockstep::nn
