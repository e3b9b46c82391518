// What a loop without a wrapper leaves in a trace: from which step on, and of which parameters.
#include "lockstep/ddp/own_loops.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include <gtest/gtest.h>

#include "lockstep/autograd/listed_module.h"
#include "lockstep/optim/sgd.h"

#include "tests/ddp/tiny_model.h"
#include "tests/support/mini_world.h"

namespace lockstep {
namespace {

using testing::flat_term;
using testing::MiniRank;
using testing::MiniResult;
using testing::run_mini_world;
using testing::TinyModel;
using Texts = std::vector<std::string>;

/// What a loop does with its gradients before a step.
using Send = std::function<void(MiniRank&, std::span<const Variable>, int step)>;

void send_one(MiniRank& rank, const Variable& parameter, ReduceOp op = ReduceOp::kAvg) {
  rank.group.all_reduce(Memory::of(parameter.grad()), op).wait_or_throw();
}

void send_all(MiniRank& rank, std::span<const Variable> parameters, int /*step*/) {
  for (const Variable& parameter : parameters) send_one(rank, parameter);
}

/// Steps of a loop over parameters of 1, 2, 3, ... elements.
MiniResult looped(int n_parameters, int n_steps, const Send& send) {
  return run_mini_world({}, [&](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    std::vector<Variable> parameters;
    for (int i = 0; i < n_parameters; ++i) {
      const std::vector<double> values(static_cast<std::size_t>(i) + 1, 1.0);
      parameters.push_back(model.parameter("p", values));
    }
    optim::Sgd optimizer(parameters, {.lr = 0.5});
    for (int step = 0; step < n_steps; ++step) {
      optimizer.zero_grad();
      Variable loss = flat_term(parameters.front(), 1.0 + rank.rank);
      for (std::size_t i = 1; i < parameters.size(); ++i) {
        loss = add(loss, flat_term(parameters[i], 2.0 + rank.rank));
      }
      loss.backward();
      send(rank, parameters, step);
      optimizer.step();
    }
  });
}

/// The parameters of the wrap events of rank 1, a list per event.
std::vector<Texts> wrapped(const MiniResult& result) {
  EXPECT_TRUE(result.ok()) << result.error(0);
  std::vector<Texts> all;
  const NameTable& names = result.trace->names();
  for (const Event& event : result.trace->events(Rank{1})) {
    const auto* wrap = std::get_if<WrapEvent>(&event.body);
    if (wrap == nullptr) continue;
    EXPECT_FALSE(wrap->synchronizes);
    EXPECT_EQ(wrap->n_ranks, 2);
    Texts& list = all.emplace_back();
    for (const NameId name : names.layout(wrap->params)) list.emplace_back(names.text(name));
  }
  return all;
}

/// Steps that rank 1 recorded as those of the loop and, after a slash, of no wrapper.
std::string steps_of(const MiniResult& result) {
  std::string inside;
  std::string outside;
  for (const Event& event : result.trace->events(Rank{1})) {
    if (!std::holds_alternative<StepEvent>(event.body)) continue;
    (event.at.wrapper < 0 ? outside : inside) += std::to_string(event.at.opt);
  }
  return inside + "/" + outside;
}

const std::vector<Texts> kNone;
const std::vector<Texts> kBoth = {{"parameter.0", "parameter.1"}};

TEST(OwnLoopsTest, ALoopThatSendsAllItsGradientsIsAWrapperAfterItsFirstStep) {
  const MiniResult result = looped(2, 3, send_all);
  EXPECT_EQ(wrapped(result), kBoth);
  EXPECT_EQ(steps_of(result), "12/0");
}

TEST(OwnLoopsTest, ABackwardOfTheLoopIsRecordedAsOneThatReducesNothing) {
  const MiniResult result = looped(2, 2, send_all);
  Texts kinds;
  for (const Event& event : result.trace->events(Rank{1})) {
    if (event.at.wrapper < 0) continue;
    const auto* grad = std::get_if<GradEvent>(&event.body);
    kinds.push_back(grad == nullptr ? std::string(name_of(kind_of(event.body)))
                                    : "grad." + std::string(name_of(grad->point)));
    if (const auto* forward = std::get_if<ForwardEvent>(&event.body)) {
      EXPECT_FALSE(forward->synchronizing);
    }
    if (const auto* backward = std::get_if<BackwardEvent>(&event.body)) {
      EXPECT_FALSE(backward->reduced);
    }
  }
  EXPECT_EQ(kinds,
            (Texts{"wrap",
                   "configuration",
                   "forward",
                   "grad.inc",
                   "backward",
                   "options",
                   "grad.used",
                   "param",
                   "step",
                   "param"}));
}

TEST(OwnLoopsTest, GradientsThatOneRankSendsToAllCount) {
  EXPECT_EQ(
      wrapped(looped(2,
                     2,
                     [](MiniRank& rank, std::span<const Variable> parameters, int) {
                       for (const Variable& parameter : parameters) {
                         rank.group.broadcast(Memory::of(parameter.grad()), 0).wait_or_throw();
                       }
                     })),
      kBoth);
}

TEST(OwnLoopsTest, ASumOfAsManyElementsCountsForAllAndABroadcastOfThemDoesNot) {
  const auto sent = [](bool adds, std::int64_t n_elems) {
    return wrapped(looped(2, 2, [=](MiniRank& rank, std::span<const Variable>, int) {
      const Tensor piece = Tensor::zeros(rank.runtime, {n_elems}, DType::kF32);
      (adds ? rank.group.all_reduce(Memory::of(piece)) : rank.group.broadcast(Memory::of(piece), 0))
          .wait_or_throw();
    }));
  };
  EXPECT_EQ(sent(true, 3), kBoth);
  EXPECT_EQ(sent(false, 3), kNone);
  EXPECT_EQ(sent(true, 4), kNone);
}

TEST(OwnLoopsTest, BucketsAreTheNextParametersFromEitherEnd) {
  const auto sent = [](const std::vector<std::int64_t>& pieces) {
    return wrapped(looped(3, 2, [=](MiniRank& rank, std::span<const Variable>, int) {
      for (const std::int64_t n_elems : pieces) {
        const Tensor piece = Tensor::zeros(rank.runtime, {n_elems}, DType::kF32);
        rank.group.all_reduce(Memory::of(piece)).wait_or_throw();
      }
    }));
  };
  const std::vector<Texts> all = {{"parameter.0", "parameter.1", "parameter.2"}};
  EXPECT_EQ(sent({1, 5}), all);
  EXPECT_EQ(sent({5, 1}), all);
  EXPECT_EQ(sent({1, 2, 3}), all);
  EXPECT_EQ(sent({7, 5, 7, 1}), all) << "what fits no parameters is something else";
  EXPECT_EQ(sent({2, 4}), kNone);
  EXPECT_EQ(sent({1, 2}), kNone) << "the last parameter is missing";
}

TEST(OwnLoopsTest, AMaximumIsNoReductionOfGradients) {
  EXPECT_EQ(wrapped(looped(2,
                           2,
                           [](MiniRank& rank, std::span<const Variable> parameters, int) {
                             for (const Variable& parameter : parameters) {
                               send_one(rank, parameter, ReduceOp::kMax);
                             }
                           })),
            kNone);
}

// Of three parameters one may be left out, of two neither.
TEST(OwnLoopsTest, FewerThanHalfMayBeLeftOut) {
  const Send all_but_the_last = [](MiniRank& rank, std::span<const Variable> parameters, int) {
    for (const Variable& parameter : parameters.first(parameters.size() - 1)) {
      send_one(rank, parameter);
    }
  };
  EXPECT_EQ(wrapped(looped(3, 2, all_but_the_last)), kBoth);
  EXPECT_EQ(wrapped(looped(2, 2, all_but_the_last)), kNone);
}

TEST(OwnLoopsTest, FewerThanHalfOfTheElementsMayBeLeftOut) {
  const std::vector<Texts> last = {{"parameter.1"}};
  EXPECT_EQ(wrapped(looped(2,
                           2,
                           [](MiniRank& rank, std::span<const Variable> parameters, int) {
                             send_one(rank, parameters.back());
                           })),
            last);
}

TEST(OwnLoopsTest, AStepThatWasTakenBeforeHasReducedNothing) {
  EXPECT_EQ(wrapped(looped(2,
                           3,
                           [](MiniRank& rank, std::span<const Variable> parameters, int step) {
                             if (step > 0) send_all(rank, parameters, step);
                           })),
            kNone);
}

TEST(OwnLoopsTest, ALoopEndsBeforeAStepThatLessWasSentFor) {
  const auto stops = [](std::size_t n_sent) {
    return steps_of(
        looped(3, 4, [=](MiniRank& rank, std::span<const Variable> parameters, int step) {
          send_all(rank, step < 2 ? parameters : parameters.first(n_sent), step);
        }));
  };
  EXPECT_EQ(stops(3), "123/0");
  // Steps outside are counted on from those of the loop.
  EXPECT_EQ(stops(2), "1/023");
  EXPECT_EQ(stops(0), "1/023");
}

TEST(OwnLoopsTest, TheEndOfALoopThatHasEndedIsNotRecorded) {
  const MiniResult result =
      looped(2, 3, [](MiniRank& rank, std::span<const Variable> parameters, int step) {
        if (step < 2) send_all(rank, parameters, step);
      });
  for (const Event& event : result.trace->events(Rank{1})) {
    const auto* state = std::get_if<StateEvent>(&event.body);
    EXPECT_FALSE(state != nullptr && state->point == StatePoint::kEnd);
  }
}

TEST(OwnLoopsTest, ALoopEndsWhereItsModelIsWrapped) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    const Variable p = model.parameter("fc", {1});
    {
      optim::Sgd optimizer({p}, {.lr = 0.5});
      flat_term(p, 1.0 + rank.rank).backward();
      send_one(rank, p);
      optimizer.step();
    }
    Ddp ddp(model.state(), rank.group, {});
    optim::Sgd optimizer({p}, {.lr = 0.5});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      testing::forward_backward(ddp, [&] { return flat_term(p, 1.0); });
      optimizer.step();
    }
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const auto events = result.trace->events(Rank{1});
  EXPECT_EQ(std::count_if(events.begin(),
                          events.end(),
                          [](const Event& event) {
                            return event.at.wrapper == 0 &&
                                   !std::holds_alternative<WrapEvent>(event.body) &&
                                   !std::holds_alternative<ConfigurationEvent>(event.body);
                          }),
            0);
  EXPECT_EQ(events.back().at.wrapper, 1);
}

// Gradients that another optimizer's step has used, at an address that comes again.
TEST(OwnLoopsTest, WhatWasSentForOneStepCountsForNoOther) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    const Variable first = model.parameter("a", {1});
    const Variable second = model.parameter("b", {1});
    for (const Variable& parameter : {first, second}) {
      optim::Sgd optimizer({parameter}, {.lr = 0.5});
      flat_term(parameter, 1.0 + rank.rank).backward();
      if (parameter == first) send_one(rank, parameter);
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  EXPECT_EQ(wrapped(result), (std::vector<Texts>{{"parameter.0"}}));
}

// Two numbers, such as a loss and a count, before the step of one optimizer; another one has two elements.
TEST(OwnLoopsTest, WhatNoGradientOfAStepWasSentWithCountsForNoLaterOne) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    loops.on_sent({.n_elems = 2, .adds = true});
    for (const Variable& parameter : {model.parameter("a", {1}), model.parameter("b", {1, 1})}) {
      optim::Sgd optimizer({parameter}, {.lr = 0.5});
      flat_term(parameter, 1.0 + rank.rank).backward();
      optimizer.step();
    }
  });
  EXPECT_EQ(wrapped(result), kNone);
}

TEST(OwnLoopsTest, WhatWasSentLongAgoIsForgotten) {
  const auto begins = [](int n_between) {
    const MiniResult result = run_mini_world({}, [=](MiniRank& rank) {
      OwnLoops loops(rank.runtime, 2);
      TinyModel model(rank.runtime);
      const Variable p = model.parameter("p", {1});
      optim::Sgd optimizer({p}, {.lr = 0.5});
      flat_term(p, 1.0 + rank.rank).backward();
      send_one(rank, p);
      for (int i = 0; i < n_between; ++i) loops.on_sent({.n_elems = 2, .adds = true});
      optimizer.step();
    });
    return !wrapped(result).empty();
  };
  EXPECT_TRUE(begins(65'535));
  EXPECT_FALSE(begins(65'536));
}

TEST(OwnLoopsTest, TwoOptimizersThatStepAfterAllIsSentAreTwoWrappers) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    const std::vector<Variable> both = {model.parameter("a", {1}), model.parameter("b", {1, 1})};
    optim::Sgd one({both[0]}, {.lr = 0.5});
    optim::Sgd other({both[1]}, {.lr = 0.5});
    for (int step = 0; step < 3; ++step) {
      add(flat_term(both[0], 1.0 + rank.rank), flat_term(both[1], 2.0)).backward();
      send_all(rank, both, step);
      for (optim::Sgd* optimizer : {&one, &other}) {
        optimizer->step();
        optimizer->zero_grad();
      }
    }
  });
  EXPECT_EQ(wrapped(result), (std::vector<Texts>{{"parameter.0"}, {"parameter.0"}}));
  EXPECT_EQ(steps_of(result), "1122/01");
}

/// What a rank calls a part of its model.
struct Part final : ListedModule {
  Part(Runtime& runtime, std::vector<NamedVariable> list)
      : ListedModule(runtime), list_(std::move(list)) {}

  std::vector<NamedVariable> named_parameters(bool /*remove_duplicate*/) const override {
    return list_;
  }

  std::vector<NamedVariable> list_;
};

struct SharedOut {
  bool one_module = true;     ///< There is a module that has both layers.
  bool both_on_each = false;  ///< Each rank has an optimizer for each of them, and steps with both.
};

/// Two layers, each a module that calls its parameter "weight". Each rank's optimizer has one of them, and
/// gradients of both are sent.
MiniResult shared_out(const SharedOut& what) {
  return run_mini_world({}, [=](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    const std::vector<Variable> all = {model.parameter("a", {1}), model.parameter("b", {1, 1})};
    const Part first(rank.runtime, {{"weight", all[0]}});
    const Part second(rank.runtime, {{"weight", all[1]}});
    std::optional<Part> whole;
    if (what.one_module) {
      whole.emplace(rank.runtime,
                    std::vector<NamedVariable>{{"a.weight", all[0]}, {"b.weight", all[1]}});
    }
    std::vector<std::unique_ptr<optim::Sgd>> optimizers;
    for (const std::int32_t layer : {0, 1}) {
      if (!what.both_on_each && layer != rank.rank) continue;
      const std::vector<Variable> own = {all[static_cast<std::size_t>(layer)]};
      optimizers.push_back(std::make_unique<optim::Sgd>(own, optim::SgdOptions{.lr = 0.5}));
    }
    for (int step = 0; step < 2; ++step) {
      for (const Variable& parameter : all) parameter.set_grad(Tensor());
      add(flat_term(all[0], 1.0 + rank.rank), flat_term(all[1], 2.0)).backward();
      send_all(rank, all, step);
      for (const auto& optimizer : optimizers) optimizer->step();
    }
  });
}

/// The names of the gradients that rank 1's steps use.
std::vector<Texts> used(const MiniResult& result) {
  std::vector<Texts> all;
  const NameTable& names = result.trace->names();
  for (const Event& event : result.trace->events(Rank{1})) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad == nullptr || grad->point != GradPoint::kUsed) continue;
    Texts& list = all.emplace_back();
    for (const NameId name : names.layout(grad->layout)) list.emplace_back(names.text(name));
  }
  return all;
}

TEST(OwnLoopsTest, RanksThatShareOutTheStepsHaveTheWholeModelInCommon) {
  const MiniResult result = shared_out({});
  const Texts whole = {"a.weight", "b.weight"};
  EXPECT_EQ(wrapped(result), std::vector<Texts>{whole});
  EXPECT_EQ(used(result), (std::vector<Texts>{{"b.weight"}, whole}));
  EXPECT_EQ(steps_of(result), "1/0");
}

TEST(OwnLoopsTest, WhatAnotherOptimizerOfTheRankHasIsSharedOutToNoOtherRank) {
  EXPECT_EQ(wrapped(shared_out({.both_on_each = true})),
            (std::vector<Texts>{{"weight"}, {"parameter.0"}}));
}

// Nothing says what the whole is called.
TEST(OwnLoopsTest, SharesOfSeveralModulesAreNoLoop) {
  EXPECT_EQ(wrapped(shared_out({.one_module = false})), kNone);
}

TEST(OwnLoopsTest, WhatTheProgramDoesByItselfIsAtTheStepsOfTheLoop) {
  const auto step_outside = [](bool trains_beside) {
    std::vector<std::int32_t> steps;
    const MiniResult result = run_mini_world({}, [&](MiniRank& rank) {
      const OwnLoops loops(rank.runtime, 2);
      TinyModel model(rank.runtime);
      const Variable p = model.parameter("p", {1});
      const Variable alone = model.parameter("alone", {1});
      optim::Sgd optimizer({p}, {.lr = 0.5});
      optim::Sgd other({alone}, {.lr = 0.5});
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        flat_term(p, 1.0 + rank.rank).backward();
        send_one(rank, p);
        optimizer.step();
        if (trains_beside && step == 0) {
          flat_term(alone, 1.0).backward();
          other.step();
        }
        if (rank.rank == 1) steps.push_back(rank.runtime.recorder()->position(-1).opt);
      }
    });
    EXPECT_TRUE(result.ok()) << result.error(0);
    return steps;
  };
  EXPECT_EQ(step_outside(false), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(step_outside(true), (std::vector<std::int32_t>{2, 2, 2}));
}

TEST(OwnLoopsTest, NothingBeginsWhereAModelIsWrapped) {
  const MiniResult result = run_mini_world({}, [](MiniRank& rank) {
    const OwnLoops loops(rank.runtime, 2);
    TinyModel model(rank.runtime);
    model.parameter("fc", {1});
    const Ddp ddp(model.state(), rank.group, {});
    const Variable beside = Variable(Tensor::full(rank.runtime, {1}, DType::kF32, 1.0), true);
    optim::Sgd optimizer({beside}, {.lr = 0.5});
    flat_term(beside, 1.0).backward();
    send_one(rank, beside);
    optimizer.step();
  });
  ASSERT_TRUE(result.ok()) << result.error(0);
  const auto events = result.trace->events(Rank{1});
  EXPECT_EQ(std::count_if(
                events.begin(),
                events.end(),
                [](const Event& event) { return std::holds_alternative<WrapEvent>(event.body); }),
            1);
}

}  // namespace
}  // namespace lockstep
