#include <algorithm>
#include <fmt/core.h>

#include "lockstep/models/gpt.h"
#include "lockstep/models/two_head.h"
#include "lockstep/nn/activations.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/convolution.h"
#include "lockstep/nn/init.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/pooling.h"
#include "lockstep/nn/sequential.h"
#include "lockstep/random/generator.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

namespace {

// A root without layers around it, so that parameters are called "weight" and "bias" as in a script
// that wraps a bare nn.Linear.
std::unique_ptr<nn::Module> make_linear(const ModelSpec& spec, Runtime& runtime) {
  LOCKSTEP_CHECK(spec.widths.size() == 2,
                 fmt::format("a linear model has two widths, not {}", spec.widths.size()));
  return std::make_unique<nn::Linear>(runtime,
                                      spec.widths[0],
                                      spec.widths[1],
                                      nn::LinearOptions{.bias = spec.bias, .dtype = spec.dtype});
}

void append_activation(nn::Sequential& model, ActivationKind kind) {
  if (kind == ActivationKind::kRelu) model.append<nn::ReLU>();
  if (kind == ActivationKind::kTanh) model.append<nn::Tanh>();
}

// Linear layers with activations between them; `bn` adds batch norm before each activation.
std::unique_ptr<nn::Module> make_mlp(const ModelSpec& spec, Runtime& runtime) {
  auto model = std::make_unique<nn::Sequential>(runtime);
  for (std::size_t i = 0; i + 1 < spec.widths.size(); ++i) {
    model->append<nn::Linear>(spec.widths[i],
                              spec.widths[i + 1],
                              nn::LinearOptions{.bias = spec.bias, .dtype = spec.dtype});
    const bool last = i + 2 == spec.widths.size();
    if (last) break;
    if (spec.kind == ModelKind::kBn) {
      model->append<nn::BatchNorm1d>(spec.widths[i + 1], nn::BatchNormOptions{.dtype = spec.dtype});
    }
    append_activation(*model, spec.activation);
  }
  if (spec.checkpoint != CheckpointKind::kNone) {
    model->checkpoint_modules(spec.checkpoint == CheckpointKind::kReentrant);
  }
  return model;
}

std::unique_ptr<nn::Module> make_two_head(const ModelSpec& spec, Runtime& runtime) {
  LOCKSTEP_CHECK(spec.widths.size() == 3,
                 fmt::format("a two-head model has three widths (in, hidden, out), not {}",
                             spec.widths.size()));
  auto model = std::make_unique<nn::TwoHead>(
      runtime,
      nn::TwoHeadSizes{.in = spec.widths[0], .hidden = spec.widths[1], .out = spec.widths[2]},
      nn::LinearOptions{.bias = spec.bias, .dtype = spec.dtype});
  model->use(spec.head == HeadChoice::kBoth ? nn::Heads::kBoth
             : spec.head == HeadChoice::kB  ? nn::Heads::kB
                                            : nn::Heads::kA);
  return model;
}

void append_stage(nn::Sequential& model, std::int64_t in, std::int64_t out, const ModelSpec& spec) {
  model.append<nn::Conv2d>(in,
                           out,
                           nn::Conv2dOptions{.kernel = spec.kernel,
                                             .padding = spec.kernel / 2,
                                             .bias = spec.bias,
                                             .dtype = spec.dtype});
  if (spec.batch_norm) {
    model.append<nn::BatchNorm2d>(out, nn::BatchNormOptions{.dtype = spec.dtype});
  }
  append_activation(model, spec.activation);
  model.append<nn::MaxPool2d>(nn::tile(2));
}

// Rows as images, stages of convolution, activation and a pool that halves, then one linear layer.
std::unique_ptr<nn::Module> make_cnn(const ModelSpec& spec, Runtime& runtime) {
  const std::vector<std::int64_t>& image = spec.image;
  LOCKSTEP_CHECK(image.size() == 3,
                 fmt::format("images have channels, height and width, not {} sizes", image.size()));
  LOCKSTEP_CHECK(spec.widths.size() >= 2,
                 fmt::format("a cnn has the widths of its stages and of its output, got {}",
                             spec.widths.size()));
  const std::size_t n_stages = spec.widths.size() - 1;
  auto model = std::make_unique<nn::Sequential>(runtime);
  model->append<nn::Unflatten>(Shape(image));
  std::int64_t in = image[0];
  for (std::size_t i = 0; i < n_stages; ++i) {
    append_stage(*model, in, spec.widths[i], spec);
    in = spec.widths[i];
  }
  model->append<nn::Flatten>();
  model->append<nn::Linear>(in * (image[1] >> n_stages) * (image[2] >> n_stages),
                            spec.widths[n_stages],
                            nn::LinearOptions{.bias = spec.bias, .dtype = spec.dtype});
  return model;
}

std::unique_ptr<nn::Gpt> make_gpt(const ModelSpec& spec, Runtime& runtime) {
  const GptSpec& gpt = spec.gpt;
  return std::make_unique<nn::Gpt>(runtime,
                                   nn::GptOptions{.vocab = gpt.vocab,
                                                  .context = gpt.context,
                                                  .layers = gpt.layers,
                                                  .heads = gpt.heads,
                                                  .width = gpt.width,
                                                  .dropout = gpt.dropout,
                                                  .tied = gpt.tied,
                                                  .dtype = spec.dtype});
}

std::unique_ptr<nn::Module> make_of_kind(const ModelSpec& spec, Runtime& runtime) {
  switch (spec.kind) {
    case ModelKind::kScalar:
    case ModelKind::kLinear:
      return make_linear(spec, runtime);
    case ModelKind::kTwoHead:
      return make_two_head(spec, runtime);
    case ModelKind::kMlp:
    case ModelKind::kBn:
      break;
    case ModelKind::kCnn:
      return make_cnn(spec, runtime);
    case ModelKind::kGpt:
      return make_gpt(spec, runtime);
  }
  return make_mlp(spec, runtime);
}

// Returns the generator as the draws left it.
Generator draw(nn::Module& model, const InitSpec& init, std::int32_t rank) {
  const std::uint64_t seed =
      init.seed + (init.seed_by_rank ? static_cast<std::uint64_t>(rank) : 0U);
  Generator generator(seed);
  switch (init.kind) {
    case InitKind::kConstant:
      nn::init::constant(model, init.value);
      break;
    case InitKind::kValues:
      nn::init::values(model, init.values);
      break;
    case InitKind::kGrid:
      nn::init::grid(model, generator, {.bits = init.grid});
      break;
    case InitKind::kPytorch:
      model.reset_parameters(generator);
      break;
  }
  return generator;
}

void copy_rounded(const std::vector<NamedVariable>& from, const std::vector<NamedVariable>& to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    const Tensor& into = to[i].variable.data();
    into.runtime().kernels().copy(into, from[i].variable.data());
  }
}

// Draws initial values; those of a 16-bit model in f32, as `Model().to(torch.bfloat16)` does.
// Returns the generator as the draws left it.
Generator initialize(nn::Module& model, const ModelSpec& spec, std::int32_t rank) {
  if (!is_narrow(spec.dtype)) {
    return draw(model, spec.init, rank);
  }
  ModelSpec wide = spec;
  wide.dtype = DType::kF32;
  const std::unique_ptr<nn::Module> drawn = make_of_kind(wide, model.runtime());
  Generator generator = draw(*drawn, spec.init, rank);
  copy_rounded(drawn->named_parameters(), model.named_parameters());
  copy_rounded(drawn->named_buffers(), model.named_buffers());
  return generator;
}

}  // namespace

std::unique_ptr<nn::Module> build_model(const ModelSpec& spec,
                                        Runtime& runtime,
                                        std::int32_t rank) {
  std::unique_ptr<nn::Module> model = make_of_kind(spec, runtime);
  const Generator drawn = initialize(*model, spec, rank);
  // As in a script: one seed, then the model, then the masks, unless they have a seed of their own.
  if (auto* gpt = dynamic_cast<nn::Gpt*>(model.get())) {
    const std::optional<std::uint64_t>& seed = spec.gpt.dropout_seed;
    gpt->dropout_generator() = seed ? Generator(*seed + static_cast<std::uint64_t>(rank)) : drawn;
  }
  for (const NamedVariable& named : model->named_parameters()) {
    const bool frozen =
        std::find(spec.freeze.begin(), spec.freeze.end(), named.name) != spec.freeze.end();
    if (frozen) named.variable.set_requires_grad(false);
  }
  return model;
}

}  // namespace lockstep
