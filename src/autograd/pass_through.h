// A place in the graph that every backward of a forward's outputs goes through.
#pragma once

#include <memory>
#include <span>

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// Notified when a backward reaches the outputs it was given to, before their producers run.
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

/// Replaces computed outputs by copies that share one node, which takes the gradients of all of
/// them together: an output that the loss leaves out sends its producers an undefined gradient, so
/// that every leaf which any output depends on is notified that the backward is done with it.
///
/// Outputs that need no gradient are left alone; so is a leaf, but it is notified as well. Nothing
/// happens without a gradient to record.
///
/// Source: torch.nn.parallel.distributed._DDPSink, which does not materialise missing gradients.
void pass_through(std::span<Variable* const> outputs,
                  const std::shared_ptr<PassThroughListener>& listener);

}  // namespace lockstep
