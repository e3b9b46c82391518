// A place in the graph that every backward of a forward's outputs goes through.
#pragma once

#include <memory>
#include <span>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// Told that a backward reached the outputs it was given to, before their producers run.
class PassThroughListener {
 public:
  PassThroughListener() = default;
  virtual ~PassThroughListener() = default;
  PassThroughListener(const PassThroughListener&) = delete;
  PassThroughListener& operator=(const PassThroughListener&) = delete;
  PassThroughListener(PassThroughListener&&) = delete;
  PassThroughListener& operator=(PassThroughListener&&) = delete;

  virtual void on_backward_reached() = 0;
};

/// Replaces computed outputs by copies behind one common node, which takes the gradients of all of
/// them together: an output that the loss leaves out sends its producers an undefined gradient, so
/// that every leaf behind any output is told that the backward is through with it.
///
/// Outputs that need no gradient are left alone; so is a leaf, but it is told as well. Without a
/// gradient to record nothing happens.
///
/// Source: torch.nn.parallel.distributed._DDPSink, which does not materialise missing gradients.
void pass_through(std::span<Variable* const> outputs,
                  const std::shared_ptr<PassThroughListener>& listener);

}  // namespace lockstep
