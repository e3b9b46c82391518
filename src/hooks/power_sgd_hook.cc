#include "lockstep/hooks/power_sgd_hook.h"

#include <algorithm>
#include <fmt/core.h>
#include <stdexcept>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/hooks/detail/pending.h"
#include "lockstep/hooks/generator_state.h"
#include "lockstep/hooks/low_rank.h"
#include "lockstep/random/normal.h"

namespace lockstep {

/// Gradients that are compressed together: one, or all of a shape.
struct PowerSgdHook::Stack {
  std::vector<Tensor> gradients;
  Tensor m;  ///< (S, n, m): the gradient itself when it is alone, else a copy of all.
  Tensor p;  ///< (S, n, r)
  Tensor q;  ///< (S, m, r)
};

struct PowerSgdHook::Plan {
  std::vector<Tensor> rest;
  std::vector<Stack> stacks;
};

namespace {

struct MatrixSize {
  std::int64_t n_rows = 0;
  std::int64_t n_columns = 0;
  std::int64_t rank = 0;

  friend bool operator==(const MatrixSize&, const MatrixSize&) = default;
};

MatrixSize size_of_matrix(const Tensor& gradient, std::int64_t rank) {
  LOCKSTEP_CHECK(
      gradient.shape().n_dims() > 0 && gradient.n_elems() > 0,
      fmt::format("PowerSGD takes gradients with at least one dimension and one element, not {}",
                  gradient.text()));
  const std::int64_t n = gradient.size(0);
  const std::int64_t m = gradient.n_elems() / n;
  return {n, m, std::min({n, m, rank})};
}

void reduce(const Tensor& data, ProcessGroup& group, const OpOptions& options) {
  group.all_reduce(Memory::of(data), ReduceOp::kSum, options).wait_or_throw();
}

void average_rest(const std::vector<Tensor>& rest,
                  const Tensor& like,
                  ProcessGroup& group,
                  const OpOptions& options) {
  Runtime& runtime = like.runtime();
  std::int64_t n_elems = 0;
  for (const Tensor& gradient : rest) n_elems += gradient.n_elems();
  const Tensor flat = Tensor::empty(runtime, {n_elems}, like.dtype());
  std::int64_t first = 0;
  for (const Tensor& gradient : rest) {
    runtime.kernels().copy(flat.slice(first, gradient.shape()), gradient);
    first += gradient.n_elems();
  }
  reduce(flat, group, options);
  detail::divide(flat, group.size());
  first = 0;
  for (const Tensor& gradient : rest) {
    runtime.kernels().copy(gradient, flat.slice(first, gradient.shape()));
    first += gradient.n_elems();
  }
}

void fill_normal(Generator& generator, const Tensor& out) {
  if (out.dtype() == DType::kF32) return normal(generator, out.write_span<float>());
  normal(generator, out.write_span<double>());
}

constexpr std::string_view kSeeds = "seeds";

void save_buckets(std::string_view kind,
                  const std::map<std::size_t, Tensor>& tensors,
                  HookState& state) {
  for (const auto& [bucket, tensor] : tensors) {
    if (!tensor.defined()) continue;
    state.tensors.emplace_back(std::string(kind) + "." + std::to_string(bucket), tensor);
  }
}

/// "qs.3" of `kind` "qs": bucket 3.
std::optional<std::size_t> bucket_of(std::string_view name, std::string_view kind) {
  if (name.size() <= kind.size() + 1 || name.substr(0, kind.size()) != kind) return std::nullopt;
  const std::optional<std::int64_t> bucket = parse_int(name.substr(kind.size() + 1));
  if (name[kind.size()] != '.' || !bucket || *bucket < 0) return std::nullopt;
  return static_cast<std::size_t>(*bucket);
}

}  // namespace

std::uint32_t next_low_rank_seed(Generator& stream) {
  constexpr std::uint32_t kLargest = 999'999'999;
  constexpr std::uint32_t kMask = (1U << 30U) - 1U;
  std::uint32_t seed = stream.random() & kMask;
  while (seed > kLargest) seed = stream.random() & kMask;
  return seed;
}

PowerSgdHook::PowerSgdHook(ProcessGroup& group, const PowerSgdOptions& options)
    : group_(&group), options_(options) {
  LOCKSTEP_CHECK(
      options.rank > 0,
      fmt::format("PowerSgdOptions::rank is {}: an approximation has a rank of at least one",
                  options.rank));
  LOCKSTEP_CHECK(
      options.start_iter > 1 || !(options.error_feedback || options.warm_start),
      "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, "
      "because PowerSGD can only be applied after the first two iterations in DDP. "
      "start_iter is " +
          std::to_string(options.start_iter) + ".");
  state_.seeds.manual_seed(options.seed);
}

/// Which gradients are worth compressing, and which of them together.
PowerSgdHook::Plan PowerSgdHook::make_plan(const GradBucket& bucket) {
  Plan plan;
  std::vector<std::pair<MatrixSize, std::vector<Tensor>>> shapes;  // In order of first appearance.
  for (const Tensor& gradient : bucket.gradients()) {
    const MatrixSize size = size_of_matrix(gradient, options_.rank);
    const std::int64_t n_compressed = (size.n_rows + size.n_columns) * size.rank;
    const bool worth_it = static_cast<double>(n_compressed) * options_.min_compression_rate <
                          static_cast<double>(gradient.n_elems());
    state_.n_elems_before += gradient.n_elems();
    state_.n_elems_after += worth_it ? n_compressed : gradient.n_elems();
    if (!worth_it) {
      plan.rest.push_back(gradient);
      continue;
    }
    auto shape = std::find_if(
        shapes.begin(), shapes.end(), [&](const auto& entry) { return entry.first == size; });
    if (shape == shapes.end()) shape = shapes.insert(shapes.end(), {size, {}});
    shape->second.push_back(gradient.reshape({1, size.n_rows, size.n_columns}));
  }
  for (auto& [size, gradients] : shapes) {
    if (options_.batch_same_shapes) {
      plan.stacks.push_back({std::move(gradients), {}, {}, {}});
      continue;
    }
    for (Tensor& gradient : gradients) plan.stacks.push_back({{std::move(gradient)}, {}, {}, {}});
  }
  return plan;
}

/// Gives each stack its matrices and its place in the flat memory of all P and all Q.
void PowerSgdHook::bind_factors(Plan& plan, const GradBucket& bucket) {
  const Tensor& buffer = bucket.buffer();
  Runtime& runtime = buffer.runtime();
  std::vector<MatrixSize> sizes;
  std::int64_t n_p = 0;
  std::int64_t n_q = 0;
  for (Stack& stack : plan.stacks) {
    const Tensor& first = stack.gradients.front();
    const auto depth = static_cast<std::int64_t>(stack.gradients.size());
    const std::int64_t n = first.size(1);
    const std::int64_t m = first.size(2);
    sizes.push_back({n, m, std::min({n, m, options_.rank})});
    n_p += depth * n * sizes.back().rank;
    n_q += depth * m * sizes.back().rank;
    stack.m = first;
    if (depth == 1) continue;
    stack.m = Tensor::empty(runtime, {depth, n, m}, buffer.dtype());
    for (std::int64_t s = 0; s < depth; ++s) {
      runtime.kernels().copy(stack.m.rows(s, 1), stack.gradients[static_cast<std::size_t>(s)]);
    }
  }
  Tensor& ps = state_.ps[bucket.index()];
  Tensor& qs = state_.qs[bucket.index()];
  const bool random = !options_.warm_start || !ps.defined();
  if (random) {
    ps = Tensor::empty(runtime, {n_p}, buffer.dtype());
    qs = Tensor::empty(runtime, {n_q}, buffer.dtype());
  }
  LOCKSTEP_CHECK(ps.n_elems() == n_p && qs.n_elems() == n_q,
                 fmt::format("bucket {} had low-rank factors of {} and {} elements and needs {} "
                             "and {}: its gradients may not change while PowerSGD remembers it",
                             bucket.index(),
                             ps.n_elems(),
                             qs.n_elems(),
                             n_p,
                             n_q));
  n_p = 0;
  n_q = 0;
  for (std::size_t i = 0; i < plan.stacks.size(); ++i) {
    Stack& stack = plan.stacks[i];
    const auto [n, m, r] = sizes[i];
    const std::int64_t depth = stack.m.size(0);
    stack.p = ps.slice(n_p, {depth, n, r});
    stack.q = qs.slice(n_q, {depth, m, r});
    n_p += stack.p.n_elems();
    n_q += stack.q.n_elems();
  }
  fill_or_reuse(plan, random);
}

void PowerSgdHook::fill_or_reuse(const Plan& plan, bool random) {
  // One draw per bucket and step, even where nothing is compressed; equal on all ranks.
  Generator generator(random ? next_low_rank_seed(state_.seeds) : 0);
  for (const Stack& stack : plan.stacks) {
    if (random) fill_normal(generator, stack.q);
    orthogonalize(stack.q, options_.orthogonalization_epsilon);
  }
}

/// From orthonormal Q to M = P Q' on every rank.
void PowerSgdHook::compress(const Plan& plan, std::size_t bucket_index, const OpOptions& options) {
  reduce(state_.ps[bucket_index], *group_, options);
  for (const Stack& stack : plan.stacks) {
    orthogonalize(stack.p, options_.orthogonalization_epsilon);
  }
  for (const Stack& stack : plan.stacks) {
    multiply(stack.q, stack.m, stack.p, StackProduct::kTransposeA);
  }
  const Tensor& qs = state_.qs[bucket_index];
  reduce(qs, *group_, options);
  detail::divide(qs, group_->size());
  for (const Stack& stack : plan.stacks) {
    multiply(stack.m, stack.p, stack.q, StackProduct::kTransposeB);
    if (stack.gradients.size() == 1) continue;
    for (std::size_t s = 0; s < stack.gradients.size(); ++s) {
      stack.m.runtime().kernels().copy(stack.gradients[s],
                                       stack.m.rows(static_cast<std::int64_t>(s), 1));
    }
  }
}

/// Adds what was lost last time. Returns: the sum, kept to tell what will be lost this time.
Tensor PowerSgdHook::feed_back(const GradBucket& bucket) {
  if (!options_.error_feedback) return {};
  const Tensor& buffer = bucket.buffer();
  const Tensor& error = state_.errors[bucket.index()];
  if (error.defined()) {
    LOCKSTEP_CHECK(error.n_elems() == buffer.n_elems(),
                   fmt::format("bucket {} has {} elements, its remembered error {}: a bucket may "
                               "not change while PowerSGD remembers it",
                               bucket.index(),
                               buffer.n_elems(),
                               error.n_elems()));
    buffer.runtime().kernels().add(buffer, buffer, error);
  }
  return buffer.clone();
}

std::unique_ptr<PendingBucket> PowerSgdHook::run(GradBucket& bucket) {
  const Tensor& buffer = bucket.buffer();
  if (state_.iteration < options_.start_iter) {
    if (bucket.is_last()) ++state_.iteration;
    return detail::average(buffer, *group_, bucket.op_options());
  }
  LOCKSTEP_CHECK(
      buffer.dtype() == DType::kF32 || buffer.dtype() == DType::kF64,
      fmt::format("PowerSGD compresses f32 and f64 gradients, not {}: there are no 16-bit products",
                  buffer.text()));
  const Tensor wanted = feed_back(bucket);
  Plan plan = make_plan(bucket);
  bind_factors(plan, bucket);
  for (const Stack& stack : plan.stacks) {
    multiply(stack.p, stack.m, stack.q, StackProduct::kPlain);
  }
  const OpOptions options = detail::without_layout(bucket.op_options());
  average_rest(plan.rest, buffer, *group_, options);
  compress(plan, bucket.index(), options);
  if (options_.error_feedback) {
    const Tensor lost = Tensor::empty(buffer.runtime(), buffer.shape(), buffer.dtype());
    buffer.runtime().kernels().sub(lost, wanted, buffer);
    state_.errors[bucket.index()] = lost;
  }
  if (!options_.warm_start) {
    state_.ps.clear();
    state_.qs.clear();
  }
  if (bucket.is_last()) ++state_.iteration;
  return std::make_unique<detail::ReadyBucket>(buffer);
}

HookState PowerSgdHook::save(Runtime& runtime) const {
  HookState state;
  state.counts = {{"iteration", state_.iteration},
                  {"n_elems_before", state_.n_elems_before},
                  {"n_elems_after", state_.n_elems_after}};
  state.tensors.emplace_back(kSeeds, state_of(state_.seeds, runtime));
  save_buckets("errors", state_.errors, state);
  save_buckets("ps", state_.ps, state);
  save_buckets("qs", state_.qs, state);
  return state;
}

void PowerSgdHook::load(const HookState& state) {
  PowerSgdState loaded;
  const std::pair<std::string_view, std::int64_t*> counts[] = {
      {"iteration", &loaded.iteration},
      {"n_elems_before", &loaded.n_elems_before},
      {"n_elems_after", &loaded.n_elems_after}};
  const std::pair<std::string_view, std::map<std::size_t, Tensor>*> lists[] = {
      {"errors", &loaded.errors}, {"ps", &loaded.ps}, {"qs", &loaded.qs}};
  const auto refuse = [](const std::string& name) {
    throw std::invalid_argument("PowerSGD remembers no '" + name + "'");
  };
  for (const auto& remembered : state.counts) {
    const std::string& name = remembered.first;
    const auto* count = std::find_if(
        std::begin(counts), std::end(counts), [&](const auto& own) { return own.first == name; });
    if (count == std::end(counts)) refuse(name);
    *count->second = remembered.second;
  }
  for (const auto& remembered : state.tensors) {
    const std::string& name = remembered.first;
    if (name == kSeeds) {
      load_state(loaded.seeds, remembered.second);
      continue;
    }
    const auto* list = std::find_if(std::begin(lists), std::end(lists), [&](const auto& own) {
      return bucket_of(name, own.first).has_value();
    });
    if (list == std::end(lists)) refuse(name);
    (*list->second)[*bucket_of(name, list->first)] = remembered.second;
  }
  set_state(std::move(loaded));
}

}  // namespace lockstep
