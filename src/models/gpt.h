// A small GPT: a transformer that predicts the next token, as GPT-2 has it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/layer_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"

namespace lockstep::nn {

/// Sizes of the network.
struct GptOptions {
  std::int64_t vocab = 1;    ///< Tokens 0 .. vocab - 1.
  std::int64_t context = 1;  ///< The longest sequence; positions have their own weights.
  std::int64_t layers = 1;
  std::int64_t heads = 1;
  std::int64_t width = 1;  ///< A multiple of `heads`.
  double dropout = 0.0;    ///< Of embeddings, attention weights and both branches of a block.
  bool tied = true;        ///< The head uses the token table as its weight.
  bool causal = true;      ///< False: every position sees all of its sequence.
  DType dtype = DType::kF32;
};

/// Each position looks at its sequence up to itself: x (B * T, C) -> (B * T, C).
/// Submodules "c_attn" (C to 3 C) and "c_proj".
class CausalSelfAttention final : public Module {
 public:
  CausalSelfAttention(Runtime& runtime, const GptOptions& options, Generator& masks);

  /// The rows of later forwards are `batch` sequences of equal length.
  void set_batch(std::int64_t batch) { batch_ = batch; }

  Variable forward(const Variable& x) override;

  /// A submodule, for hooks and for tests of its weights.
  Linear& c_attn() { return c_attn_; }

  /// A submodule, for hooks and for tests of its weights.
  Linear& c_proj() { return c_proj_; }

 private:
  std::int64_t heads_;
  bool causal_;
  double p_;
  Generator* masks_;
  std::int64_t batch_ = 1;
  Linear c_attn_;
  Linear c_proj_;
  Dropout dropout_;
};

/// Two layers with GELU (its tanh form) between them. Submodules "c_fc" (C to 4 C) and "c_proj".
class GptMlp final : public Module {
 public:
  GptMlp(Runtime& runtime, const GptOptions& options, Generator& masks);

  Variable forward(const Variable& x) override;

  /// A submodule, for hooks and for tests of its weights.
  Linear& c_fc() { return c_fc_; }

  /// A submodule, for hooks and for tests of its weights.
  Linear& c_proj() { return c_proj_; }

 private:
  Linear c_fc_;
  Linear c_proj_;
  Dropout dropout_;
};

/// x + attn(ln_1(x)), then that plus mlp(ln_2(that)). Submodules "ln_1", "attn", "ln_2", "mlp".
class GptBlock final : public Module {
 public:
  GptBlock(Runtime& runtime, const GptOptions& options, Generator& masks);

  Variable forward(const Variable& x) override;

  /// A submodule, for hooks and for tests of its weights.
  CausalSelfAttention& attention() { return attn_; }

  /// A submodule, for hooks and for tests of its weights.
  GptMlp& mlp() { return mlp_; }

 private:
  LayerNorm ln_1_;
  CausalSelfAttention attn_;
  LayerNorm ln_2_;
  GptMlp mlp_;
};

/// The last layer: (B * T, C) -> (B * T, V). Parameter "weight" (V, C), its own or the token
/// table's.
class GptHead final : public Module {
 public:
  GptHead(Runtime& runtime, const GptOptions& options, const Variable& shared);

  Variable forward(const Variable& x) override;

 private:
  void reset_own_parameters(Generator& generator) override;

  Variable weight_;
};

/// Token and position embeddings, blocks, a last layer norm and a head without bias.
/// Submodules "wte", "wpe", "h.0", "h.1", ..., "ln_f", "lm_head". A tied head's weight is listed
/// once, as "wte.weight"; the gradients of both uses add up in it.
///
/// Shapes: tokens (B, T), whole numbers of any dtype -> logits (B * T, V), position t of sequence b
///     in row b * T + t.
/// Requires: T <= context; every token below vocab.
/// Deterministic: initial values are those of the same model in PyTorch after torch.manual_seed:
///     every layer's own draws, then weights of Linear and Embedding from N(0, 0.02) in order of
///     registration with the head last, biases zero, then every c_proj from N(0,
///     0.02 / sqrt(2 * layers)). Bit-equal to 1.13. Dropout masks come from dropout_generator() and
///     are bit-equal too, given that generator's state.
/// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019 (GPT-2);
///     Press and Wolf, EACL 2017 (tied weights).
class Gpt final : public Module {
 public:
  Gpt(Runtime& runtime, const GptOptions& options);

  Variable forward(const Variable& tokens) override;

  /// Where masks are drawn from. Assign a generator to continue another stream.
  Generator& dropout_generator() { return masks_; }

  const GptOptions& options() const { return options_; }

 private:
  void redraw_parameters(Generator& generator) override;
  std::vector<Linear*> projections();  ///< Every c_proj, in order of registration.

  GptOptions options_;
  Generator masks_;
  Embedding wte_;
  Embedding wpe_;
  Dropout drop_;
  std::vector<std::unique_ptr<GptBlock>> blocks_;
  LayerNorm ln_f_;
  GptHead lm_head_;
};

}  // namespace lockstep::nn
