#include "lockstep/trace/recorder.h"

#include <array>
#include <bit>
#include <gmock/gmock.h>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/tensor/contents.h"
#include "lockstep/tensor/digest.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/trace/cohort.h"
#include "lockstep/trace/memory_trace.h"

#include "tests/support/plain_runtime.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using testing::PlainRuntime;

struct Pen {
  explicit Pen(const RecordOptions& options = {})
      : trace(names), recorder(Rank{2}, rt.runtime().host(), *names, trace, options) {}

  std::span<const Event> events() const { return trace.events(Rank{2}); }

  LayoutId layout(std::initializer_list<std::string_view> texts) {
    std::vector<NameId> list;
    for (const std::string_view text : texts) list.push_back(names->intern(text));
    return names->intern_layout(list);
  }

  PlainRuntime rt;
  std::shared_ptr<NameTable> names = std::make_shared<NameTable>();
  MemoryTrace trace;
  Recorder recorder;
};

TEST(RecorderTest, EventsCarryRankIndexAndTheirWrappersPosition) {
  Pen pen;
  pen.recorder.set_epoch(3);
  const std::int32_t wrapper = pen.recorder.open_wrapper();
  pen.recorder.position(wrapper).sync = 7;
  pen.recorder.set_attempt(1);

  pen.recorder.record(LogEvent{});
  pen.recorder.record(ForwardEvent{}, wrapper);

  ASSERT_EQ(pen.events().size(), 2U);
  EXPECT_EQ(pen.events()[0].at, (Position{.attempt = 1, .wrapper = -1, .epoch = 3}));
  EXPECT_EQ(pen.events()[1].at, (Position{.attempt = 1, .wrapper = 0, .sync = 7, .epoch = 3}));
  EXPECT_EQ(pen.events()[1].index, 1U);
  EXPECT_EQ(pen.events()[1].rank, Rank{2});
}

TEST(RecorderTest, GradientsAreDigestedSketchedAndMarkedWhenUndefined) {
  Pen pen;
  const Tensor grad = pen.rt.tensor({2}, {1.0, -2.0});
  const Tensor grads[] = {Tensor(), grad};

  pen.recorder.record_grads(GradPoint::kPost, pen.layout({"a", "b"}), grads, -1);

  const auto& event = std::get<GradEvent>(pen.events()[0].body);
  EXPECT_EQ(event.digests[0], 0U);
  EXPECT_EQ(event.digests[1], sm64(grad.raw(), 2, DType::kF64));
  EXPECT_EQ(event.undefined[0], 1U);
  EXPECT_EQ(event.n_elems[1], 2);
  EXPECT_EQ(event.sketches[1].l1, 3.0);
  EXPECT_EQ(event.dtype, DType::kF64);
}

TEST(RecorderTest, ComputesNothingThatIsNotRead) {
  Pen pen({.grad_local = false,
           .grad_post = true,
           .grad_used = false,
           .sketches = false,
           .states = false});
  const Tensor tensors[] = {pen.rt.tensor({1}, {1.0})};
  const LayoutId layout = pen.layout({"w"});

  for (const GradPoint point :
       {GradPoint::kBase, GradPoint::kInc, GradPoint::kPre, GradPoint::kUsed}) {
    pen.recorder.record_grads(point, layout, tensors, -1);
  }
  pen.recorder.record_states(StateKind::kParam, StatePoint::kStep, layout, tensors, -1);
  pen.recorder.record_values(kNoName, ValuePoint::kStep, tensors[0], -1);
  EXPECT_TRUE(pen.events().empty());

  pen.recorder.record_grads(GradPoint::kPost, layout, tensors, -1);
  EXPECT_TRUE(std::get<GradEvent>(pen.events()[0].body).sketches.empty());
}

/// Two gradients that a reduction of `wrapper` has left, which the pen has recorded.
struct Reduced {
  explicit Reduced(Pen& own) : pen(&own) {
    pen->rt.runtime().set_contents(&contents);
    wrapper = pen->recorder.open_wrapper();
    layout = pen->layout({"w", "b", "none"});
    pen->recorder.record_grads(GradPoint::kPost, layout, grads, wrapper);
  }

  /// What an optimizer records of gradients named so.
  GradEvent used(LayoutId names) {
    pen->recorder.record_grads(GradPoint::kUsed, names, grads, wrapper);
    return std::get<GradEvent>(pen->events()[pen->events().size() - 1].body);
  }

  Pen* pen;
  Contents contents;
  std::int32_t wrapper = -1;
  LayoutId layout = kNoLayout;
  std::array<Tensor, 3> grads{pen->rt.tensor({2}, {1.0, 2.0}), pen->rt.tensor({1}, {3.0}), {}};
};

TEST(RecorderTest, AnOptimizerThatUsesWhatTheReductionLeftIsRecordedWithoutReadingItAgain) {
  Pen pen;
  Reduced reduced(pen);
  const std::uint64_t n_spared = reduced.contents.n_spared();
  const GradEvent used = reduced.used(reduced.layout);

  EXPECT_EQ(reduced.contents.n_spared(), n_spared + 2) << "both that are defined";
  const auto& post = std::get<GradEvent>(pen.events()[0].body);
  EXPECT_EQ(used.point, GradPoint::kUsed);
  EXPECT_EQ(used.layout, reduced.layout);
  EXPECT_THAT(used.digests, ElementsAreArray(post.digests));
  EXPECT_THAT(used.sketches, ElementsAreArray(post.sketches));
  EXPECT_THAT(used.n_elems, ElementsAre(2, 1, 0));
  EXPECT_THAT(used.undefined, ElementsAre(4));
  EXPECT_EQ(used.dtype, DType::kF64);
}

TEST(RecorderTest, WhatBecameOfAGradientAfterTheReductionIsRead) {
  using Change = void (*)(Reduced&);
  const Change changes[] = {
      [](Reduced& it) { it.grads[0].write<double>()[1] = 5.0; },
      [](Reduced& it) { it.grads[0].data<double>()[1] = 5.0; },
      [](Reduced& it) { it.grads[1] = {}; },
      [](Reduced& it) { it.grads[2] = it.pen->rt.tensor({1}, {4.0}); },
      [](Reduced& it) { it.grads[0] = it.grads[0].slice(0, {1}); },
  };
  for (const Change change : changes) {
    Pen pen;
    Reduced reduced(pen);
    change(reduced);
    const GradEvent used = reduced.used(reduced.layout);
    for (std::size_t i = 0; i < reduced.grads.size(); ++i) {
      const Tensor& grad = reduced.grads[i];
      EXPECT_EQ((used.undefined[0] >> i & 1U) == 0, grad.defined());
      if (!grad.defined()) continue;
      EXPECT_EQ(used.digests[i], sm64(grad.read_raw(), grad.n_elems(), DType::kF64));
      EXPECT_EQ(used.n_elems[i], grad.n_elems());
    }
  }
}

TEST(RecorderTest, GradientsOfOtherNamesAreNotThoseOfTheReduction) {
  Pen pen;
  Reduced reduced(pen);
  const LayoutId others = pen.layout({"b", "w", "none"});
  EXPECT_EQ(reduced.used(others).layout, others);
}

/// Keeps the digests of each rank's gradients, or of its state.
class DigestsByRank final : public CohortSink {
 public:
  void on_event(const Event& event, const NameTable& /*names*/) override {
    const auto* const state = std::get_if<StateEvent>(&event.body);
    const std::span digests =
        state != nullptr ? state->digests : std::get<GradEvent>(event.body).digests;
    of[to_index(event.rank)].assign(digests.begin(), digests.end());
  }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    for (std::int32_t rank = 0; rank < event.n_ranks(); ++rank) on_event(event.of(rank), names);
  }

  EventKinds reads() const override { return kAllEventKinds; }

  std::array<std::vector<std::uint64_t>, 2> of;
};

/// A world of two ranks and one wrapper, whose averages a cohort gets.
struct AveragingWorld {
  AveragingWorld(Cohort& to, DigestsByRank& digests) : cohort(&to) {
    rt.runtime().set_contents(&contents);
    to.begin(2, digests, nullptr);
  }

  Tensor average(double value) { return Tensor::full(rt.runtime(), {64}, DType::kF32, value); }

  void record(Rank rank, const Tensor& grad) {
    Recorder recorder(rank, rt.runtime().host(), names, *cohort, {});
    recorder.record_grads(GradPoint::kPost, layout, std::span(&grad, 1), recorder.open_wrapper());
  }

  PlainRuntime rt;
  Contents contents;
  NameTable names;
  LayoutId layout = names.intern_layout(std::array{names.intern("w")});
  Cohort* cohort;
};

/// Two ranks record an average of which rank 1 has a copy, to which it may have written.
/// Returns: how often rank 1 was spared from reading.
std::uint64_t n_spared_of_the_second(bool writes, DigestsByRank& digests) {
  Cohort cohort;
  AveragingWorld world(cohort, digests);
  const Tensor average = world.average(0.5);
  const Tensor copy = world.average(0.0);
  world.record(Rank{0}, average);
  world.rt.kernels().copy(copy, average);
  if (writes) copy.write<float>()[63] = 1.0F;
  const std::uint64_t n_before = world.contents.n_spared();
  world.record(Rank{1}, copy);
  cohort.flush(world.names);
  EXPECT_EQ(digests.of[0].at(0), sm64(average.read_raw(), 64, DType::kF32));
  EXPECT_EQ(digests.of[1].at(0), sm64(copy.read_raw(), 64, DType::kF32));
  return world.contents.n_spared() - n_before;
}

TEST(RecorderTest, AnAverageThatAnotherRankHasRecordedIsNotLookedAtAgain) {
  DigestsByRank digests;
  EXPECT_EQ(n_spared_of_the_second(false, digests), 1U);
  EXPECT_EQ(digests.of[0], digests.of[1]);
}

TEST(RecorderTest, AnAverageThatARankHasWrittenToIsRead) {
  DigestsByRank digests;
  EXPECT_EQ(n_spared_of_the_second(true, digests), 0U);
  EXPECT_NE(digests.of[0], digests.of[1]);
}

/// What steps of rank 0, rank 1 and rank 0 again leave in its parameters, as a cohort is given it.
DigestsByRank states_of(std::span<const Tensor> first, std::span<const Tensor> second) {
  Cohort cohort;
  DigestsByRank digests;
  NameTable names;
  std::vector<NameId> list;
  for (std::size_t i = 0; i < first.size(); ++i) list.push_back(names.intern(std::to_string(i)));
  const LayoutId layout = names.intern_layout(list);
  cohort.begin(2, digests, nullptr);
  std::int32_t n = 0;
  for (const std::span<const Tensor> tensors : {first, second, first}) {
    Recorder recorder(Rank{n++ % 2}, tensors.front().runtime().host(), names, cohort, {});
    recorder.record_states(StateKind::kParam, StatePoint::kStep, layout, tensors, -1);
  }
  cohort.flush(names);
  return digests;
}

std::vector<std::uint64_t> digests_of(std::span<const Tensor> tensors) {
  std::vector<std::uint64_t> digests;
  for (const Tensor& tensor : tensors) {
    digests.push_back(sm64(tensor.read_raw(), tensor.n_elems(), tensor.dtype()));
  }
  return digests;
}

TEST(RecorderTest, DigestsTakenForSeveralRanksEqualThoseTakenOneByOne) {
  PlainRuntime rt;
  const Tensor w = Tensor::full(rt.runtime(), {64}, DType::kF32, 0.5);
  const Tensor none = Tensor::empty(rt.runtime(), {0}, DType::kF32);
  const Tensor other = w.clone();
  other.write<float>()[63] = 1.0F;
  const Tensor longer = Tensor::full(rt.runtime(), {65}, DType::kF32, 0.5);
  // The same bytes, in fewer elements.
  const Tensor halves = Tensor::zeros(rt.runtime(), {32}, DType::kF64);
  const Tensor zeros = Tensor::zeros(rt.runtime(), {64}, DType::kF32);
  for (const auto& [first, second] : std::vector<std::array<Tensor, 2>>{{w, w.clone()},
                                                                        {w, other},
                                                                        {other, w},
                                                                        {w, longer},
                                                                        {longer, w},
                                                                        {none, w},
                                                                        {w, none},
                                                                        {halves, zeros},
                                                                        {zeros, halves}}) {
    const std::array lists = {std::array{first, w}, std::array{second, w}};
    const DigestsByRank digests = states_of(lists[0], lists[1]);
    EXPECT_EQ(digests.of[0], digests_of(lists[0])) << first.text() << ", " << second.text();
    EXPECT_EQ(digests.of[1], digests_of(lists[1])) << first.text() << ", " << second.text();
  }
}

// Names begin anew with each Contents, and numbers of layouts with each table.
TEST(RecorderTest, TheAveragesOfOneWorldSayNothingOfThoseOfTheNext) {
  Cohort cohort;
  for (const double value : {0.5, 0.25}) {
    DigestsByRank digests;
    AveragingWorld world(cohort, digests);
    const Tensor average = world.average(value);
    world.record(Rank{0}, average);
    cohort.flush(world.names);
    EXPECT_EQ(digests.of[0].at(0), sm64(average.read_raw(), 64, DType::kF32)) << value;
  }
}

/// A wrapper's two parameters after a step; then something writes to the first. Returns: what two forwards find.
std::span<const Event> found_after_a_write(Pen& pen, Contents* contents = nullptr) {
  pen.rt.runtime().set_contents(contents);
  const std::int32_t wrapper = pen.recorder.open_wrapper();
  const Tensor w = pen.rt.tensor({2}, {1.0, 2.0});
  const Tensor b = pen.rt.tensor({1}, {3.0});
  const Tensor* const parameters[] = {&w, &b};
  const LayoutId layout = pen.layout({"w", "b"});
  pen.recorder.record_states(StateKind::kParam, StatePoint::kStep, layout, parameters, wrapper);
  const std::size_t n_before = pen.events().size();
  pen.recorder.record_found(layout, parameters, wrapper);
  EXPECT_EQ(pen.events().size(), n_before) << "nothing was written";
  w.write<double>()[1] = 5.0;
  pen.recorder.record_found(layout, parameters, wrapper);
  pen.recorder.record_found(layout, parameters, wrapper);
  return pen.events().subspan(n_before);
}

TEST(RecorderTest, AForwardFindsTheParametersThatWereWrittenOnce) {
  Pen pen;
  const std::span<const Event> found = found_after_a_write(pen);
  ASSERT_EQ(found.size(), 1U);
  const auto& state = std::get<StateEvent>(found[0].body);
  EXPECT_EQ(state.kind, StateKind::kParam);
  EXPECT_EQ(state.point, StatePoint::kFound);
  EXPECT_EQ(state.layout, pen.layout({"w"}));
  ASSERT_EQ(state.digests.size(), 1U);
  const double now[] = {1.0, 5.0};
  EXPECT_EQ(state.digests[0], sm64(now, 2, DType::kF64));
}

TEST(RecorderTest, AForwardFindsTheSameWhereContentsHaveNames) {
  Pen pen;
  Contents contents;
  const std::span<const Event> found = found_after_a_write(pen, &contents);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(std::get<StateEvent>(found[0].body).point, StatePoint::kFound);
  EXPECT_EQ(std::get<StateEvent>(found[0].body).layout, pen.layout({"w"}));
}

TEST(RecorderTest, NothingIsFoundWherePartsOfStatesOrNoneAreRecorded) {
  Pen parts({.coverage = 2});
  EXPECT_TRUE(found_after_a_write(parts).empty());
  Pen none({.states = false});
  EXPECT_TRUE(found_after_a_write(none).empty());
}

TEST(RecorderTest, WhatSeveralOptimizersLeaveIsKeptByName) {
  Pen pen;
  const std::int32_t wrapper = pen.recorder.open_wrapper();
  const Tensor w = pen.rt.tensor({1}, {1.0});
  const Tensor b = pen.rt.tensor({1}, {3.0});
  const Tensor* const both[] = {&w, &b};
  const Tensor* const last[] = {&b};
  const auto record = [&](const LayoutId layout, std::span<const Tensor* const> tensors) {
    pen.recorder.record_states(StateKind::kParam, StatePoint::kStep, layout, tensors, wrapper);
  };
  record(pen.layout({"w", "b"}), both);
  b.write<double>()[0] = 4.0;
  record(pen.layout({"b"}), last);
  const std::size_t n_before = pen.events().size();
  pen.recorder.record_found(pen.layout({"w", "b"}), both, wrapper);
  EXPECT_EQ(pen.events().size(), n_before);
}

TEST(RecorderTest, ValuesFollowTheEventsTheyBelongTo) {
  Pen pen({.values = true});
  const Tensor tensors[] = {pen.rt.tensor({2}, {4.0, 5.0})};

  pen.recorder.record_states(StateKind::kParam, StatePoint::kStep, pen.layout({"w"}), tensors, -1);

  ASSERT_EQ(pen.events().size(), 2U);
  const auto& value = std::get<ValueEvent>(pen.events()[1].body);
  EXPECT_EQ(pen.names->text(value.tensor), "w");
  EXPECT_EQ(value.point, ValuePoint::kStep);
  EXPECT_EQ(std::vector<double>(value.values.begin(), value.values.end()),
            (std::vector<double>{4.0, 5.0}));
}

TEST(MemoryTraceTest, KeepsCopiesOfWhatEventsPointTo) {
  Pen pen;
  std::vector<std::int64_t> ids(100'000, 7);
  pen.recorder.record(SampleEvent{.ids = ids});
  ids.assign(ids.size(), 8);
  pen.recorder.record(SampleEvent{.ids = ids});

  const auto& first = std::get<SampleEvent>(pen.events()[0].body);
  const auto& second = std::get<SampleEvent>(pen.events()[1].body);
  EXPECT_EQ(first.ids.front(), 7);
  EXPECT_EQ(first.ids.back(), 7);
  EXPECT_EQ(second.ids.back(), 8);
}

TEST(RecorderTest, PartsOfLargeTensorsTakeTurns) {
  Pen pen({.coverage = 3});
  Contents contents;  // Names tell tensors apart, not their parts.
  pen.rt.runtime().set_contents(&contents);
  const std::int64_t n = 3 * Recorder::kAlwaysWhole + 1;
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor large = Tensor::of(pen.rt.runtime(), {n}, DType::kF32, values);
  const Tensor small = Tensor::full(pen.rt.runtime(), {2}, DType::kF32, -2.0);
  const Tensor tensors[] = {large, small};
  const LayoutId layout = pen.layout({"large", "small"});
  const std::int32_t wrapper = pen.recorder.open_wrapper();

  std::vector<std::int64_t> sizes;
  for (const std::int32_t sync : {0, 1, 2, 3}) {
    pen.recorder.position(wrapper).sync = sync;
    pen.recorder.record_grads(GradPoint::kPost, layout, tensors, wrapper);
    const std::span<const Event> events = pen.events();
    const auto& event = std::get<GradEvent>(events.back().body);
    const std::int64_t most = (n + 2) / 3;
    const std::int64_t first = most * (sync % 3);
    const std::int64_t size = std::min(most, n - first);
    sizes.push_back(event.n_elems[0]);
    EXPECT_EQ(event.n_elems[0], size);
    EXPECT_EQ(event.digests[0], sm64(large.read<float>() + first, size, DType::kF32));
    EXPECT_EQ(event.sketches[0], sketch_of(large.read<float>() + first, size, DType::kF32));
    EXPECT_EQ(event.digests[1], sm64(small.read_raw(), 2, DType::kF32)) << "small ones are whole";
  }
  EXPECT_EQ(sizes[0] + sizes[1] + sizes[2], n) << "three turns cover every element once";
  EXPECT_EQ(sizes[3], sizes[0]);
}

TEST(RecorderTest, PartsTakeTurnsFromStepToStepWhereNothingSynchronises) {
  Pen pen({.coverage = 2});
  const std::int64_t n = 2 * Recorder::kAlwaysWhole;
  Tensor large = Tensor::zeros(pen.rt.runtime(), {n}, DType::kF32);
  large.span<float>().back() = 1.0F;
  const Tensor tensors[] = {large};
  const LayoutId layout = pen.layout({"large"});

  std::vector<std::uint64_t> digests;
  for (int step = 0; step < 3; ++step) {
    pen.recorder.record_states(StateKind::kParam, StatePoint::kStep, layout, tensors, -1);
    digests.push_back(std::get<StateEvent>(pen.events().back().body).digests[0]);
    pen.recorder.record(StepEvent{.layout = layout});
  }
  pen.recorder.record_states(StateKind::kParam, StatePoint::kEnd, layout, tensors, -1);

  EXPECT_NE(digests[0], digests[1]);
  EXPECT_EQ(digests[0], digests[2]);
  EXPECT_EQ(std::get<StateEvent>(pen.events().back().body).digests[0],
            sm64(large.raw(), n, DType::kF32))
      << "what is not of a step is covered whole";
}

}  // namespace
}  // namespace lockstep
