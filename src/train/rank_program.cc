#include "lockstep/train/rank_program.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/collectives/join.h"
#include "lockstep/data/dataset.h"
#include "lockstep/parallel/zero.h"
#include "lockstep/train/augmentation.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/micro_step.h"
#include "lockstep/train/rank_epoch.h"
#include "lockstep/train/redo.h"
#include "lockstep/train/snapshots/snapshot.h"
#include "lockstep/train/stepper.h"
#include "lockstep/train/wrapping/wrapped_model.h"

namespace lockstep {

namespace {

/// All ranks wait for one another, where the job wants that before `place`.
void meet_before(BarrierPlace place,
                 const Job& job,
                 RankContext& context,
                 const CallSite& site = CallSite::here()) {
  const std::vector<BarrierPlace>& barriers = job.loop.barriers;
  if (std::find(barriers.begin(), barriers.end(), place) == barriers.end()) return;
  context.world().barrier({.site = site}).wait_or_throw();
}

void record_epoch(const RankEpoch& order,
                  std::int64_t epoch,
                  const Job& job,
                  RankContext& context) {
  context.annotate().epoch({.epoch = epoch,
                            .sampler = name_of(job.loader.sampler),
                            .dataset_size = order.dataset_size,
                            .n_replicas = order.n_replicas,
                            .per_rank = static_cast<std::int64_t>(order.ids.size()),
                            .shuffle = job.loader.shuffle,
                            .drop_last = job.loader.drop_last,
                            .pads = order.pads,
                            .generator_key = order.generator_key,
                            .order_digest = order.order_digest});
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
                          : std::make_unique<Augmentation>(job, context)),
        wrapped_(job, context) {
    state_.job = &job;
    state_.context = &context;
    state_.model = &wrapped_.model();
  }

  RankOutcomeValues run();

 private:
  void wrap();
  LoopPlace start();
  void end_epoch();
  std::optional<Join> join_context();
  bool run_epoch(std::int64_t epoch, std::int64_t first_batch);
  void optimizer_step(const RankEpoch& order, std::size_t& batch, std::size_t& at);
  void save_if_due(const RankEpoch& order, std::size_t batch);
  void micro_step(const RowSpan& rows, bool last_micro);
  Variable forward(const Variable& x, bool last_micro);
  void record_batch(std::span<const std::int64_t> ids, const Batch& batch, double denominator);

  bool done() const { return job_.loop.steps && state_.step >= *job_.loop.steps; }

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
  WrappedModel wrapped_;
  std::optional<Stepper> stepper_;
  std::optional<Snapshots> snapshots_;
  std::optional<Redo> redo_;
  double last_loss_ = 0.0;
  std::vector<std::int64_t> last_batch_;  // Rows of the last micro-step.
};

void Loop::wrap() {
  hooked(LoopPoint::kWrap, [this] {
    wrapped_.wrap();
    state_.ddp = wrapped_.ddp();
  });
  LOCKSTEP_CHECK(wrapped_.is_wrapped(),
                 "a hook may not leave out the wrapping; set ddp.wrap = false");
  nn::Module& model = wrapped_.model();
  stepper_.emplace(job_, model, context_.world());
  state_.optimizer = &stepper_->optimizer();
  if (job_.loop.redo && context_.annotate().on()) {
    redo_.emplace(job_, context_, model, wrapped_.wrapper());
  }
}

Variable Loop::forward(const Variable& x, bool last_micro) {
  Variable output;
  state_.through_wrapper = job_.loop.forward != ForwardThrough::kInner;
  hooked(LoopPoint::kForward, [&] {
    output = wrapped_.forward(x, state_.through_wrapper, last_micro || !job_.loop.no_sync);
  });
  return output;
}

void Loop::record_batch(std::span<const std::int64_t> ids, const Batch& batch, double denominator) {
  const Annotations record = context_.annotate();
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
    stepper_->scaled(loss).backward(false, {});
    stepper_->clip_before_sync();
    if (ManualAverage* const manual = wrapped_.manual()) manual->after_backward(last_micro);
  });
  if (redo_) redo_->repeat(batch, denominator, factor, *stepper_);
  last_loss_ = loss.item();
  outcome_.n_samples += batch.n_samples;
  last_batch_.assign(ids.begin(), ids.end());
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
  meet_before(BarrierPlace::kStep, job_, context_);
  hooked(LoopPoint::kStep, [this] { stepper_->step(); });
  stepper_->end_step(last_loss_);
  outcome_.losses.push_back(last_loss_);
  ++outcome_.n_steps;
  ++state_.step;
}

// A rank without batches shadows the others until all have none.
std::optional<Join> Loop::join_context() {
  if (!job_.loop.join) return std::nullopt;
  LOCKSTEP_CHECK(wrapped_.ddp() != nullptr, "a join context shadows a wrapper's collectives");
  std::vector<Joinable*> joinables = {wrapped_.ddp()};
  auto* zero = dynamic_cast<ZeroRedundancyOptimizer*>(&stepper_->optimizer());
  if (zero != nullptr) joinables.push_back(zero);
  return Join(std::move(joinables), *job_.loop.join);
}

bool Loop::run_epoch(std::int64_t epoch, std::int64_t first_batch) {
  state_.epoch = epoch;
  hooked(LoopPoint::kEpoch, [] {});
  RankEpoch order = loader_.plan(state_.sampler_epoch);
  record_epoch(order, state_.epoch, job_, context_);
  if (augmentation_) order.signs = augmentation_->signs(order.ids);
  std::size_t batch = 0;
  std::size_t at = 0;
  for (; batch < order.batch_sizes.size() && std::cmp_less(batch, first_batch); ++batch) {
    at += static_cast<std::size_t>(order.batch_sizes[batch]);
  }
  meet_before(BarrierPlace::kEpoch, job_, context_);
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

void Loop::save_if_due(const RankEpoch& order, std::size_t batch) {
  if (!snapshots_ || !snapshots_->due(state_.step)) return;
  const bool ended = batch >= order.batch_sizes.size();
  meet_before(BarrierPlace::kSave, job_, context_);
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
  const SnapshotSubjects subjects{.model = &wrapped_.model(),
                                  .stepper = &*stepper_,
                                  .hook = wrapped_.hook(),
                                  .augmentation = augmentation_.get()};
  snapshots_.emplace(job_, context_, subjects, wrapped_.wrapper());
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
    meet_before(BarrierPlace::kEval, job_, context_);
    hooked(LoopPoint::kEval, [&] {
      outcome_.evals.push_back(evaluate(job_,
                                        wrapped_.model(),
                                        context_,
                                        {.epoch = state_.epoch, .last_batch = last_batch_},
                                        wrapped_.ddp()));
    });
  }
  std::optional<double> metric;
  if (outcome_.evals.size() > n_evals) metric = outcome_.evals.back().value;
  meet_before(BarrierPlace::kSchedule, job_, context_);
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
  context_.annotate().phase(PhaseKind::kEnd);
  return std::move(outcome_);
}

}  // namespace

RankOutcomeValues run_job(const Job& job, RankContext& context, std::span<LoopHook* const> hooks) {
  LOCKSTEP_CHECK(job.train != nullptr, "a job needs a data set");
  return Loop(job, context, hooks).run();
}

}  // namespace lockstep
