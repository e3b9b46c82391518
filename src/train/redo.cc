#include "lockstep/train/redo.h"

#include <algorithm>

#include "lockstep/models/gpt.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/detail/not_recorded.h"
#include "lockstep/trace/recorder.h"
#include "lockstep/train/rank_program.h"

namespace lockstep {

Redo::Redo(const Job& job, RankContext& context, nn::Module& model, std::int32_t wrapper)
    : job_(job),
      context_(context),
      model_(model),
      wrapper_(wrapper),
      copy_(build_model(job.model, context.runtime(), context.rank())) {
  NameTable& names = context_.runtime().recorder()->names();
  const std::vector<std::string>& ignored = job_.ddp.options.ignored;
  std::vector<NameId> layout;
  for (const NamedVariable& named : copy_->named_parameters()) {
    const bool local = std::find(ignored.begin(), ignored.end(), named.name) != ignored.end();
    if (local || !named.variable.requires_grad()) continue;
    trained_.push_back(named.variable);
    layout.push_back(names.intern(named.name));
  }
  layout_ = names.intern_layout(layout);
}

void Redo::before_forward() {
  if (auto* gpt = dynamic_cast<nn::Gpt*>(&model_)) masks_ = gpt->dropout_generator();
}

void Redo::repeat(const Batch& batch, double denominator, double output_factor, Stepper& stepper) {
  const NotRecorded guard(context_.runtime());
  const std::vector<Variable> now = model_.parameters();
  const std::vector<Variable> then = copy_->parameters();
  Kernels& kernels = context_.runtime().kernels();
  for (std::size_t i = 0; i < now.size(); ++i) kernels.copy(then[i].data(), now[i].data());
  copy_->train(model_.is_training());
  copy_->zero_grad();
  if (auto* gpt = dynamic_cast<nn::Gpt*>(copy_.get())) gpt->dropout_generator() = *masks_;

  Variable loss;
  {
    const AutocastGuard autocast(context_.runtime(), job_.autocast);
    const Variable output = copy_->forward(Variable(batch.x));
    loss = micro_loss(job_, output, batch, denominator, output_factor);
  }
  stepper.scaled(loss).backward(false, {});

  std::vector<Tensor> grads;
  grads.reserve(trained_.size());
  for (const Variable& variable : trained_) grads.push_back(variable.grad());
  guard.recorder()->record_grads(GradPoint::kRedo, layout_, grads, wrapper_);
}

}  // namespace lockstep
