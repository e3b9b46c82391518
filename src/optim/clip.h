// Gradient clipping, in place, between backward and step.
#pragma once

#include <span>

#include "lockstep/autograd/variable.h"

namespace lockstep::optim {

/// PyTorch's arguments of clip_grad_norm_, by their names.
struct ClipNorm {
  double max_norm = 1.0;
  double norm_type = 2.0;  ///< 1, 2 or infinity.
  bool error_if_nonfinite = false;
};

/// Scales all gradients so that their joint norm is at most max_norm. Always multiplies, by 1 when
/// nothing is clipped; undefined gradients are ignored.
///
/// Requires: gradients of one dtype, f32 or f64.
/// Returns: the norm before clipping; 0 without gradients.
/// Errors: std::runtime_error with PyTorch's text when asked to refuse a non-finite norm.
/// Deterministic: the norm of each gradient, rounded to the dtype, then the norm of those (orders
///     of summation: Kernels::norm). Infinity norms and the scaling have PyTorch's bits; sums of
///     orders 1 and 2 have our own, whose order PyTorch does not promise either.
/// Sparse: the norm is that of the coalesced rows, and the rows are scaled as in PyTorch 2; 1.13
///     computes the norm and then leaves sparse gradients as they are.
/// Source: torch.nn.utils.clip_grad_norm_.
double clip_grad_norm(std::span<const Variable> parameters, const ClipNorm& options);

/// The joint norm of all gradients, which are left as they are; undefined ones are ignored.
///
/// Replicated gradients have the same norm on every rank: nothing is to be added up over ranks.
///
/// Requires: gradients of one dtype, f32 or f64.
/// Returns: 0 without gradients.
/// Errors: those of clip_grad_norm.
/// Deterministic: in clip_grad_norm's order of summation.
/// Source: torch.nn.utils.get_total_norm.
double total_norm(std::span<const Variable> parameters, const ClipNorm& options = {});

/// Scales all gradients by max_norm / norm, or by 1 where `norm` is smaller than max_norm: the
/// second half of clip_grad_norm, for norms that are computed elsewhere.
///
///   const double norm = total_norm(parameters);
///   clip_grads_with_norm(parameters, {.max_norm = 1.0}, norm);
///
/// Requires: gradients of one dtype, f32 or f64; norm is the same on all ranks that hold replicas.
/// Deterministic: clip_grad_norm's bits, given its norm.
/// Source: torch.nn.utils.clip_grads_with_norm_.
void clip_grads_with_norm(std::span<const Variable> parameters,
                          const ClipNorm& options,
                          double norm);

/// Clamps each element of each gradient to [-clip_value, clip_value].
///
/// Requires: clip_value >= 0.
/// Errors: std::runtime_error for a sparse gradient, which PyTorch refuses, too.
/// Deterministic: bit-equal to PyTorch's, NaN included.
/// Source: torch.nn.utils.clip_grad_value_.
void clip_grad_value(std::span<const Variable> parameters, double clip_value);

}  // namespace lockstep::optim
