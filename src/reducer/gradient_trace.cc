#include "lockstep/reducer/gradient_trace.h"

#include <algorithm>
#include <memory>

#include "lockstep/autograd/sparse_rows.h"
#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/kernels.h"

namespace lockstep {

namespace {

// Significant bits, implicit one included.
int precision(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 53;
    case DType::kF32:
      return 24;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    default:
      return 64;
  }
}

/// For one parameter, in all three drafts.
constexpr std::size_t kDraftBytes =
    3 * (sizeof(std::uint64_t) + sizeof(Sketch) + sizeof(std::int64_t) + sizeof(std::uint8_t));

/// A parameter that several wrappers reduce belongs to the last one that has.
void take_over(std::span<const Variable> parameters,
               std::span<const NameId> names,
               std::int32_t wrapper) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    VariableState& state = parameters[i].state();
    if (state.wrapper == wrapper) continue;
    state.wrapper = wrapper;
    state.name = names[i];
  }
}

}  // namespace

GradientTrace::GradientTrace(Runtime& runtime,
                             std::int32_t wrapper,
                             std::span<const NamedVariable> parameters)
    : recorder_(runtime.recorder()),
      wrapper_(wrapper),
      parameters_(&runtime.pool()),
      names_(&runtime.pool()),
      lists_(kDraftBytes * (parameters.size() + 1), &runtime.pool()),
      taken_over_(&runtime.pool()),
      indices_(&runtime.pool()),
      lengths_(&runtime.pool()) {
  if (!parameters.empty()) dtype_ = parameters.front().variable.data().dtype();
  parameters_.reserve(parameters.size());
  names_.reserve(parameters.size());
  for (const NamedVariable& parameter : parameters) {
    parameters_.push_back(parameter.variable);
    names_.push_back(recorder_->names().intern(parameter.name));
    allow_for(parameter.variable.data().dtype());
  }
  layout_ = recorder_->names().intern_layout(names_);
  base_ = make_draft(GradPoint::kBase);
  inc_ = make_draft(GradPoint::kInc);
  pre_ = make_draft(GradPoint::kPre);
  taken_over_.resize(parameters_.size());
}

void GradientTrace::allow_for(DType dtype) {
  if (precision(dtype) < precision(dtype_)) dtype_ = dtype;
}

template <typename T>
std::span<T> GradientTrace::make_list(std::size_t n) {
  if (n == 0) return {};
  T* const first = static_cast<T*>(lists_.allocate(n * sizeof(T), alignof(T)));
  std::uninitialized_value_construct_n(first, n);
  return {first, n};
}

GradientTrace::Draft GradientTrace::make_draft(GradPoint point) {
  const RecordOptions& options = recorder_->options();
  const std::size_t n = parameters_.size();
  Draft draft;
  draft.point = point;
  draft.wanted = point == GradPoint::kBase ? options.grad_base : options.grad_local;
  draft.sketched = options.sketches && point != GradPoint::kBase;
  if (!draft.wanted) return draft;
  draft.digests = make_list<std::uint64_t>(n);
  draft.sketches = make_list<Sketch>(draft.sketched ? n : 0);
  draft.n_elems = make_list<std::int64_t>(n);
  draft.undefined = make_list<std::uint8_t>((n + 7) / 8);
  clear(draft);
  return draft;
}

// What else is in the lists counts for nothing until it is defined again.
void GradientTrace::clear(Draft& draft) {
  draft.started = false;
  std::fill(draft.undefined.begin(), draft.undefined.end(), std::uint8_t{0xFF});
}

void GradientTrace::add(Draft& draft, std::size_t index, const Tensor& grad, const Draft* twin) {
  if (grad.defined() && recorder_->options().values) {
    recorder_->record_values(names_[index], value_point(draft.point), grad, wrapper_);
  }
  if (!draft.wanted) return;
  draft.started = true;
  if (!grad.defined()) return;
  // A contribution has never been read before. A large one is named, since it may come back as
  // the gradient before the reduction, or even after it.
  const bool is_new = draft.point == GradPoint::kInc && grad.n_elems() <= Recorder::kAlwaysWhole;
  if (recorder_->covers_whole(grad)) return add_part(draft, index, grad, twin, is_new);
  Tensor slice;
  add_part(draft, index, recorder_->covered(grad, wrapper_, slice), twin, is_new);
}

void GradientTrace::add_part(
    Draft& draft, std::size_t index, const Tensor& part, const Draft* twin, bool is_new) {
  if (draft.sketched) {
    const TensorFingerprint print =
        is_new ? part.runtime().kernels().fingerprint(part) : read_again(index, part, twin);
    // Each rank looks in its own: a mean names but one of the transfers that its terms were read from.
    Recorder::find_early_read(part, print.sketch);
    draft.digests[index] = print.digest;
    draft.sketches[index] = print.sketch;
  } else {
    draft.digests[index] = known_digest(part);
  }
  draft.n_elems[index] = part.n_elems();
  define(draft, index);
}

TensorFingerprint GradientTrace::read_again(std::size_t index,
                                            const Tensor& part,
                                            const Draft* twin) {
  // A gradient that was empty before this backward equals its contribution.
  if (twin == nullptr || !defines(*twin, index) || twin->n_elems[index] != part.n_elems()) {
    return known_fingerprint(part);
  }
  const TensorFingerprint contribution{twin->digests[index], twin->sketches[index]};
  return known_fingerprint(part, &contribution);
}

void GradientTrace::define(Draft& draft, std::size_t index) {
  std::uint8_t& bits = draft.undefined[index / 8];
  bits = static_cast<std::uint8_t>(bits & ~(1U << (index % 8)));
}

bool GradientTrace::defines(const Draft& draft, std::size_t index) {
  return (draft.undefined[index / 8] >> (index % 8) & 1U) == 0;
}

void GradientTrace::on_increment(std::size_t index, const Tensor& increment) {
  const Variable& leaf = parameters_[index];
  if (base_.wanted) add(base_, index, whole_gradient(leaf), nullptr);
  add(inc_, index, increment, nullptr);
  const bool is_first = !leaf.grad().defined() && !leaf.state().sparse_grad;
  taken_over_[index] = is_first ? increment.address() : nullptr;
}

bool GradientTrace::is_last_contribution(std::size_t index, const Tensor& grad) const {
  return inc_.wanted && grad.defined() && grad.address() == taken_over_[index] &&
         !recorder_->options().values;
}

void GradientTrace::on_reduce(std::size_t index, const Tensor& grad, bool untouched) {
  if (!untouched || !is_last_contribution(index, grad)) return add(pre_, index, grad, &inc_);
  pre_.started = true;
  pre_.digests[index] = inc_.digests[index];
  if (pre_.sketched) pre_.sketches[index] = inc_.sketches[index];
  pre_.n_elems[index] = inc_.n_elems[index];
  define(pre_, index);
}

void GradientTrace::clear_undefined(Draft& draft) {
  for (std::size_t i = 0; i < draft.digests.size(); ++i) {
    if (defines(draft, i)) continue;
    draft.digests[i] = 0;
    if (draft.sketched) draft.sketches[i] = {};
    draft.n_elems[i] = 0;
  }
}

void GradientTrace::flush(Draft& draft) {
  if (!draft.started) return;
  // Bits past the last tensor are zero, and so is what is undefined.
  const std::size_t n = parameters_.size();
  if (n % 8 != 0) {
    draft.undefined.back() =
        static_cast<std::uint8_t>(draft.undefined.back() & ((1U << (n % 8)) - 1U));
  }
  const bool all_defined = std::all_of(
      draft.undefined.begin(), draft.undefined.end(), [](std::uint8_t bits) { return bits == 0; });
  if (!all_defined) clear_undefined(draft);
  recorder_->record(GradEvent{.point = draft.point,
                              .layout = layout_,
                              .digests = draft.digests,
                              .sketches = draft.sketches,
                              .n_elems = draft.n_elems,
                              .undefined = draft.undefined,
                              .dtype = dtype_},
                    wrapper_);
  clear(draft);
}

void GradientTrace::record_local() {
  flush(base_);
  flush(inc_);
  flush(pre_);
  // The next backward may find this memory with other values and without a new contribution.
  std::fill(taken_over_.begin(), taken_over_.end(), nullptr);
}

void GradientTrace::record_outcome(bool reduced) {
  if (reduced) take_over(parameters_, names_, wrapper_);
  if (reduced && (recorder_->options().grad_post || recorder_->options().values)) {
    grads_.reserve(parameters_.size());
    for (const Variable& parameter : parameters_) grads_.add(parameter);
    recorder_->record_grads(GradPoint::kPost, layout_, grads_.list(), wrapper_);
    grads_.clear();
  }
  recorder_->record(BackwardEvent{.reduced = reduced}, wrapper_);
}

void GradientTrace::record_buckets(const std::vector<std::vector<std::int32_t>>& buckets) {
  indices_.clear();
  indices_.reserve(parameters_.size());
  lengths_.clear();
  lengths_.reserve(buckets.size());
  for (const std::vector<std::int32_t>& bucket : buckets) {
    indices_.insert(indices_.end(), bucket.begin(), bucket.end());
    lengths_.push_back(static_cast<std::int32_t>(bucket.size()));
  }
  recorder_->record(BucketEvent{.indices = indices_, .lengths = lengths_}, wrapper_);
}

}  // namespace lockstep
