// Arithmetic of low-rank compression on stacks of matrices, in PyTorch's order of operations.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// One of the three products PowerSGD takes of a stack.
enum class StackProduct {
  kPlain,       ///< out = a b
  kTransposeA,  ///< out = a' b
  kTransposeB,  ///< out = a b'
};

/// Multiplies stack by stack, bit-equal to `torch.bmm` of a PyTorch without MKL.
///
/// Shapes: each (S, rows, columns), f32 or f64; out is overwritten.
/// Deterministic: an element adds its products in ascending order from +0, rounding every product
///     and every sum (no fma: Kernels::gemm has other bits).
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, StackProduct product);

/// Makes the columns of each matrix orthonormal.
///
/// Up to two columns by Gram and Schmidt, bit-equal to PyTorch's `_orthogonalize` on a CPU with
/// AVX2, where the rounding of norms depends on the dtype and on whether a column is contiguous.
/// More columns by Householder reflections as LAPACK's geqrf and orgqr do, with their signs; their
/// bits depend on the LAPACK and are not promised.
///
/// A column of zeros becomes NaN unless `epsilon`, which is added to each norm, is positive: what
/// PyTorch does, whose recovery never runs. QR ignores `epsilon`.
///
/// Shapes: (S, n, r) with r <= n, f32 or f64.
/// Source: torch ddp_comm_hooks.powerSGD_hook; Golub and Van Loan, Matrix Computations, 5.1-5.2.
void orthogonalize(const Tensor& matrices, double epsilon);

}  // namespace lockstep
