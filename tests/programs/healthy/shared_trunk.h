// Two tasks on one trunk, wrapped apart.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/ddp.h"
#include "lockstep/nn.h"
#include "lockstep/run.h"

namespace lockstep::programs {

/// A head of its own on a trunk that it shares: (B, 4) -> (B, 1).
class Headed final : public nn::Module {
 public:
  Headed(Runtime& runtime, std::string name, nn::Linear& trunk, Generator& init)
      : Module(runtime), trunk_(&trunk), head_(runtime, 4, 1, init) {
    register_module(std::move(name), trunk);
    register_module("head", head_);
  }

  Variable forward(const Variable& x) override { return head_((*trunk_)(x)); }

  nn::Linear& head() { return head_; }

 private:
  nn::Linear* trunk_;
  nn::Linear head_;
};

/// Each model has its own name for the trunk.
struct TwoTasks {
  TwoTasks(RankContext& rank, Generator& init)
      : trunk(rank.runtime(), 4, 4, init),
        first(rank.runtime(), "trunk", trunk, init),
        second(rank.runtime(), "encoder", trunk, init),
        ddp_first(first, rank.world()),
        ddp_second(second, rank.world()) {}

  std::vector<Variable> parameters() {
    std::vector<Variable> all = first.parameters();
    for (const Variable& parameter : second.head().parameters()) all.push_back(parameter);
    return all;
  }

  nn::Linear trunk;
  Headed first;
  Headed second;
  DistributedDataParallel<Headed> ddp_first;
  DistributedDataParallel<Headed> ddp_second;
};

}  // namespace lockstep::programs
