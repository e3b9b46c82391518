#include <cmath>
#include <fmt/core.h>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/node.h"
#include "lockstep/autograd/saved_tensor.h"
#include "lockstep/functional/detail/operands.h"
#include "lockstep/functional/functions.h"
#include "lockstep/functional/layer_functions.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {
namespace {

using LossForward = void (Kernels::*)(Kernels::Out out,
                                      Kernels::In x,
                                      Kernels::In target,
                                      double denominator);
using LossBackward = void (Kernels::*)(Kernels::Out out,
                                       Kernels::In grad_out,
                                       Kernels::In saved,
                                       Kernels::In target,
                                       double denominator);

/// What is in the trace about a loss.
struct LossTerms {
  const char* function;
  std::int64_t n_terms;
};

/// A number that no transfer owns.
double value_of(const Tensor& number) {
  return number.dtype() == DType::kF32 ? double{*number.read<float>()} : number.at(0);
}

/// The whole number, two or more, by whose inverse a program has multiplied a loss, as far as its gradient shows
/// that; else 1.
double divisor_of(const Tensor& grad) {
  constexpr double kLargest = 1'000'000.0;
  const double slope = value_of(grad);
  if (slope <= 0.0 || slope > 0.5) return 1.0;
  const double divisor = std::round(1.0 / slope);
  const bool exact =
      1.0 / divisor == slope || (grad.dtype() == DType::kF32 &&
                                 static_cast<float>(1.0 / divisor) == static_cast<float>(slope));
  return exact && divisor <= kLargest ? divisor : 1.0;
}

/// A backward reaches a loss that the program has divided by a number since.
void note_division(Runtime& runtime,
                   const Tensor& grad,
                   const LossTerms& terms,
                   double denominator) {
  Recorder* const recorder = runtime.recorder();
  if (recorder == nullptr || !recorder->options().losses) return;
  const double divisor = divisor_of(grad);
  if (divisor == 1.0) return;
  recorder->record(LossEvent{.function = recorder->literal(terms.function),
                             .reduction = LossReduction::kGiven,
                             .denominator = denominator * divisor,
                             .n_terms = terms.n_terms},
                   recorder->current_wrapper());
}

// A loss whose backward needs one tensor of the shape of x, and the target.
template <LossBackward kBackward>
class LossNode final : public Node {
 public:
  LossNode(const Tensor& saved, const Tensor& target, double denominator, const LossTerms& terms)
      : saved_(saved), target_(target), denominator_(denominator), terms_(terms) {}

  void run(Tensor&& grad) override {
    note_division(runtime(), grad, terms_, denominator_);
    const Tensor& saved = saved_.get();
    Tensor dx = Tensor::empty(runtime(), saved.shape(), saved.dtype());
    (kernels().*kBackward)(dx, grad, saved, target_.get(), denominator_);
    send(0, std::move(dx));
  }

  void release_saved() override {
    saved_.reset();
    target_.reset();
  }

 private:
  SavedTensor saved_;
  SavedTensor target_;
  double denominator_;
  LossTerms terms_;
};

struct LossInputs {
  const Variable& x;
  const Tensor& saved;
  const Tensor& target;
  double denominator;
};

LossReduction reduction_of(const LossTerms& terms, double denominator) {
  if (denominator == static_cast<double>(terms.n_terms)) return LossReduction::kMean;
  return denominator == 1.0 ? LossReduction::kSum : LossReduction::kGiven;
}

void note(const Tensor& out, const LossInputs& in, const LossTerms& terms, bool grad) {
  Recorder* const recorder = in.x.runtime().recorder();
  if (recorder == nullptr || !recorder->options().losses) return;
  const Shape& shape = in.x.shape();
  recorder->record(LossEvent{.function = recorder->literal(terms.function),
                             .reduction = reduction_of(terms, in.denominator),
                             .value = value_of(out),
                             .denominator = in.denominator,
                             .n_terms = terms.n_terms,
                             .n_rows = shape.n_dims() == 0 ? 1 : shape[0],
                             .grad = grad},
                   recorder->current_wrapper());
  StateSource* const model = recorder->source(recorder->current_wrapper());
  if (grad && model != nullptr) model->record_target(in.target);
}

template <LossBackward kBackward>
Variable record_loss(Tensor&& out, const LossInputs& in, const LossTerms& terms) {
  const bool grad = Node::records({&in.x});
  note(out, in, terms, grad);
  if (!grad) return Node::attach(std::move(out), {});
  const auto node =
      Node::make<LossNode<kBackward>>(in.x.runtime(), in.saved, in.target, in.denominator, terms);
  node->connect(0, in.x);
  return Node::attach(std::move(out), node);
}

struct Compared {
  Variable x;
  Tensor target;
};

/// Both in the dtype to which PyTorch promotes them; integers stay, for kernels to refuse.
Compared in_one_dtype(const Variable& x, const Tensor& target) {
  if (!is_floating(target.dtype())) return {x, target};
  const DType dtype = detail::promoted(x.data().dtype(), detail::raised_dtype(target));
  return {cast(x, dtype), target.to(dtype)};
}

template <LossForward kForward, LossBackward kBackward>
Variable element_loss(const char* function,
                      const Variable& given,
                      const Tensor& given_target,
                      double denominator) {
  LOCKSTEP_CHECK(given.shape() == given_target.shape(),
                 "the loss compares " + given.shape().text() + " with a target of " +
                     given_target.shape().text());
  const auto [x, target] = in_one_dtype(detail::raised(given), given_target);
  Tensor out = Tensor::empty(x.runtime(), {}, x.data().dtype());
  (x.runtime().kernels().*kForward)(out, x.data(), target, denominator);
  return record_loss<kBackward>(
      std::move(out), {x, x.data(), target, denominator}, {function, x.data().n_elems()});
}

double count(std::int64_t n) { return static_cast<double>(n); }

void check_labels(const Variable& scores, const Tensor& labels) {
  LOCKSTEP_CHECK(scores.shape().n_dims() == 2 && labels.shape() == Shape({scores.shape()[0]}),
                 fmt::format("cross entropy needs one label per row of {}, not {}",
                             scores.shape().text(),
                             labels.shape().text()));
}

struct RowWeights {
  Tensor negative;     ///< (B, 1): minus the weight of each row's class.
  double total = 0.0;  ///< Of all rows.
};

RowWeights weigh(const Variable& scores,
                 std::span<const std::int64_t> labels,
                 const Tensor& class_weights) {
  const std::int64_t n_classes = scores.shape()[1];
  LOCKSTEP_CHECK(class_weights.shape() == Shape({n_classes}),
                 fmt::format("weight tensor should be defined either for all {} classes or no "
                             "classes but got weight tensor of shape: {}",
                             n_classes,
                             class_weights.shape().text()));
  RowWeights rows;
  std::vector<double> negative;
  for (const std::int64_t label : labels) {
    LOCKSTEP_CHECK(label >= 0 && label < n_classes,
                   fmt::format("Target {} is out of bounds.", label));
    negative.push_back(-class_weights.at(label));
    rows.total -= negative.back();
  }
  const Shape shape{static_cast<std::int64_t>(negative.size()), 1};
  rows.negative = Tensor::of(scores.runtime(), shape, scores.data().dtype(), negative);
  return rows;
}

/// The place of each row's label in all of (B, C).
Tensor places_of(const Variable& scores, std::span<const std::int64_t> labels) {
  const Tensor places =
      Tensor::empty(scores.runtime(), {static_cast<std::int64_t>(labels.size())}, DType::kI64);
  auto* const to = places.write<std::int64_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    to[i] = static_cast<std::int64_t>(i) * scores.shape()[1] + labels[i];
  }
  return places;
}

/// The reduction is that of a mean without a denominator: it is another one on each rank, as samples are.
void note_weighted(const Variable& loss,
                   const Variable& scores,
                   const Tensor& labels,
                   const Tensor& class_weights) {
  Recorder* const recorder = scores.runtime().recorder();
  if (recorder == nullptr || !recorder->options().losses) return;
  const std::uint64_t digest =
      sm64(class_weights.read_raw(), class_weights.n_elems(), class_weights.dtype());
  const std::string function =
      fmt::format("cross_entropy with class weights #{:08x}", digest >> 32U);
  recorder->record(LossEvent{.function = recorder->names().intern(function),
                             .reduction = LossReduction::kMean,
                             .value = value_of(loss.data()),
                             .n_terms = labels.n_elems(),
                             .n_rows = labels.n_elems(),
                             .grad = loss.requires_grad()},
                   recorder->current_wrapper());
  StateSource* const model = recorder->source(recorder->current_wrapper());
  if (loss.requires_grad() && model != nullptr) model->record_target(labels);
}

}  // namespace

Variable mse_loss(const Variable& x, const Tensor& target) {
  return mse_loss(x, target, count(x.data().n_elems()));
}

Variable mse_loss(const Variable& x, const Tensor& target, double denominator) {
  return element_loss<&Kernels::mse, &Kernels::mse_backward>("mse_loss", x, target, denominator);
}

Variable l1_loss(const Variable& x, const Tensor& target) {
  return l1_loss(x, target, count(x.data().n_elems()));
}

Variable l1_loss(const Variable& x, const Tensor& target, double denominator) {
  return element_loss<&Kernels::l1, &Kernels::l1_backward>("l1_loss", x, target, denominator);
}

Variable cross_entropy(const Variable& x, const Tensor& labels) {
  return cross_entropy(x, labels, count(labels.n_elems()));
}

Variable cross_entropy(const Variable& x, const Tensor& labels, double denominator) {
  const Variable scores = detail::raised(x);
  check_labels(scores, labels);
  Runtime& runtime = scores.runtime();
  Tensor out = Tensor::empty(runtime, {}, scores.data().dtype());
  const Tensor log_probs = Tensor::empty(runtime, scores.shape(), scores.data().dtype());
  runtime.kernels().cross_entropy(out, log_probs, scores.data(), labels, denominator);
  return record_loss<&Kernels::cross_entropy_backward>(std::move(out),
                                                       {scores, log_probs, labels, denominator},
                                                       {"cross_entropy", labels.n_elems()});
}

// Picked rather than multiplied by zeros: a score of minus infinity has that as its logarithm, too.
Variable cross_entropy(const Variable& x,
                       const Tensor& labels,
                       const Tensor& class_weights,
                       Reduction reduction) {
  const Variable scores = detail::raised(x);
  check_labels(scores, labels);
  const auto given = labels.read_span<std::int64_t>();
  const RowWeights rows = weigh(scores, given, class_weights);
  const Variable all = reshape(log_softmax(scores), {scores.data().n_elems(), 1});
  Variable loss = sum(mul(embedding(all, places_of(scores, given)), Variable(rows.negative)));
  if (reduction == Reduction::kMean) loss = div(loss, rows.total);
  note_weighted(loss, scores, labels, class_weights);
  return loss;
}

}  // namespace lockstep
