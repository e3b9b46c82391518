#include "lockstep/train/wrapping/manual_average.h"

#include <optional>

#include "lockstep/ddp/wrapper_trace.h"
#include "lockstep/reducer/layout_digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

class ManualAverage::Impl final : public GradHook {
 public:
  Impl(nn::Module& model, RankContext& context, Order order);
  ~Impl() override;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  Impl(Impl&&) = delete;
  Impl& operator=(Impl&&) = delete;

  void on_grad_ready(std::size_t /*index*/) override {}

  void on_grad_increment(std::size_t index, const Tensor& increment) override {
    if (recorder_ != nullptr) increments_[index] = increment.clone();
  }

  std::int32_t wrapper() const { return wrapper_; }

  Variable forward(const Variable& x);
  void after_backward(bool last_micro);

 private:
  void open_record();
  void average_all();
  void average(const NamedVariable& named);
  void record_grads(GradPoint point, std::span<const Tensor> grads);
  std::vector<Tensor> current_grads() const;

  nn::Module& model_;
  RankContext& context_;
  Order order_;
  Recorder* recorder_;
  std::optional<WrapperTrace> trace_;  // Present if recorder_ is.
  std::int32_t wrapper_ = -1;
  LayoutId layout_ = kNoLayout;
  std::vector<NamedVariable> trained_;
  std::vector<Tensor> increments_;
};

ManualAverage::Impl::Impl(nn::Module& model, RankContext& context, Order order)
    : model_(model), context_(context), order_(order), recorder_(context.runtime().recorder()) {
  for (const NamedVariable& named : model.named_parameters()) {
    if (named.variable.requires_grad()) trained_.push_back(named);
  }
  increments_.resize(trained_.size());
  for (std::size_t i = 0; i < trained_.size(); ++i) trained_[i].variable.add_hook(*this, i);
  if (recorder_ != nullptr) open_record();
}

ManualAverage::Impl::~Impl() {
  for (const NamedVariable& named : trained_) named.variable.remove_hook(*this);
}

void ManualAverage::Impl::open_record() {
  const std::vector<NamedVariable> parameters = model_.named_parameters();
  const std::vector<NamedVariable> buffers = model_.named_buffers();
  WrappedState state;
  state.reduced = trained_;
  state.replicated = parameters;
  state.buffers = buffers;
  state.left_alone = parameters;
  trace_.emplace(context_.runtime(), state);
  wrapper_ = trace_->wrapper();
  std::vector<NameId> names;
  for (const NamedVariable& named : trained_) names.push_back(named.variable.state().name);
  layout_ = recorder_->names().intern_layout(names);
  trace_->record_wrap(
      {.group = context_.world().id(), .n_ranks = context_.world_size(), .synchronizes = false},
      BufferPolicy::kLocal);
  trace_->record_state(StatePoint::kWrap);
}

Variable ManualAverage::Impl::forward(const Variable& x) {
  if (trace_) {
    const bool grad = context_.runtime().grad_enabled();
    trace_->begin_forward(true, grad);
    trace_->record_forward({.through_wrapper = true,
                            .synchronizing = order_ != Order::kNone,
                            .training = model_.is_training(),
                            .grad = grad},
                           context_.runtime());
    if (recorder_->position(wrapper_).sync == 0) trace_->record_state(StatePoint::kForward);
  }
  return model_.forward(x);
}

std::vector<Tensor> ManualAverage::Impl::current_grads() const {
  std::vector<Tensor> grads;
  for (const NamedVariable& named : trained_) grads.push_back(named.variable.grad());
  return grads;
}

void ManualAverage::Impl::record_grads(GradPoint point, std::span<const Tensor> grads) {
  if (recorder_ != nullptr) recorder_->record_grads(point, layout_, grads, wrapper_);
}

// grad := all_reduce(grad) / N, one collective per parameter: the textbook loop.
void ManualAverage::Impl::average_all() {
  const std::size_t n = trained_.size();
  for (std::size_t i = 0; i < n; ++i) {
    average(trained_[order_ == Order::kArrival ? n - 1 - i : i]);
  }
}

void ManualAverage::Impl::average(const NamedVariable& named) {
  if (!named.variable.grad().defined()) {
    const Tensor& data = named.variable.data();
    named.variable.set_grad(Tensor::zeros(data.runtime(), data.shape(), data.dtype()));
  }
  const Tensor& grad = named.variable.grad();
  LayoutDigest layout;
  layout.add(named.name, 0);
  OpOptions options;
  options.layout = layout.value();
  context_.world().all_reduce(Memory::of(grad), ReduceOp::kSum, options).wait_or_throw();
  context_.runtime().kernels().div_scalar(grad, grad, context_.world_size());
}

void ManualAverage::Impl::after_backward(bool last_micro) {
  record_grads(GradPoint::kInc, increments_);
  for (Tensor& increment : increments_) increment = Tensor();
  const bool reduce = order_ != Order::kNone && last_micro;
  if (reduce) {
    record_grads(GradPoint::kPre, current_grads());
    average_all();
    record_grads(GradPoint::kPost, current_grads());
  }
  if (recorder_ != nullptr) recorder_->record(BackwardEvent{.reduced = reduce}, wrapper_);
}

ManualAverage::ManualAverage(nn::Module& model, RankContext& context, Order order)
    : impl_(std::make_unique<Impl>(model, context, order)) {}

ManualAverage::~ManualAverage() = default;

std::int32_t ManualAverage::wrapper() const { return impl_->wrapper(); }

Variable ManualAverage::forward(const Variable& x) { return impl_->forward(x); }

void ManualAverage::after_backward(bool last_micro) { impl_->after_backward(last_micro); }

}  // namespace lockstep
