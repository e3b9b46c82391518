// Differentiable operations on variables.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

/// x (B, I) times weight (O, I) transposed, plus bias (O,) when defined -> (B, O).
/// Source: torch linear.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias);
/// Same shapes. Of two floating dtypes the result has the wider one; f16 and bf16 meet in f32.
Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable scale(const Variable& x, double factor);
Variable relu(const Variable& x);
Variable tanh(const Variable& x);
Variable sigmoid(const Variable& x);
Variable sum(const Variable& x);  ///< -> scalar, in index order.
Variable reshape(const Variable& x, const Shape& shape);

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
