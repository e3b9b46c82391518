// One collective as messages, without ranks: what each member has in the end, and when.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "lockstep/comm/reduction_order.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim::testing {

using Bytes = std::vector<std::byte>;

/// Small deterministic numbers: what a test draws must not depend on a library.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed * 2 + 1) {}

  std::int64_t below(std::int64_t n) {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::int64_t>((state_ >> 33U) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

/// Notes when members are done.
class Finish final : public FlightClient {
 public:
  explicit Finish(std::size_t n_members) : done(n_members, false) {}

  void on_member_done(std::int32_t member) override {
    done[static_cast<std::size_t>(member)] = true;
    ++n_done;
  }

  void on_inexact(std::exception_ptr problem) override { std::rethrow_exception(problem); }

  std::vector<bool> done;
  std::size_t n_done = 0;
};

struct Operation {
  FlightJob job;
  ReductionOrder order = ReductionOrder::kGlooRing;
  NetOptions net;
  std::vector<std::int64_t> posted_at;  ///< ns by member; empty: all at 0.
};

struct Outcome {
  std::vector<Bytes> outputs;
  std::size_t n_done = 0;
  std::int64_t n_messages = 0;
  std::int64_t ended_at = 0;          ///< ns
  std::vector<std::int64_t> done_at;  ///< ns by member; -1: never.
};

inline Memory whole(Bytes& bytes, DType dtype) {
  return {bytes.data(), static_cast<std::int64_t>(bytes.size()) / size_of(dtype), dtype};
}

/// Runs it to its end, one moment after another as a world would.
inline Outcome fly(const Operation& operation,
                   const std::vector<Bytes>& inputs,
                   std::size_t output_bytes,
                   const std::function<std::unique_ptr<Flight>(Network&, FlightClient&)>& make) {
  const std::size_t n = inputs.size();
  const DType dtype = operation.job.dtype;
  Network network(operation.net, static_cast<std::int32_t>(n));
  Finish finish(n);
  const std::unique_ptr<Flight> flight = make(network, finish);
  std::vector<Bytes> ins = inputs;
  Outcome outcome;
  outcome.outputs.assign(n, Bytes(output_bytes, std::byte{0x77}));
  outcome.done_at.assign(n, -1);
  std::vector<Memory> in_lists;
  std::vector<Memory> out_lists;
  for (std::size_t m = 0; m < n; ++m) {
    in_lists.push_back(whole(ins[m], dtype));
    out_lists.push_back(whole(outcome.outputs[m], dtype));
  }
  std::vector<std::int64_t> due = operation.posted_at;
  due.resize(n, 0);
  std::optional<VirtualTime> next = VirtualTime{0};
  std::vector<bool> posted(n, false);
  while (true) {
    // The next moment: a post or an event.
    std::int64_t now = next ? next->ns : INT64_MAX;
    for (std::size_t m = 0; m < n; ++m) {
      if (!posted[m]) now = std::min(now, due[m]);
    }
    if (now == INT64_MAX) break;
    std::int64_t quiet = INT64_MAX;
    for (std::size_t m = 0; m < n; ++m) {
      if (!posted[m] && due[m] == now) {
        posted[m] = true;
        network.set_now({now});
        flight->post(static_cast<std::int32_t>(m), {&in_lists[m], 1}, {&out_lists[m], 1});
      }
      if (!posted[m]) quiet = std::min(quiet, due[m]);
    }
    next = network.run({now}, {quiet});
    for (std::size_t m = 0; m < n; ++m) {
      if (finish.done[m] && outcome.done_at[m] < 0) outcome.done_at[m] = outcome.ended_at = now;
    }
  }
  outcome.n_done = finish.n_done;
  outcome.n_messages = network.n_messages();
  return outcome;
}

inline Outcome fly(const Operation& operation,
                   const std::vector<Bytes>& inputs,
                   std::size_t output_bytes) {
  return fly(operation, inputs, output_bytes, [&](Network& network, FlightClient& client) {
    return make_flight(network, client, operation.job, operation.order);
  });
}

inline std::vector<std::int32_t> ranks_upto(std::int32_t n) {
  std::vector<std::int32_t> members(static_cast<std::size_t>(n));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

}  // namespace lockstep::sim::testing
