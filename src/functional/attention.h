// Scaled dot-product attention, differentiable, over separate or packed queries, keys and values.
#pragma once

#include <cstdint>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// What a position may see of the others.
struct AttentionOptions {
  bool causal = true;     ///< Position t sees positions 0 to t alone.
  Tensor dropout_mask{};  ///< (N, T, S), multiplies the weights; undefined: no dropout.
};

/// For each of N independent heads: softmax(q k^T / sqrt(D)) v.
///
/// Shapes: q (N, T, D); k (N, S, D); v (N, S, D) -> (N, T, D).
/// Requires: T = S when causal.
/// Deterministic: products in the kernels' order; the scores are scaled by 1 / sqrt(D), formed in
///     double, after the product. Masked weights are +0, whatever the scores there.
/// Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.
Variable attention(const Variable& q,
                   const Variable& k,
                   const Variable& v,
                   const AttentionOptions& options = {});

/// How the rows of a packed projection are to be read.
struct HeadLayout {
  std::int64_t batch = 1;  ///< Sequences B: row b * T + t is position t of sequence b.
  std::int64_t heads = 1;
};

/// The same where one projection holds queries, keys and values side by side, each cut into heads.
///
/// Shapes: qkv (B * T, 3 * C), head h of the queries in columns h * C / heads and following, keys
///     from column C on, values from 2 C; result (B * T, C). The mask is (B * heads, T, T).
/// Source: the layout of GPT-2's c_attn.
Variable self_attention(const Variable& qkv,
                        const HeadLayout& layout,
                        const AttentionOptions& options = {});

}  // namespace lockstep
