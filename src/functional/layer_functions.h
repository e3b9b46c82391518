// Differentiable operations that layers of transformers are made of.
#pragma once

#include <cstdint>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// Over the last dimension; see Kernels::Softmax for the causal form and the logarithm.
Variable softmax(const Variable& x, const Kernels::Softmax& options = {});
Variable log_softmax(const Variable& x);

/// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016; torch gelu.
Variable gelu(const Variable& x, Kernels::Gelu form = Kernels::Gelu::kErf);

/// Normalises each row of x (R, D); weight and bias (D,), which may be f32 beside 16-bit rows: their
/// gradients then add up in 16 bits, row by row, as PyTorch's do.
/// Source: torch layer_norm.
Variable layer_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    double eps = 1e-5);

/// Rows of `table` (V, D) named by `indices`, i64 of (R,) -> (R, D). The gradient is dense; the row
/// `padding` (-1: none) receives none.
/// With `sparse`, the gradient lists the rows of `indices` as they come: see SparseRows. The table
/// must then be a leaf (PyTorch allows others, without a use for them).
/// Source: torch embedding.
Variable embedding(const Variable& table,
                   const Tensor& indices,
                   std::int64_t padding = -1,
                   bool sparse = false);

}  // namespace lockstep
