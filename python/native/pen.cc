#include "lockstep/python/native/pen.h"

#include <algorithm>
#include <chrono>

#include "lockstep/base/check.h"
#include "lockstep/tensor/digest.h"

namespace lockstep::python {

namespace {

/// Of the machine's monotonic clock, which its processes share.
VirtualTime now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(since).count()};
}

/// Events that every step has. None of their parts but ids and digests belongs to a caller.
constexpr EventKinds kOfEveryStep = kinds_of<ForwardEvent,
                                             BackwardEvent,
                                             LossEvent,
                                             StepEvent,
                                             SampleEvent,
                                             StateEvent,
                                             CollectiveEvent>();

/// A process that aborts writes lines, and makes none: here they are made.
constexpr EventKinds kEndsAPart = kinds_of<BackwardEvent, StepEvent>();

bool includes(EventKinds kinds, const EventBody& body) { return (kinds >> body.index() & 1U) != 0; }

bool has_sketch(GradPoint point) {
  return point == GradPoint::kInc || point == GradPoint::kPre || point == GradPoint::kPost;
}

}  // namespace

Pen::Pen(std::unique_ptr<RankFile> file, std::int32_t attempt, Rank rank, bool lazy)
    : file_(std::move(file)), attempt_(attempt), rank_(rank), lazy_(lazy) {
  if (lazy_) file_->flush_on_abort();
  position(-1);
}

Position& Pen::position(std::int32_t wrapper) {
  LOCKSTEP_CHECK(wrapper >= -1, "wrappers are numbered from 0; -1 is outside any");
  const auto place = static_cast<std::size_t>(wrapper) + 1;
  while (positions_.size() <= place) {
    Position fresh;
    fresh.attempt = attempt_;
    fresh.wrapper = static_cast<std::int32_t>(positions_.size()) - 1;
    positions_.push_back(fresh);
  }
  return positions_[place];
}

void Pen::place(std::int32_t wrapper, const Position& at) {
  Position& position = this->position(wrapper);
  position = at;
  position.attempt = attempt_;
  position.wrapper = wrapper;
}

void Pen::write(const EventBody& body, std::int32_t wrapper) {
  const Event event{rank_, next_index_++, now(), position(wrapper), body};
  if (!lazy_ || !includes(kOfEveryStep, body)) {
    write_waiting();
    file_->append(to_json_line(event, names_) + '\n');
    return;
  }
  keep_waiting(event);
  if (includes(kEndsAPart, body)) write_waiting();
}

void Pen::write_at(const Position& at, const EventBody& body, std::int32_t wrapper) {
  const Position present = position(wrapper);
  place(wrapper, at);
  write(body, wrapper);
  position(wrapper) = present;
}

void Pen::keep_waiting(const Event& event) {
  Waiting waiting{event, {}, {}};
  if (const auto* const sample = std::get_if<SampleEvent>(&event.body)) {
    waiting.ids.assign(sample->ids.begin(), sample->ids.end());
  } else if (const auto* const state = std::get_if<StateEvent>(&event.body)) {
    waiting.digests.assign(state->digests.begin(), state->digests.end());
  }
  waiting_.push_back(std::move(waiting));
}

void Pen::write_waiting() {
  for (Waiting& waiting : waiting_) {
    if (auto* const sample = std::get_if<SampleEvent>(&waiting.event.body)) {
      sample->ids = waiting.ids;
    } else if (auto* const state = std::get_if<StateEvent>(&waiting.event.body)) {
      state->digests = waiting.digests;
    }
    lines_ += to_json_line(waiting.event, names_);
    lines_ += '\n';
  }
  if (!lines_.empty()) file_->append(lines_);
  lines_.clear();
  waiting_.clear();
}

Outcome Pen::flush() {
  write_waiting();
  return file_->flush();
}

Outcome Pen::close() {
  write_waiting();
  return file_->close();
}

void Pen::track(std::int32_t wrapper, LayoutId layout) {
  Tracked& tracked = tracked_[wrapper];
  tracked.layout = layout;
  tracked.size = names_.layout(layout).size();
  for (const GradPoint point : {GradPoint::kBase, GradPoint::kInc, GradPoint::kPre}) {
    Draft& draft = tracked.drafts[static_cast<std::size_t>(point)];
    fingerprinter_.clear(draft, tracked.size, has_sketch(point));
  }
}

void Pen::note(GradNote where, std::size_t index, const TensorView& grad) {
  const auto known = tracked_.find(where.wrapper);
  LOCKSTEP_CHECK(known != tracked_.end() && index < known->second.size, "no such gradient");
  LOCKSTEP_CHECK(where.point <= GradPoint::kPre, "later points are written as a whole");
  Draft& draft = known->second.drafts[static_cast<std::size_t>(where.point)];
  fingerprinter_.set(draft, index, grad);
  fingerprinter_.launch();  // What the backward does next comes after it.
}

void Pen::note_same(GradNote where, GradPoint from, std::size_t index) {
  const auto known = tracked_.find(where.wrapper);
  LOCKSTEP_CHECK(known != tracked_.end() && index < known->second.size, "no such gradient");
  LOCKSTEP_CHECK(has_sketch(where.point) && has_sketch(from), "only sketched points are alike");
  Draft& to = known->second.drafts[static_cast<std::size_t>(where.point)];
  const Draft& source = known->second.drafts[static_cast<std::size_t>(from)];
  fingerprinter_.copy(source, to, index);
}

void Pen::write_noted(GradNote where) {
  const auto known = tracked_.find(where.wrapper);
  if (known == tracked_.end()) return;
  Draft& draft = known->second.drafts[static_cast<std::size_t>(where.point)];
  if (!draft.started) return;
  fingerprinter_.settle(draft);
  write(draft.event(where.point, known->second.layout), where.wrapper);
  if (where.point == GradPoint::kInc) unreduced_.insert(where.wrapper);
  fingerprinter_.clear(draft, known->second.size, has_sketch(where.point));
}

void Pen::write_grads(GradNote where, LayoutId layout, std::span<const TensorView> grads) {
  LOCKSTEP_CHECK(grads.size() == names_.layout(layout).size(), "one gradient for each name");
  fingerprinter_.draw_up(scratch_, grads, has_sketch(where.point));
  if (where.point == GradPoint::kPost) {
    reduced_[where.wrapper] = {layout, scratch_.digests};
    unreduced_.erase(where.wrapper);
  }
  if (where.point == GradPoint::kUsed) {
    const auto reduced = reduced_.extract(where.wrapper);
    const bool unreduced = unreduced_.erase(where.wrapper) > 0;
    if (reduced.empty() ? unreduced : !are_as(reduced.mapped(), layout)) {
      fingerprinter_.draw_up(scratch_, grads, true);
    }
  }
  write(scratch_.event(where.point, layout), where.wrapper);
}

bool Pen::are_as(const Reduced& reduced, LayoutId layout) const {
  const std::span<const NameId> before = names_.layout(reduced.layout);
  const std::span<const NameId> now = names_.layout(layout);
  for (std::size_t i = 0; i < now.size(); ++i) {
    std::size_t at = i;
    if (at >= before.size() || before[at] != now[i]) {
      at = static_cast<std::size_t>(std::ranges::find(before, now[i]) - before.begin());
    }
    if (at < before.size() && reduced.digests[at] != scratch_.digests[i]) return false;
  }
  return true;
}

void Pen::write_data(DataEvent data, std::span<const TensorView> tensors, std::int32_t wrapper) {
  digest(tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto n_elems = static_cast<std::uint64_t>(tensors[i].n_elems);
    data.digest = mix64(data.digest ^ mix64(scratch_.digests[i] ^ n_elems));
  }
  write(data, wrapper);
}

void Pen::write_input(NameId argument,
                      const TensorView& tensor,
                      std::int64_t n_rows,
                      std::int32_t wrapper) {
  LOCKSTEP_CHECK(n_rows > 0 && tensor.n_elems % n_rows == 0, "rows have equally many elements");
  const std::int64_t n_each = tensor.n_elems / n_rows;
  std::vector<std::uint64_t> rows(static_cast<std::size_t>(n_rows));
  digest_rows(tensor.data, n_each * size_of(tensor.dtype), rows);
  write(InputEvent{.argument = argument, .dtype = tensor.dtype, .n_elems = n_each, .rows = rows},
        wrapper);
}

void Pen::write_states(const StateEvent& state,
                       std::span<const TensorView> tensors,
                       std::int32_t wrapper) {
  const std::span<const NameId> names = names_.layout(state.layout);
  LOCKSTEP_CHECK(tensors.size() == names.size(), "one tensor for each name");
  digest(tensors);
  if (state.kind == StateKind::kParam) looks_[wrapper].parameters.keep(names, scratch_.digests);
  StateEvent full = state;
  full.digests = scratch_.digests;
  write(full, wrapper);
}

void Pen::write_found(LayoutId layout,
                      std::span<const TensorView> parameters,
                      std::int32_t wrapper) {
  const std::span<const NameId> names = names_.layout(layout);
  LOCKSTEP_CHECK(parameters.size() == names.size(), "one tensor for each name");
  digest(parameters);
  detail::LastDigests& last = looks_[wrapper].parameters;
  std::vector<NameId> changed;
  std::vector<std::uint64_t> digests;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!last.differs(names, i, scratch_.digests[i])) continue;
    changed.push_back(names[i]);
    digests.push_back(scratch_.digests[i]);
  }
  if (changed.empty()) return;
  last.keep(changed, digests);
  write(StateEvent{.kind = StateKind::kParam,
                   .point = StatePoint::kFound,
                   .layout = names_.intern_layout(changed),
                   .digests = digests},
        wrapper);
}

void Pen::look_at_buffers(LayoutId layout,
                          std::span<const TensorView> buffers,
                          std::int32_t wrapper) {
  LOCKSTEP_CHECK(buffers.size() == names_.layout(layout).size(), "one tensor for each name");
  digest(buffers);
  looks_[wrapper].buffers = scratch_.digests;
}

void Pen::write_replaced(LayoutId layout,
                         std::span<const TensorView> buffers,
                         std::int32_t wrapper) {
  const std::span<const NameId> names = names_.layout(layout);
  const std::vector<std::uint64_t>& before = looks_[wrapper].buffers;
  LOCKSTEP_CHECK(buffers.size() == names.size(), "one tensor for each name");
  LOCKSTEP_CHECK(before.size() == names.size(), "the buffers were not looked at before");
  digest(buffers);
  std::vector<NameId> replaced;
  std::vector<std::uint64_t> digests;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (scratch_.digests[i] == before[i]) continue;
    replaced.push_back(names[i]);
    digests.push_back(before[i]);
  }
  if (replaced.empty()) return;
  write(StateEvent{.kind = StateKind::kBuffer,
                   .point = StatePoint::kFound,
                   .layout = names_.intern_layout(replaced),
                   .digests = digests},
        wrapper);
}

void Pen::write_lone(LonePoint point,
                     LayoutId layout,
                     std::span<const TensorView> parameters,
                     std::int32_t wrapper) {
  LOCKSTEP_CHECK(parameters.size() == names_.layout(layout).size(), "one tensor for each name");
  fingerprinter_.draw_up(scratch_, parameters, true);
  write(LoneEvent{.point = point,
                  .layout = layout,
                  .digests = scratch_.digests,
                  .sketches = scratch_.sketches,
                  .n_elems = scratch_.n_elems,
                  .dtype = scratch_.dtype},
        wrapper);
}

void Pen::digest(std::span<const TensorView> tensors) {
  fingerprinter_.draw_up(scratch_, tensors, false);
}

std::uint64_t Pen::digest_of(const TensorView& tensor) {
  digest({&tensor, 1});
  return scratch_.digests.front();
}

std::int64_t Pen::next_number(std::int32_t group, const Signature& signature) {
  const bool is_message =
      signature.op == CollectiveOp::kSend || signature.op == CollectiveOp::kRecv;
  if (is_message) return n_posted_[{group, signature.op, signature.peer, signature.tag}]++;
  return n_posted_[{group, CollectiveOp::kBarrier, -1, 0}]++;
}

std::int64_t Pen::post(std::int32_t group, const Signature& signature, std::int32_t wrapper) {
  const OpenCall call{group, next_number(group, signature), signature, now()};
  write(CollectiveEvent{.phase = CollectivePhase::kPosted,
                        .group = group,
                        .seq = call.seq,
                        .signature = signature},
        wrapper);
  open_.emplace(n_tickets_, call);
  // The wrapper's own calls repeat themselves; what a program posts by itself may be its last. A
  // backend that gives up over a call aborts the process: by then there is a line of it.
  const bool own = signature.site.scope != nullptr && *signature.site.scope != '\0';
  if (own) last_own_[group] = signature;
  write_waiting();
  if (!lazy_ || !own) (void)file_->flush();
  return n_tickets_++;
}

void Pen::leave_out(std::int32_t group, std::int64_t n, std::int32_t wrapper) {
  const auto own = last_own_.find(group);
  LOCKSTEP_CHECK(own != last_own_.end() && n > 0,
                 "calls that are left out are like an earlier one");
  std::int64_t& n_posted = n_posted_[{group, CollectiveOp::kBarrier, -1, 0}];
  n_posted += n;
  write(CollectiveEvent{.phase = CollectivePhase::kCompleted,
                        .group = group,
                        .seq = n_posted - 1,
                        .signature = own->second,
                        .status = CallStatus::kLeftOut},
        wrapper);
}

void Pen::complete(std::int64_t ticket, bool ok, double deadline_s, std::int32_t wrapper) {
  const auto known = open_.find(ticket);
  if (known == open_.end()) return;
  const auto failure = [&] {
    const double lasted_s = static_cast<double>((now() - known->second.posted).ns) * 1e-9;
    const bool timed_out = deadline_s > 0.0 && lasted_s >= deadline_s;
    return timed_out ? CallStatus::kTimedOut : CallStatus::kFailed;
  };
  write(CollectiveEvent{.phase = ok ? CollectivePhase::kCompleted : CollectivePhase::kFailed,
                        .group = known->second.group,
                        .seq = known->second.seq,
                        .signature = known->second.signature,
                        .status = ok ? CallStatus::kOk : failure()},
        wrapper);
  open_.erase(known);
}

void Pen::end_for_now(const EndEvent& end) {
  const Event event{rank_, next_index_, now(), position(-1), end};
  write_waiting();
  file_->append_for_now(to_json_line(event, names_) + '\n');
}

}  // namespace lockstep::python
