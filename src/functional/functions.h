// Differentiable operations on variables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// x (B, I) times weight (O, I) transposed, plus bias (O,) when defined -> (B, O).
/// Source: torch linear.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// a (M, K) times b (K, N) -> (M, N).
/// Errors: ContractViolation with PyTorch's text for shapes that do not go together.
/// Source: torch.mm.
Variable matmul(const Variable& a, const Variable& b);
/// Element by element; operators.h has them as operators. Shapes are broadcast as PyTorch's are: (B, 1) with (B, C), (C,) with (B, C). Of two
/// floating dtypes the result has the wider one; f16 and bf16 meet in f32.
/// Errors: ContractViolation with PyTorch's text for shapes that do not go together.
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
Variable div(const Variable& x, double divisor);
Variable scale(const Variable& x, double factor);
Variable relu(const Variable& x);
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);
Variable exp(const Variable& x);
Variable log(const Variable& x);
Variable sqrt(const Variable& x);
Variable reciprocal(const Variable& x);

/// Whether a dimension that was summed stays, with size 1, so that the result can be broadcast.
enum class KeepDim : std::uint8_t { kNo, kYes };

/// -> scalar, in index order.
Variable sum(const Variable& x);
Variable mean(const Variable& x);
/// Along one dimension, counted from 0, in index order: (B, C) along 1 -> (B,), or (B, 1) with kYes.
Variable sum(const Variable& x, std::size_t dim, KeepDim keep = KeepDim::kNo);
Variable mean(const Variable& x, std::size_t dim, KeepDim keep = KeepDim::kNo);

Variable reshape(const Variable& x, const Shape& shape);
/// Sizes of 1, and those missing on the left, repeated to `shape`. Source: torch.broadcast_to.
Variable expand(const Variable& x, const Shape& shape);

/// Losses -> scalar. `denominator` divides the sum over elements (over samples for cross entropy);
/// the overloads without it use PyTorch's mean. Targets carry no gradient; of two floating dtypes
/// the wider one is computed in.
Variable mse_loss(const Variable& x, const Tensor& target);
Variable mse_loss(const Variable& x, const Tensor& target, double denominator);
Variable l1_loss(const Variable& x, const Tensor& target);
Variable l1_loss(const Variable& x, const Tensor& target, double denominator);
/// x (B, C) logits, labels i64 (B,).
Variable cross_entropy(const Variable& x, const Tensor& labels);
Variable cross_entropy(const Variable& x, const Tensor& labels, double denominator);
/// Each sample counts as much as its class: `class_weights` (C,). A mean is divided by the weights of these samples.
Variable cross_entropy(const Variable& x,
                       const Tensor& labels,
                       const Tensor& class_weights,
                       Reduction reduction);

/// Running statistics of a batch norm layer: buffers, updated by training forwards.
struct BatchNormBuffers {
  Tensor running_mean;
  Tensor running_var;
};

/// x (B, D), or images (B, D, H, W) whose channels are normalised over all their positions.
/// Training: batch statistics, running ones updated if there are any; evaluation: running
/// statistics. 16-bit x beside f32 parameters or statistics is computed in f32 and rounded once.
/// Without weight and bias (both undefined) nothing scales the result.
/// Errors: std::invalid_argument with PyTorch's text for training on one value per channel.
/// Source: torch batch_norm.
Variable batch_norm(const Variable& x,
                    const Variable& weight,
                    const Variable& bias,
                    const BatchNormBuffers& buffers,
                    const Kernels::BatchNorm& options);

}  // namespace lockstep
