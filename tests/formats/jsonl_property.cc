#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "lockstep/formats/jsonl.h"
#include "lockstep/trace/trace_digest.h"

#include "tests/support/event_stream.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::EventStream;
using testing::TempFolder;

std::string any_text() { return *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 126)); }

template <typename T>
std::vector<T> any_list(std::size_t n) {
  return *rc::gen::container<std::vector<T>>(n, rc::gen::arbitrary<T>());
}

NameId any_name(EventStream& stream) { return stream.name(any_text()); }

void add_any_grad(EventStream& stream, std::int32_t rank) {
  const auto n = *rc::gen::inRange<std::size_t>(0, 12);
  std::vector<NameId> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back(any_name(stream));
  const auto digests = any_list<std::uint64_t>(n);
  const auto n_elems = any_list<std::int64_t>(n);
  std::vector<std::uint8_t> undefined((n + 7) / 8, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const bool bit = *rc::gen::arbitrary<bool>();
    if (bit) undefined[i / 8] = static_cast<std::uint8_t>(undefined[i / 8] | (1U << (i % 8)));
  }
  std::vector<Sketch> sketches(n);
  for (Sketch& sketch : sketches) {
    sketch.l1 = *rc::gen::arbitrary<double>();
    for (double& sum : sketch.sums) sum = *rc::gen::arbitrary<double>();
  }
  stream.add(rank,
             GradEvent{.point = static_cast<GradPoint>(*rc::gen::inRange(0, 5)),
                       .layout = stream.names().intern_layout(names),
                       .digests = digests,
                       .sketches = sketches,
                       .n_elems = n_elems,
                       .undefined = undefined,
                       .dtype = static_cast<DType>(*rc::gen::inRange(0, 9))});
}

void add_any_collective(EventStream& stream, std::int32_t rank) {
  CollectiveEvent event;
  event.phase = static_cast<CollectivePhase>(*rc::gen::inRange(0, 3));
  event.seq = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);  // Numbers from 0.
  event.signature.op = static_cast<CollectiveOp>(*rc::gen::inRange(0, 11));
  event.signature.reduce = static_cast<ReduceOp>(*rc::gen::inRange(0, 9));
  event.signature.device = static_cast<Device>(*rc::gen::inRange(0, 2));
  event.signature.premul = *rc::gen::arbitrary<double>();
  event.signature.splits = *rc::gen::arbitrary<std::uint64_t>();
  event.signature.site = stream.site("a:b/" + any_text(), *rc::gen::arbitrary<std::int32_t>());
  event.digest = *rc::gen::arbitrary<std::uint64_t>();
  event.status = static_cast<CallStatus>(*rc::gen::inRange(0, 8));
  stream.add(rank, event);
}

double any_number() { return *rc::gen::arbitrary<double>(); }

LayoutId any_layout(EventStream& stream) {
  std::vector<NameId> names;
  const auto n = *rc::gen::inRange<std::size_t>(0, 4);
  for (std::size_t i = 0; i < n; ++i) names.push_back(any_name(stream));
  return stream.names().intern_layout(names);
}

void add_any_loss(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             LossEvent{.function = any_name(stream),
                       .reduction = static_cast<LossReduction>(*rc::gen::inRange(0, 3)),
                       .value = any_number(),
                       .denominator = any_number(),
                       .n_terms = *rc::gen::arbitrary<std::int64_t>(),
                       .n_rows = *rc::gen::arbitrary<std::int64_t>(),
                       .grad = *rc::gen::arbitrary<bool>(),
                       .graph = *rc::gen::arbitrary<bool>() ? any_name(stream) : kNoName});
}

void add_any_clipping(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             ClipEvent{.kind = static_cast<ClipKind>(*rc::gen::inRange(0, 3)),
                       .limit = any_number(),
                       .norm_type = any_number(),
                       .norm = any_number(),
                       .factor = any_number(),
                       .layout = any_layout(stream),
                       .whole = *rc::gen::arbitrary<bool>(),
                       .own = any_number()});
}

void add_any_zero_grad(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             ZeroGradEvent{.to_none = *rc::gen::arbitrary<bool>(), .layout = any_layout(stream)});
}

void add_any_optimizer(EventStream& stream, std::int32_t rank) {
  const LayoutId options = any_layout(stream);
  const auto values = any_list<double>(stream.names().layout(options).size());
  stream.add(rank,
             OptimizerEvent{.kind = any_name(stream),
                            .group = *rc::gen::arbitrary<std::int32_t>(),
                            .layout = any_layout(stream),
                            .options = options,
                            .values = values});
}

void add_any_outer_step(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             OuterStepEvent{.kind = any_name(stream),
                            .group = *rc::gen::arbitrary<std::int32_t>(),
                            .n_ranks = *rc::gen::arbitrary<std::int32_t>(),
                            .step = *rc::gen::arbitrary<std::int64_t>(),
                            .denominator = any_number(),
                            .lr = any_number(),
                            .momentum = any_number(),
                            .nesterov = *rc::gen::arbitrary<bool>(),
                            .layout = any_layout(stream)});
}

void add_any_comm_hook(EventStream& stream, std::int32_t rank) {
  stream.add(rank, CommHookEvent{.effect = static_cast<HookEffect>(*rc::gen::inRange(0, 3))});
}

void add_any_exchange(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             ExchangeEvent{.call = static_cast<CollectiveOp>(*rc::gen::inRange(0, 11)),
                           .reduce = static_cast<ReduceOp>(*rc::gen::inRange(0, 9)),
                           .group = *rc::gen::arbitrary<std::int32_t>(),
                           .seq = *rc::gen::arbitrary<std::int64_t>(),
                           .n_ranks = *rc::gen::arbitrary<std::int32_t>(),
                           .step = *rc::gen::arbitrary<std::int32_t>(),
                           .called_at = any_name(stream),
                           .join = static_cast<ExchangeJoin>(*rc::gen::inRange(0, 3)),
                           .grad = *rc::gen::arbitrary<bool>(),
                           .dropped = *rc::gen::arbitrary<bool>(),
                           .answered = *rc::gen::arbitrary<bool>(),
                           .scaled = *rc::gen::arbitrary<bool>(),
                           .digest = *rc::gen::arbitrary<std::uint64_t>()});
}

void add_any_lone(EventStream& stream, std::int32_t rank) {
  const LayoutId tensors = any_layout(stream);
  const std::size_t n = stream.names().layout(tensors).size();
  const auto digests = any_list<std::uint64_t>(n);
  const auto n_elems = any_list<std::int64_t>(n);
  const std::vector<Sketch> sketches(n, Sketch{1.5, {-1.0, 0.5, 0.25, 1.5}});
  stream.add(rank,
             LoneEvent{.point = static_cast<LonePoint>(*rc::gen::inRange(0, 2)),
                       .layout = tensors,
                       .digests = digests,
                       .sketches = sketches,
                       .n_elems = n_elems,
                       .dtype = DType::kF64});
}

void add_any_buffer_policy(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             BufferPolicyEvent{.layout = any_layout(stream),
                               .policy = static_cast<BufferPolicy>(*rc::gen::inRange(0, 5))});
}

void add_any_configuration(EventStream& stream, std::int32_t rank) {
  stream.add(rank,
             ConfigurationEvent{.name = any_name(stream),
                                .digest = *rc::gen::arbitrary<std::uint64_t>(),
                                .value = *rc::gen::arbitrary<bool>() ? any_name(stream) : kNoName});
}

void add_any_training(EventStream& stream, std::int32_t rank) {
  stream.add(rank, TrainingEvent{.number = *rc::gen::arbitrary<std::int32_t>()});
}

void add_any_input(EventStream& stream, std::int32_t rank) {
  const auto rows = any_list<std::uint64_t>(*rc::gen::inRange<std::size_t>(0, 4));
  stream.add(rank,
             InputEvent{.argument = any_name(stream),
                        .dtype = DType::kF64,
                        .n_elems = *rc::gen::arbitrary<std::int64_t>(),
                        .rows = rows});
}

void add_any_of_a_job(EventStream& stream, std::int32_t rank) {
  constexpr std::array kKinds = {&add_any_loss,
                                 &add_any_clipping,
                                 &add_any_optimizer,
                                 &add_any_outer_step,
                                 &add_any_zero_grad,
                                 &add_any_buffer_policy,
                                 &add_any_comm_hook,
                                 &add_any_configuration,
                                 &add_any_exchange,
                                 &add_any_lone,
                                 &add_any_training,
                                 &add_any_input};
  const auto kind = *rc::gen::inRange<std::size_t>(0, kKinds.size());
  kKinds.at(kind)(stream, rank);
}

void add_any_event(EventStream& stream, std::int32_t rank) {
  Position& at = stream.at(rank);
  at.sync = *rc::gen::arbitrary<std::int32_t>();
  at.epoch = *rc::gen::arbitrary<std::int32_t>();
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return add_any_grad(stream, rank);
    case 1:
      return add_any_collective(stream, rank);
    case 2: {
      const auto ids = any_list<std::int64_t>(*rc::gen::inRange<std::size_t>(0, 5));
      return stream.add(rank, SampleEvent{.split = any_name(stream), .ids = ids});
    }
    case 3: {
      const auto values = any_list<double>(*rc::gen::inRange<std::size_t>(0, 5));
      return stream.add(rank,
                        ValueEvent{.tensor = any_name(stream),
                                   .point = static_cast<ValuePoint>(*rc::gen::inRange(0, 15)),
                                   .values = values});
    }
    case 4: {
      std::vector<std::int32_t> indices;
      for (int i = 0; i < 3; ++i) indices.push_back(*rc::gen::inRange(0, 1 << 30));
      const std::vector<std::int32_t> lengths = {1, 2};
      return stream.add(rank, BucketEvent{.indices = indices, .lengths = lengths});
    }
    case 5:
      return stream.add(rank,
                        StateEvent{.kind = static_cast<StateKind>(*rc::gen::inRange(0, 4)),
                                   .point = static_cast<StatePoint>(*rc::gen::inRange(0, 8))});
    case 6:
      return add_any_of_a_job(stream, rank);
    default:
      return stream.add(rank,
                        EndEvent{.outcome = static_cast<EndOutcome>(*rc::gen::inRange(0, 5)),
                                 .detail = any_name(stream),
                                 .reason = static_cast<EndReason>(*rc::gen::inRange(0, 3))});
  }
}

std::vector<std::string> lines_of(const MemoryTrace& trace) {
  std::vector<std::string> lines;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    for (const Event& event : trace.events(Rank{rank})) {
      lines.push_back(to_json_line(event, trace.names()));
    }
  }
  return lines;
}

RC_GTEST_PROP(JsonlProperty, EveryTraceReadsBackAsItWasWritten, ()) {
  const auto n_ranks = *rc::gen::inRange(1, 4);
  EventStream stream(n_ranks);
  const auto n_events = *rc::gen::inRange(0, 20);
  for (int i = 0; i < n_events; ++i) add_any_event(stream, *rc::gen::inRange(0, n_ranks));
  const TempFolder folder;

  RC_ASSERT(write_jsonl(stream.trace(), {.run_id = "r", .exact = true}, folder.path()).ok());
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());

  if (!loaded.ok()) RC_FAIL(loaded.error().text());
  RC_ASSERT(loaded.value().header.exact);
  RC_ASSERT(loaded.value().notes.empty());
  RC_ASSERT(lines_of(*loaded.value().trace) == lines_of(stream.trace()));
  TraceDigest before;
  stream.play(before);
  TraceDigest after;
  replay(*loaded.value().trace, after);
  RC_ASSERT(after.trace() == before.trace());
  RC_ASSERT(after.result() == before.result());
}

RC_GTEST_PROP(TraceDigestProperty,
              ResultsDoNotDependOnTheInterleaving,
              (const std::vector<std::uint32_t>& draws)) {
  EventStream stream(3);
  for (int i = 0; i < 12; ++i) add_any_event(stream, i % 3);

  TraceDigest in_order;
  stream.play(in_order);
  TraceDigest shuffled;
  stream.play(shuffled, draws);

  RC_ASSERT(shuffled.result() == in_order.result());
  RC_ASSERT(shuffled.n_events() == in_order.n_events());
}

}  // namespace
}  // namespace lockstep
