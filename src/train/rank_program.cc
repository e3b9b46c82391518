#include "lockstep/train/rank_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/collectives/join.h"
#include "lockstep/data/dataset.h"
#include "lockstep/hooks/hook_catalog.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/train/augmentation.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/manual_average.h"
#include "lockstep/train/micro_step.h"
#include "lockstep/train/rank_epoch.h"
#include "lockstep/train/redo.h"
#include "lockstep/train/snapshot.h"
#include "lockstep/train/stepper.h"

namespace lockstep {

namespace {

ManualAverage::Order order_of(const DdpSpec& spec) {
  if (spec.average != AverageBy::kManual) return ManualAverage::Order::kNone;
  const bool by_model = spec.average_order == AverageOrder::kModel;
  return by_model ? ManualAverage::Order::kModel : ManualAverage::Order::kArrival;
}

// The loop of one rank. Its methods are the paragraphs of a training script.
class Loop {
 public:
  Loop(const Job& job, RankContext& context, std::span<LoopHook* const> hooks)
      : job_(job),
        context_(context),
        hooks_(hooks),
        loader_(job, context),
        augmentation_(job.loader.augment.stream == AugmentStream::kNone
                          ? nullptr
                          : std::make_unique<Augmentation>(job, context)) {
    state_.job = &job;
    state_.context = &context;
  }

  RankOutcomeValues run();

 private:
  void wrap();
  void register_hook();
  LoopPlace start();
  void end_epoch();
  std::optional<Join> join_context();
  bool run_epoch(std::int64_t epoch, std::int64_t first_batch);
  void optimizer_step(const RankEpoch& order, std::size_t& batch, std::size_t& at);
  void save_if_due(const RankEpoch& order, std::size_t batch);
  void micro_step(const RowSpan& rows, bool last_micro);
  Variable forward(const Variable& x, bool last_micro);
  void record_epoch(const RankEpoch& order);
  void record_batch(std::span<const std::int64_t> ids, const Batch& batch, double denominator);
  void record_end();

  bool done() const { return job_.loop.steps && state_.step >= *job_.loop.steps; }

  std::int32_t wrapper() const { return ddp_ ? ddp_->wrapper() : manual_->wrapper(); }

  template <typename F>
  void hooked(LoopPoint point, F&& body) {
    state_.skip = false;
    for (LoopHook* hook : hooks_) hook->before(point, state_);
    if (!state_.skip) body();
    for (LoopHook* hook : hooks_) hook->after(point, state_);
  }

  const Job& job_;
  RankContext& context_;
  std::span<LoopHook* const> hooks_;
  RankLoader loader_;
  std::unique_ptr<Augmentation> augmentation_;
  LoopState state_;
  RankOutcomeValues outcome_;
  std::unique_ptr<nn::Module> model_;
  std::unique_ptr<CommHook> comm_hook_;  // Outlives ddp_.
  std::unique_ptr<DistributedDataParallel<nn::Module>> ddp_;
  std::unique_ptr<ManualAverage> manual_;
  std::optional<Stepper> stepper_;
  std::optional<Snapshots> snapshots_;
  std::optional<Redo> redo_;
  double last_loss_ = 0.0;
};

void Loop::wrap() {
  model_ = build_model(job_.model, context_.runtime(), context_.rank());
  state_.model = model_.get();
  hooked(LoopPoint::kWrap, [this] {
    if (job_.ddp.wrap) {
      ddp_ = std::make_unique<DistributedDataParallel<nn::Module>>(
          *model_, context_.world(), job_.ddp.options);
      register_hook();
      state_.ddp = ddp_.get();
    } else {
      manual_ = std::make_unique<ManualAverage>(*model_, context_, order_of(job_.ddp));
    }
  });
  LOCKSTEP_CHECK(ddp_ || manual_, "a hook may not leave out the wrapping; set ddp.wrap = false");
  stepper_.emplace(job_, *model_, context_.world());
  state_.optimizer = &stepper_->optimizer();
  if (job_.loop.redo && context_.record().on()) redo_.emplace(job_, context_, *model_, wrapper());
}

void Loop::register_hook() {
  if (job_.ddp.hook.kind == HookKind::kNone) return;
  Result<std::unique_ptr<CommHook>> hook = make_comm_hook(job_.ddp.hook, context_.world());
  LOCKSTEP_CHECK(hook.ok(), hook.error().message);
  comm_hook_ = std::move(hook).value();
  ddp_->register_comm_hook(*comm_hook_);
}

Variable Loop::forward(const Variable& x, bool last_micro) {
  Variable output;
  state_.through_wrapper = job_.loop.forward != ForwardThrough::kInner;
  hooked(LoopPoint::kForward, [&] {
    if (!ddp_) {
      output = manual_->forward(x);
    } else if (!state_.through_wrapper) {
      output = model_->forward(x);
    } else if (job_.loop.no_sync && !last_micro) {
      const NoSync guard(*ddp_);
      output = (*ddp_)(x);
    } else {
      output = (*ddp_)(x);
    }
  });
  return output;
}

void Loop::record_batch(std::span<const std::int64_t> ids, const Batch& batch, double denominator) {
  const ProgramRecord record = context_.record();
  if (!record.on()) return;
  record.batch({.n_samples = batch.n_samples,
                .n_tokens = batch.n_tokens,
                .denominator = denominator,
                .declared = name_of(job_.loss.declared)});
  std::vector<std::int64_t> rows(ids.begin(), ids.end());
  if (!job_.train_ids.empty()) {
    for (std::int64_t& id : rows) id = job_.train_ids[static_cast<std::size_t>(id)];
  }
  record.samples(rows);
}

void Loop::micro_step(const RowSpan& rows, bool last_micro) {
  const std::span<const std::int64_t> ids = rows.ids;
  Batch batch = make_batch(job_, *job_.train, context_.runtime(), ids);
  if (!rows.signs.empty()) change_signs(batch, rows.signs);
  const double denominator = loss_denominator(job_, batch, context_);
  weigh_rows(job_, *job_.train, batch, ids, denominator);
  if (redo_) redo_->before_forward();
  const double factor =
      job_.exact.on && job_.exact.scale_loss_by_world ? context_.world_size() : 1.0;
  Variable loss;
  {
    const AutocastGuard autocast(context_.runtime(), job_.autocast);
    const Variable output = forward(Variable(batch.x), last_micro);
    record_batch(ids, batch, denominator);
    if (!output.defined()) return;
    loss = micro_loss(job_, output, batch, denominator, factor);
  }
  hooked(LoopPoint::kBackward, [&] {
    stepper_->scaled(loss).backward();
    stepper_->clip_before_sync();
    if (manual_) manual_->after_backward(last_micro);
  });
  if (redo_) redo_->repeat(batch, denominator, factor, *stepper_);
  last_loss_ = loss.item();
  outcome_.n_samples += batch.n_samples;
  ++state_.micro;
}

void Loop::optimizer_step(const RankEpoch& order, std::size_t& batch, std::size_t& at) {
  hooked(LoopPoint::kZeroGrad, [this] {
    if (job_.loop.zero_grad != ZeroGrad::kNever)
      stepper_->optimizer().zero_grad(job_.loop.zero_grad == ZeroGrad::kNone);
  });
  state_.micro = 0;
  const auto n_left = order.batch_sizes.size() - batch;
  const auto n_wanted = static_cast<std::size_t>(job_.loop.accumulate);
  const auto n_micro = std::min(n_wanted, n_left);
  const bool drops = job_.loop.rest == WindowRest::kDrop && n_micro < n_wanted;
  for (std::size_t i = 0; i < n_micro; ++i, ++batch) {
    const auto size = static_cast<std::size_t>(order.batch_sizes[batch]);
    micro_step(order.rows(at, size), !drops && i + 1 == n_micro);
    at += size;
  }
  if (drops) return;
  hooked(LoopPoint::kStep, [this] { stepper_->step(); });
  stepper_->end_step(last_loss_);
  outcome_.losses.push_back(last_loss_);
  ++outcome_.n_steps;
  ++state_.step;
}

void Loop::record_epoch(const RankEpoch& order) {
  context_.record().epoch({.epoch = state_.epoch,
                           .sampler = name_of(job_.loader.sampler),
                           .dataset_size = order.dataset_size,
                           .n_replicas = order.n_replicas,
                           .per_rank = static_cast<std::int64_t>(order.ids.size()),
                           .shuffle = job_.loader.shuffle,
                           .drop_last = job_.loader.drop_last,
                           .pads = order.pads,
                           .generator_key = order.generator_key,
                           .order_digest = order.order_digest});
}

// A rank without batches shadows the others until all have none.
std::optional<Join> Loop::join_context() {
  if (!job_.loop.join) return std::nullopt;
  LOCKSTEP_CHECK(ddp_ != nullptr, "a join context shadows a wrapper's collectives");
  std::vector<Joinable*> joinables = {ddp_.get()};
  auto* zero = dynamic_cast<ZeroRedundancyOptimizer*>(&stepper_->optimizer());
  if (zero != nullptr) joinables.push_back(zero);
  return Join(std::move(joinables), *job_.loop.join);
}

bool Loop::run_epoch(std::int64_t epoch, std::int64_t first_batch) {
  state_.epoch = epoch;
  hooked(LoopPoint::kEpoch, [] {});
  RankEpoch order = loader_.plan(state_.sampler_epoch);
  record_epoch(order);
  if (augmentation_) order.signs = augmentation_->signs(order.ids);
  std::size_t batch = 0;
  std::size_t at = 0;
  for (; batch < order.batch_sizes.size() && std::cmp_less(batch, first_batch); ++batch) {
    at += static_cast<std::size_t>(order.batch_sizes[batch]);
  }
  std::optional<Join> join = join_context();
  while (batch < order.batch_sizes.size() && !done()) {
    optimizer_step(order, batch, at);
    save_if_due(order, batch);
  }
  if (join) join->finish();
  // Where no epoch fills a window and rests are dropped, no epoch will ever bring a step.
  const bool starved = job_.loop.rest == WindowRest::kDrop &&
                       std::cmp_less(order.batch_sizes.size(), job_.loop.accumulate);
  return join || (!order.batch_sizes.empty() && !starved);
}

void Loop::record_end() { context_.record().phase(PhaseKind::kEnd); }

void Loop::save_if_due(const RankEpoch& order, std::size_t batch) {
  if (!snapshots_ || !snapshots_->due(state_.step)) return;
  const bool ended = batch >= order.batch_sizes.size();
  hooked(LoopPoint::kSave, [&] {
    snapshots_->save({.step = state_.step,
                      .epoch = state_.epoch,
                      .batch = ended ? LoopPlace::kEndOfEpoch : static_cast<std::int64_t>(batch),
                      .last_loss = last_loss_});
  });
}

// Everything up to the first epoch. Returns where to begin: the very start, or where a snapshot was
// taken.
LoopPlace Loop::start() {
  wrap();
  if (job_.loop.snapshot.every_steps <= 0) return {};
  const SnapshotSubjects subjects{.model = model_.get(),
                                  .stepper = &*stepper_,
                                  .hook = comm_hook_.get(),
                                  .augmentation = augmentation_.get()};
  snapshots_.emplace(job_, context_, subjects, wrapper());
  const LoopPlace place = snapshots_->resume().value_or(LoopPlace{});
  state_.step = outcome_.first_step = place.step;
  last_loss_ = place.last_loss;
  loader_.skip_to(place.epoch);
  return place;
}

void Loop::end_epoch() {
  const std::size_t n_evals = outcome_.evals.size();
  const std::int64_t every = job_.loop.eval.every_epochs;
  if (every > 0 && (state_.epoch + 1) % every == 0 && job_.holdout) {
    hooked(LoopPoint::kEval, [&] {
      outcome_.evals.push_back(evaluate(job_, *model_, context_, state_.epoch, ddp_.get()));
    });
  }
  std::optional<double> metric;
  if (outcome_.evals.size() > n_evals) metric = outcome_.evals.back().value;
  stepper_->end_epoch(last_loss_, metric);
}

RankOutcomeValues Loop::run() {
  const LoopPlace place = start();
  const bool by_steps = job_.loop.steps.has_value();
  std::int64_t first_batch = place.batch;
  for (std::int64_t epoch = place.epoch; by_steps ? !done() : epoch < job_.loop.epochs; ++epoch) {
    state_.sampler_epoch = job_.loader.set_epoch ? job_.loader.first_epoch + epoch : 0;
    if (!run_epoch(epoch, std::exchange(first_batch, 0))) break;
    end_epoch();
  }
  hooked(LoopPoint::kEnd, [] {});
  record_end();
  return std::move(outcome_);
}

}  // namespace

RankOutcomeValues run_job(const Job& job, RankContext& context, std::span<LoopHook* const> hooks) {
  LOCKSTEP_CHECK(job.train != nullptr, "a job needs a data set");
  return Loop(job, context, hooks).run();
}

}  // namespace lockstep
