// The model of a generated job: branches of layers on one input.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/nn/module.h"

#include "tests/programs/program.h"

namespace lockstep::programs {

/// A forward's outputs in the order of branches. DDP sees those that are not hidden.
struct Outputs {
  struct One {
    std::size_t branch = 0;
    Variable value;
  };

  std::vector<One> shown;
  std::vector<One> hidden;

  template <typename Visit>
  void visit_outputs(Visit&& visit) {
    for (One& one : shown) visit(one.value);
  }
};

/// Parameters, buffers and inputs are small dyadic numbers, so local gradients do not round.
class ProgramModel {
 public:
  /// `rank` decides the initial values (rank 0's win) and which branches are used.
  ProgramModel(Runtime& runtime, const Program& program, std::int32_t rank);
  ~ProgramModel();
  ProgramModel(const ProgramModel&) = delete;
  ProgramModel& operator=(const ProgramModel&) = delete;
  ProgramModel(ProgramModel&&) = delete;
  ProgramModel& operator=(ProgramModel&&) = delete;

  std::vector<NamedVariable> named_parameters(bool remove_duplicate = true) const;
  std::vector<NamedVariable> named_buffers() const;

  bool is_training() const { return true; }

  /// `micro` distinguishes inputs of one step.
  Outputs forward(std::int64_t step, std::int64_t micro);

  /// The sum of the outputs that count, times constants. Undefined when none does.
  Variable loss(const Outputs& outputs, std::int64_t step, std::int64_t micro) const;

 private:
  class Root;
  class Chain;

  Tensor drawn(const char* purpose,
               const Shape& shape,
               DType dtype,
               const std::vector<std::int64_t>& words) const;

  Tensor drawn_rows(std::int64_t below, const std::vector<std::int64_t>& words) const;

  Runtime* runtime_;
  const Program* program_;
  std::int32_t rank_;
  std::unique_ptr<Root> root_;
};

/// p := p - grad / 8, rounded to quarters in [-2, 2]: what keeps the next gradients exact.
void update(const std::vector<NamedVariable>& parameters);

}  // namespace lockstep::programs
