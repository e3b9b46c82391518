// One collective as messages between its members.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/comm/reduction_order.h"
#include "lockstep/sim/net/network.h"

namespace lockstep::sim {

/// Who waits for a flight's results.
class FlightClient {
 public:
  virtual ~FlightClient() = default;
  /// The member has its result, and nothing will touch its memory again. May destroy the flight
  /// with the last member.
  virtual void on_member_done(std::int32_t member) = 0;
  /// An addition rounded in exact mode (InexactOperation): no member gets a result any more. Drops
  /// the flight.
  virtual void on_inexact(std::exception_ptr problem) = 0;
};

/// What is moved or reduced.
struct FlightJob {
  CollectiveOp op = CollectiveOp::kAllReduce;
  ReduceOp reduce = ReduceOp::kSum;
  double premul = 1.0;
  DType dtype = DType::kF32;
  /// Elements: of the buffer, or of one part (reduce_scatter, all_gather).
  std::int64_t count = 0;
  std::int32_t root = 0;
  Kernels* kernels = nullptr;
  std::span<const std::int32_t> members;  ///< World ranks; outlive the flight.
};

/// A member's messages leave when it has posted and what they carry is there; none waits for
/// all. Each message that arrives is reduced or copied at once, hop by hop, in the order that
/// the reduction order names.
class Flight {
 public:
  Flight(Network& network, FlightClient& client, const FlightJob& job);
  virtual ~Flight() = default;
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  Flight(Flight&&) = delete;
  Flight& operator=(Flight&&) = delete;

  /// The memory of `member` takes part from now on (Network::set_now).
  /// Requires: lists as the operation has them, valid until the member is done.
  void post(std::int32_t member, std::span<const Memory> inputs, std::span<const Memory> outputs);

  virtual void on_arrival(std::int32_t token, std::int32_t hop) = 0;

  FlightClient& client() const { return *client_; }

 protected:
  virtual void on_post(std::int32_t member) = 0;

  const FlightJob& job() const { return job_; }

  std::size_t n_members() const { return members_.size(); }

  std::int64_t elem_bytes() const { return elem_bytes_; }

  bool has_posted(std::int32_t member) const { return member_state(member).posted; }

  /// Element `at` of part `part` in a list of parts, or in the one buffer that holds them all.
  std::byte* input(std::int32_t member, std::int32_t part, std::int64_t at) const {
    return place(member_state(member).inputs, part, at);
  }

  std::byte* output(std::int32_t member, std::int32_t part, std::int64_t at) const {
    return place(member_state(member).outputs, part, at);
  }

  void send(std::int32_t from,
            std::int32_t to,
            std::int64_t n_elems,
            const EventQueue::Event& arrival) {
    network_->send(job_.members[static_cast<std::size_t>(from)],
                   job_.members[static_cast<std::size_t>(to)],
                   n_elems * elem_bytes_,
                   arrival);
  }

  /// `n` more things must happen before the member is done.
  void expect(std::int32_t member, std::int64_t n) { member_state(member).n_left += n; }

  void happened(std::int32_t member) {
    if (--member_state(member).n_left == 0) network_->complete(*this, member);
  }

  /// Elements of a piece that chunk_bytes allows; everything when it is 0.
  std::int64_t chunk_elems() const;
  void copy_elems(std::byte* to, const std::byte* from, std::int64_t n_elems) const;

 private:
  struct MemberState {
    std::span<const Memory> inputs;
    std::span<const Memory> outputs;
    std::int64_t n_left = 0;
    bool posted = false;
  };

  MemberState& member_state(std::int32_t member) {
    return members_[static_cast<std::size_t>(member)];
  }

  const MemberState& member_state(std::int32_t member) const {
    return members_[static_cast<std::size_t>(member)];
  }

  std::byte* place(std::span<const Memory> list, std::int32_t part, std::int64_t at) const {
    if (list.size() == 1) {
      return static_cast<std::byte*>(list.front().data) + (part * job_.count + at) * elem_bytes_;
    }
    return static_cast<std::byte*>(list[static_cast<std::size_t>(part)].data) + at * elem_bytes_;
  }

  Network* network_;
  FlightClient* client_;
  FlightJob job_;
  std::int64_t elem_bytes_;
  std::vector<MemberState> members_;
};

/// The algorithm that realises `order`, or null where messages cannot: only all_reduce,
/// reduce_scatter (but not pairwise), all_gather and broadcast of one buffer, at least one element
/// and two members have a message form.
///
///   order      all_reduce                                   broadcast
///   rank       a chain: 0 adds to 1 adds to ..., then back  binomial tree
///   gloo-ring  Gloo's ring, from c-1 down to c              binomial tree
///   nccl-ring  NCCL's rings                                 along the ring
///   nccl-tree  NCCL's double tree (others: its ring)        along the ring
///   pairwise   recursive halving, then doubling             binomial tree
///
/// all_gather runs along a ring under every order. Sizes of groups that are not powers of two halve
/// as far as there are partners.
std::unique_ptr<Flight> make_flight(Network& network,
                                    FlightClient& client,
                                    const FlightJob& job,
                                    const ReductionOrder& order);

}  // namespace lockstep::sim
