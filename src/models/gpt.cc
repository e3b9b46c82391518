#include "lockstep/models/gpt.h"

#include <cmath>
#include <fmt/core.h>
#include <string>

#include "lockstep/functional/attention.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/nn/init.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep::nn {
namespace {

constexpr double kInitStd = 0.02;

void check_options(const GptOptions& options) {
  LOCKSTEP_CHECK(options.vocab > 0 && options.context > 0 && options.layers > 0,
                 fmt::format("a GPT with vocab {}, context {} and {} layers: each is at least 1",
                             options.vocab,
                             options.context,
                             options.layers));
  LOCKSTEP_CHECK(options.heads > 0 && options.width > 0 && options.width % options.heads == 0,
                 fmt::format("a GPT's width is a multiple of its heads, not {} with {} heads",
                             options.width,
                             options.heads));
}

const GptOptions& checked(const GptOptions& options) {
  check_options(options);
  return options;
}

void draw(const Variable& weight, Generator& generator, double std = kInitStd) {
  init::normal(weight.data(), generator, 0.0, std);
}

void draw(const Linear& layer, Generator& generator) {
  draw(layer.weight(), generator);
  init::constant(layer.bias().data(), 0.0);
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(Runtime& runtime,
                                         const GptOptions& options,
                                         Generator& masks)
    : Module(runtime),
      heads_(options.heads),
      causal_(options.causal),
      p_(options.dropout),
      masks_(&masks),
      c_attn_(runtime, options.width, 3 * options.width, {.dtype = options.dtype}),
      c_proj_(runtime, options.width, options.width, {.dtype = options.dtype}),
      dropout_(runtime, options.dropout, masks) {
  register_module("c_attn", c_attn_);
  register_module("c_proj", c_proj_);
  register_module("resid_dropout", dropout_);
}

Variable CausalSelfAttention::forward(const Variable& x) {
  const Variable qkv = c_attn_.forward(x);
  AttentionOptions options{.causal = causal_};
  if (is_training() && p_ > 0.0) {
    const std::int64_t length = x.shape()[0] / batch_;
    options.dropout_mask =
        dropout_mask(runtime(), {batch_ * heads_, length, length}, x.data().dtype(), p_, *masks_);
  }
  return dropout_.forward(
      c_proj_.forward(self_attention(qkv, {.batch = batch_, .heads = heads_}, options)));
}

GptMlp::GptMlp(Runtime& runtime, const GptOptions& options, Generator& masks)
    : Module(runtime),
      c_fc_(runtime, options.width, 4 * options.width, {.dtype = options.dtype}),
      c_proj_(runtime, 4 * options.width, options.width, {.dtype = options.dtype}),
      dropout_(runtime, options.dropout, masks) {
  register_module("c_fc", c_fc_);
  register_module("c_proj", c_proj_);
  register_module("dropout", dropout_);
}

Variable GptMlp::forward(const Variable& x) {
  return dropout_.forward(c_proj_.forward(gelu(c_fc_.forward(x), Kernels::Gelu::kTanh)));
}

GptBlock::GptBlock(Runtime& runtime, const GptOptions& options, Generator& masks)
    : Module(runtime),
      ln_1_(runtime, options.width, {.dtype = options.dtype}),
      attn_(runtime, options, masks),
      ln_2_(runtime, options.width, {.dtype = options.dtype}),
      mlp_(runtime, options, masks) {
  register_module("ln_1", ln_1_);
  register_module("attn", attn_);
  register_module("ln_2", ln_2_);
  register_module("mlp", mlp_);
}

Variable GptBlock::forward(const Variable& x) {
  const Variable mixed = add(x, attn_.forward(ln_1_.forward(x)));
  return add(mixed, mlp_.forward(ln_2_.forward(mixed)));
}

GptHead::GptHead(Runtime& runtime, const GptOptions& options, const Variable& shared)
    : Module(runtime) {
  if (options.tied) {
    weight_ = register_parameter("weight", shared);
  } else {
    const Shape shape{options.vocab, options.width};
    weight_ = register_parameter("weight", Tensor::zeros(runtime, shape, options.dtype));
  }
}

Variable GptHead::forward(const Variable& x) { return linear(x, weight_, {}); }

// A tied head draws too: in a script the layer is constructed first and tied afterwards.
void GptHead::reset_own_parameters(Generator& generator) {
  init::linear_weight(weight_.data(), generator);
}

Gpt::Gpt(Runtime& runtime, const GptOptions& options)
    : Module(runtime),
      options_(checked(options)),
      wte_(runtime, options.vocab, options.width, {.dtype = options.dtype}),
      wpe_(runtime, options.context, options.width, {.dtype = options.dtype}),
      drop_(runtime, options.dropout, masks_),
      ln_f_(runtime, options.width, {.dtype = options.dtype}),
      lm_head_(runtime, options, wte_.weight()) {
  register_module("wte", wte_);
  register_module("wpe", wpe_);
  register_module("drop", drop_);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    blocks_.push_back(std::make_unique<GptBlock>(runtime, options, masks_));
    register_module("h." + std::to_string(i), *blocks_.back());
  }
  register_module("ln_f", ln_f_);
  register_module("lm_head", lm_head_);
}

Variable Gpt::forward(const Variable& tokens) {
  LOCKSTEP_CHECK(tokens.shape().n_dims() == 2 && tokens.shape()[1] <= options_.context,
                 fmt::format("a GPT takes tokens (B, T) with T up to {}, not {}",
                             options_.context,
                             tokens.shape().text()));
  const std::int64_t batch = tokens.shape()[0];
  const std::int64_t length = tokens.shape()[1];
  const Tensor indices = tokens.data().to(DType::kI64).reshape({batch * length});
  const Tensor positions = Tensor::empty(runtime(), {batch * length}, DType::kI64);
  for (std::int64_t i = 0; i < batch * length; ++i) positions.write<std::int64_t>()[i] = i % length;

  // In this order: it decides which table's gradient is ready first.
  const Variable token_rows = wte_.forward(Variable(indices));
  const Variable position_rows = wpe_.forward(Variable(positions));
  Variable x = drop_.forward(add(token_rows, position_rows));
  for (const auto& block : blocks_) {
    block->attention().set_batch(batch);
    x = block->forward(x);
  }
  return lm_head_.forward(ln_f_.forward(x));
}

std::vector<Linear*> Gpt::projections() {
  std::vector<Linear*> all;
  for (const auto& block : blocks_) {
    all.push_back(&block->attention().c_proj());
    all.push_back(&block->mlp().c_proj());
  }
  return all;
}

void Gpt::redraw_parameters(Generator& generator) {
  draw(wte_.weight(), generator);
  draw(wpe_.weight(), generator);
  for (const auto& block : blocks_) {
    draw(block->attention().c_attn(), generator);
    draw(block->attention().c_proj(), generator);
    draw(block->mlp().c_fc(), generator);
    draw(block->mlp().c_proj(), generator);
  }
  for (const NamedVariable& named : lm_head_.named_parameters()) draw(named.variable, generator);
  const double std = kInitStd / std::sqrt(2.0 * static_cast<double>(options_.layers));
  for (const Linear* layer : projections()) draw(layer->weight(), generator, std);
}

}  // namespace lockstep::nn
