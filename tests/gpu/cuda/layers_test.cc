// Layers, movements and optimizers against the processor's: bit for bit.
#include "lockstep/base/check.h"

#include "tests/gpu/cuda/beside_cpu.h"

namespace lockstep::testing {
namespace {

using Tensors = std::vector<Tensor>;

class LayersTest : public BesideCpu {};

Tensors softmax_both_ways(Bench& b, const Shape& shape, const Kernels::Softmax& options) {
  const Tensor y = b.out(shape);
  b.kernels().softmax(y, b.between(shape, -4.0, 4.0), options);
  const Tensor grad = b.out(shape);
  b.kernels().softmax_backward(grad, b.between(shape, -1.0, 1.0), y, options);
  return {y, grad};
}

// Bounds of the device: docs/gpu.md.
TEST_P(LayersTest, SoftmaxIsWithinItsBoundsOfTheCpu) {
  std::vector<Case> cases;
  for (const Kernels::Softmax& options :
       {Kernels::Softmax{}, Kernels::Softmax{.log = true}, Kernels::Softmax{.causal = true}}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{0, 5, 5}, Shape{3, 33, 33}, Shape{2, 3, 7, 7}}) {
      cases.push_back({.name = "softmax",
                       .run = [=](Bench& b) { return softmax_both_ways(b, shape, options); },
                       .ulps = 320.0,
                       .scale = 8.0});
    }
  }
  // Special numbers: where a NaN or an infinity stands decides.
  cases.push_back({.name = "softmax of anything",
                   .run =
                       [](Bench& b) {
                         const Tensor y = b.out({200, 3});
                         b.kernels().softmax(y, b.in({200, 3}), {});
                         return Tensors{y};
                       },
                   .ulps = 64.0,
                   .scale = 8.0});
  expect_same(cases);
  expect_same(cases, cuda::kStrict);
}

TEST_P(LayersTest, CrossEntropyIsWithinItsBoundsOfTheCpu) {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 2}, Shape{37, 10}, Shape{300, 33}}) {
    cases.push_back({.name = "cross_entropy",
                     .run =
                         [=](Bench& b) {
                           const Tensor loss = b.out({});
                           const Tensor logs = b.out(shape);
                           const Tensor slope = b.out(shape);
                           const Tensor labels = b.indices(shape[0], shape[1]);
                           const Tensor x = b.between(shape, -4.0, 4.0);
                           b.kernels().cross_entropy(loss, logs, x, labels, 7.0);
                           const Tensor grad = b.between({}, 0.5, 1.5);
                           b.kernels().cross_entropy_backward(slope, grad, logs, labels, 7.0);
                           return Tensors{loss, logs, slope};
                         },
                     .ulps = 1'024.0,
                     .scale = 64.0});
  }
  expect_same(cases);
  expect_same(cases, cuda::kStrict);
}

TEST_P(LayersTest, LayerNormHasTheCpusBits) {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{1, 1}, Shape{5, 33}, Shape{2, 3, 16}, Shape{300, 7}}) {
    cases.push_back({.name = "layer_norm", .run = [=](Bench& b) {
                       const std::int64_t width = shape[shape.n_dims() - 1];
                       const Tensor x = b.in(shape);
                       const Tensor weight = b.in({width});
                       const Tensor out = b.out(shape);
                       const std::int64_t n_rows = x.n_elems() / width;
                       const Tensors saved = {b.out({n_rows}), b.out({n_rows})};
                       b.kernels().layer_norm(out, Tensors{x, weight, b.in({width})}, saved, 1e-5);
                       const Tensors grads = {b.out(shape), b.out({width}), b.out({width})};
                       const Tensors in = {b.in(shape), x, weight};
                       b.kernels().layer_norm_backward(grads, in, saved);
                       return Tensors{out, saved[0], saved[1], grads[0], grads[1], grads[2]};
                     }});
  }
  expect_same(cases);
}

Tensors batch_norm_both_ways(Bench& b, const Shape& shape, bool training, bool affine) {
  const std::int64_t width = shape[1];
  const Tensor x = b.in(shape);
  const Tensor out = b.out(shape);
  const Tensors running = {b.in({width}), b.between({width}, 0.5, 2.0)};
  const Tensors saved = {b.out({width}), b.out({width})};
  const Tensor weight = affine ? b.in({width}) : Tensor();
  const Tensor bias = affine ? b.in({width}) : Tensor();
  b.kernels().batch_norm(out, Tensors{x, weight, bias}, running, saved, {.training = training});
  const Tensors grads = {b.out(shape), b.out({width}), b.out({width})};
  b.kernels().batch_norm_backward(grads, Tensors{b.in(shape), x, weight}, saved);
  return {out, running[0], running[1], saved[0], saved[1], grads[0], grads[1], grads[2]};
}

TEST_P(LayersTest, BatchNormHasTheCpusBits) {
  std::vector<Case> cases;
  for (const bool training : {false, true}) {
    for (const bool affine : {false, true}) {
      for (const Shape& shape : {Shape{2, 1}, Shape{33, 5}, Shape{7, 300}}) {
        cases.push_back({.name = "batch_norm", .run = [=](Bench& b) {
                           return batch_norm_both_ways(b, shape, training, affine);
                         }});
      }
    }
  }
  cases.push_back({.name = "batch_norm, nothing kept", .run = [](Bench& b) {
                     const Tensor out = b.out({5, 3});
                     const Tensor x = b.in({5, 3});
                     b.kernels().batch_norm(out, std::span(&x, 1), {}, {}, {});
                     return Tensors{out};
                   }});
  expect_same(cases);
}

Tensors synchronised_batch_norm(Bench& b, const Shape& shape, bool affine) {
  const std::int64_t c = shape[1];
  const Tensor x = b.in(shape);
  const Tensors own = {b.out({c}), b.out({c})};
  b.kernels().batch_norm_stats(own, x, 1e-5);
  Tensor rows = b.between({3, 2 * c + 1}, 0.5, 4.0);
  const Tensors merged = {b.out({c}), b.out({c})};
  const Tensors running = {b.in({c}), b.between({c}, 0.5, 2.0)};
  b.kernels().batch_norm_merge_stats(merged, running, rows, {});
  const Tensor weight = affine ? b.in({c}) : Tensor();
  const Tensor out = b.out(shape);
  const Tensor bias = affine ? b.in({c}) : Tensor();
  b.kernels().batch_norm_apply(out, Tensors{x, weight, bias}, merged);
  const Tensor sums = b.out({2 * c});
  const Tensor grad = b.in(shape);
  Tensors slopes;
  if (affine) slopes = {b.out({c}), b.out({c})};
  b.kernels().batch_norm_sums(sums, slopes, Tensors{grad, x}, merged);
  const Tensor grad_x = b.out(shape);
  b.kernels().batch_norm_spread(grad_x, Tensors{grad, x, weight}, merged, sums, 12.0);
  Tensors all = {own[0], own[1], merged[0], merged[1], running[0], running[1], out, sums, grad_x};
  all.insert(all.end(), slopes.begin(), slopes.end());
  return all;
}

TEST_P(LayersTest, SynchronisedBatchNormHasTheCpusBits) {
  std::vector<Case> cases;
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 5, 5}, Shape{1, 40, 7}}) {
    for (const bool affine : {false, true}) {
      cases.push_back({.name = "batch norm in parts",
                       .run = [=](Bench& b) { return synchronised_batch_norm(b, shape, affine); },
                       .dtypes = {DType::kF32, DType::kF64}});
    }
  }
  expect_same(cases);
}

TEST_P(LayersTest, TablesAndAxesHaveTheCpusBits) {
  const Case tables{.name = "gather and scatter", .run = [](Bench& b) {
                      const Tensor table = b.in({7, 33});
                      const Tensor indices = b.indices(100, 7);
                      const Tensor out = b.out({100, 33});
                      b.kernels().gather_rows(out, table, indices);
                      b.kernels().scatter_add_rows(table, b.in({100, 33}), indices, 2);
                      b.kernels().scatter_add_rows(table, b.in({100, 33}), indices, -1);
                      return Tensors{out, table};
                    }};
  const Case swap{.name = "swap_middle", .run = [](Bench& b) {
                    const Tensor out = b.out({2, 5, 3, 7});
                    b.kernels().swap_middle(out, b.in({2, 3, 5, 7}));
                    return Tensors{out};
                  }};
  const Case nothing{.name = "no indices", .run = [](Bench& b) {
                       const Tensor table = b.in({3, 2});
                       const Tensor none = b.indices(0, 3);
                       b.kernels().gather_rows(b.out({0, 2}), table, none);
                       b.kernels().scatter_add_rows(table, b.in({0, 2}), none, -1);
                       return Tensors{table};
                     }};
  expect_same({tables, swap, nothing});
}

Tensors windows(Bench& b, const Kernels::Window& window) {
  const auto places = [&](std::int64_t image, std::int64_t size) {
    return (image + 2 * window.padding - size) / window.stride + 1;
  };
  const std::int64_t down = places(9, window.height);
  const std::int64_t right = places(7, window.width);
  const Tensor columns = b.out({3 * window.height * window.width, down * right});
  b.kernels().unfold(columns, b.in({3, 9, 7}), window);
  const Tensor image = b.out({3, 9, 7});
  b.kernels().fold(image, b.in(columns.shape()), window);
  const Shape pooled{2, 3, down, right};
  const Tensor most = b.out(pooled);
  const Tensor positions = b.out(pooled, DType::kI64);
  b.kernels().max_pool(most, positions, b.in({2, 3, 9, 7}), window);
  const Tensor most_slope = b.out({2, 3, 9, 7});
  b.kernels().max_pool_backward(most_slope, b.in(pooled), positions);
  const Tensor mean = b.out(pooled);
  b.kernels().avg_pool(mean, b.in({2, 3, 9, 7}), window);
  const Tensor mean_slope = b.out({2, 3, 9, 7});
  b.kernels().avg_pool_backward(mean_slope, b.in(pooled), window);
  return {columns, image, most, positions, most_slope, mean, mean_slope};
}

TEST_P(LayersTest, WindowsOverImagesHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const std::int64_t stride : {1, 2, 3}) {
    for (const std::int64_t padding : {0, 1}) {
      for (const std::int64_t height : {2, 3}) {
        const Kernels::Window window{height, 3, stride, padding};
        cases.push_back(
            {.name = "windows", .run = [window](Bench& b) { return windows(b, window); }});
      }
    }
  }
  expect_same(cases);
}

TEST_P(LayersTest, AnUnnamedFailureIsThrownByTheNextWait) {
  Machine machine(accelerator());
  Runtime& runtime = machine.runtime();
  Kernels& kernels = runtime.kernels();
  const Tensor table = Tensor::zeros(runtime, {3, 2}, DType::kF32);
  const Tensor out = Tensor::zeros(runtime, {1, 2}, DType::kF32);
  const Tensor three = Tensor::full(runtime, {1}, DType::kI64, 3.0);
  const Tensor loss = Tensor::zeros(runtime, {}, DType::kF32);
  const auto expect_refusal = [&](const std::function<void()>& run) {
    EXPECT_THROW(
        {
          run();
          runtime.settle();
        },
        ContractViolation);
    EXPECT_NO_THROW(runtime.settle()) << "it is thrown once";
  };

  expect_refusal([&] { kernels.gather_rows(out, table, three); });
  expect_refusal([&] { kernels.scatter_add_rows(table, out, three, -1); });
  expect_refusal([&] { kernels.cross_entropy(loss, out, out, three, 1.0); });
  expect_refusal([&] { kernels.cross_entropy_backward(out, loss, out, three, 1.0); });
  expect_refusal([&] { kernels.max_pool_backward(loss, loss, three.reshape({})); });
}

/// One optimizer for three steps, and everything it keeps.
using Update = std::function<void(
    Bench&, const Tensor& param, const Tensor& grad, const Tensors& kept, bool first)>;

Case steps(std::string name, std::size_t n_kept, Update update) {
  return {.name = std::move(name), .run = [=](Bench& b) {
            Tensors all = {b.in({257})};
            Tensors kept;
            for (std::size_t k = 0; k < n_kept; ++k) {
              kept.push_back(Tensor::zeros(b.runtime(), {257}, b.dtype()));
            }
            for (int step = 0; step < 3; ++step) update(b, all[0], b.in({257}), kept, step == 0);
            all.insert(all.end(), kept.begin(), kept.end());
            return all;
          }};
}

TEST_P(LayersTest, SgdStepsHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const unsigned bits : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 15U}) {
    SgdUpdate update{.lr = 0.1, .momentum = (bits & 1U) != 0 ? 0.9 : 0.0};
    update.weight_decay = (bits & 2U) != 0 ? 0.01 : 0.0;
    update.maximize = (bits & 4U) != 0;
    update.nesterov = bits == 15U;
    update.dampening = bits == 3U ? 0.3 : 0.0;
    const auto run = [=](Bench& b, auto& param, auto& grad, auto& kept, bool first) {
      SgdUpdate now = update;
      now.first_step = first;
      b.kernels().sgd(param, grad, kept.empty() ? Tensor() : kept[0], now);
    };
    cases.push_back(steps("sgd " + std::to_string(bits), (bits & 1U) != 0 ? 1 : 0, run));
  }
  expect_same(cases);
}

TEST_P(LayersTest, AdamStepsHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const unsigned bits : {0U, 1U, 2U, 4U, 8U, 15U, 16U, 24U}) {
    AdamUpdate update{.lr = 0.01, .weight_decay = (bits & 1U) != 0 ? 0.1 : 0.0};
    update.decoupled = (bits & 2U) != 0;
    update.amsgrad = (bits & 4U) != 0;
    update.lerp = (bits & 8U) != 0;
    update.beta1 = (bits & 16U) != 0 ? 0.4 : 0.9;
    update.maximize = bits == 15U;
    const auto run = [=](Bench& b, auto& param, auto& grad, auto& kept, bool first) {
      AdamUpdate now = update;
      now.step = first ? 1.0 : 2.0;
      b.kernels().adam(param, grad, kept, now);
    };
    cases.push_back(steps("adam " + std::to_string(bits), update.amsgrad ? 3 : 2, run));
  }
  expect_same(cases);
}

TEST_P(LayersTest, AdagradAndRmspropStepsHaveTheCpusBits) {
  std::vector<Case> cases;
  for (const bool decays : {false, true}) {
    const AdagradUpdate update{.lr = 0.1,
                               .lr_decay = 0.2,
                               .weight_decay = decays ? 0.1 : 0.0,
                               .maximize = decays,
                               .step = 3.0};
    cases.push_back(steps("adagrad", 1, [=](Bench& b, auto& param, auto& grad, auto& kept, bool) {
      b.kernels().adagrad(param, grad, kept[0], update);
    }));
  }
  for (const unsigned bits : {0U, 1U, 2U, 3U, 6U, 7U}) {
    RmspropUpdate update{.lr = 0.1, .momentum = (bits & 1U) != 0 ? 0.9 : 0.0};
    update.centered = (bits & 2U) != 0;
    update.lerp = (bits & 4U) != 0;
    update.weight_decay = bits == 7U ? 0.1 : 0.0;
    const std::size_t n_kept = 1 + (bits & 1U) + (bits >> 1U & 1U);
    cases.push_back(
        steps("rmsprop", n_kept, [=](Bench& b, auto& param, auto& grad, auto& kept, bool) {
          b.kernels().rmsprop(param, grad, kept, update);
        }));
  }
  expect_same(cases);
}

LOCKSTEP_ON_EVERY_PLACE(LayersTest);

}  // namespace
}  // namespace lockstep::testing
