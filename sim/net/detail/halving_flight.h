// All-reduce by recursive halving, then doubling.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/sim/net/detail/hop_arithmetic.h"
#include "lockstep/sim/net/flight.h"

namespace lockstep::sim {

/// Neighbours exchange halves of what they hold and add, then pairs of pairs do, and so on; each
/// element's additions are those of the order `pairwise`. Then the halves are exchanged back.
///
/// A block without a partner continues as it is. Where partners hold different ranges, each common
/// piece is halved separately.
class HalvingFlight final : public Flight {
 public:
  HalvingFlight(Network& network, FlightClient& client, const FlightJob& job);

  void on_arrival(std::int32_t token, std::int32_t hop) override;

 protected:
  void on_post(std::int32_t member) override;

 private:
  /// A range that one member holds at one level.
  struct Item {
    std::int64_t begin = 0;
    std::int64_t count = 0;
    std::int32_t holder = 0;
    std::int32_t partner = -1;      // Sent the other operand; -1: the member's own contribution.
    bool is_left = false;           // The holder's operand is the left one.
    std::int32_t below = -1;        // The holder's item that this one came from...
    std::int32_t other_below = -1;  // ... and the partner's.
    std::int32_t n_missing = 2;     // Operands.
    std::int32_t n_unreturned = 0;  // Pieces whose results have not come back.
    std::int32_t first_half = -1;   // Its pieces' halves: links_ from here...
    std::int32_t n_halves = 0;      // ... this many.
  };

  /// What becomes of a piece of an item.
  struct Half {
    std::int32_t item = -1;  // The item of the next level.
    bool kept = false;       // By the holder; otherwise it is sent to its partner.
  };

  /// Two items that meet, for the range that both have.
  struct Overlap {
    std::int32_t left = 0;
    std::int32_t right = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  using Items = std::vector<std::int32_t>;  // Of a block, by range.

  void plan(std::int64_t begin, std::int64_t count);
  Items merge_blocks(const Items& left, const Items& right);
  void split_overlap(const Overlap& overlap, Items& merged);
  std::int32_t add_half(const Overlap& overlap, std::int64_t begin, std::int64_t end, bool lower);
  void link();

  Half& next_half(Item& item) {
    return halves_[static_cast<std::size_t>(item.first_half) +
                   static_cast<std::size_t>(item.n_halves++)];
  }

  void process_queues();
  void operand_arrived(std::int32_t index);
  void on_operands_complete(std::int32_t index);
  void on_result_complete(std::int32_t index);
  void result_returned(std::int32_t index);
  void combine(const Item& item);

  Item& item(std::int32_t index) { return items_[static_cast<std::size_t>(index)]; }

  HopArithmetic arithmetic_;
  std::vector<Item> items_;
  std::vector<Half> halves_;
  std::vector<std::vector<std::int32_t>> own_items_;  // By member: where it starts.
  std::vector<std::int32_t> ready_;                   // Items whose operands are all there.
  std::vector<std::int32_t> final_;                   // Items whose results have all come back.
  std::vector<std::byte> result_;
};

}  // namespace lockstep::sim
