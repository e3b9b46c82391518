// Stands between a transfer and the memory that the program gave it, so that raw accesses show.
//
//                    post                    transfer               wait
//   the program's:   x │ poison   poison   poison   poison   poison │ result
//                      ▼ copied                                     ▲ compared with the poison, then
//   the stand-in:      x        x        result   result   result   │ copied back
//
// The transfer works on the stand-in. What the program reads meanwhile is not there yet, and says so
// wherever it turns up (tensor/poison.h); what it writes is noticed when the memory is handed back.
// Memory that the transfer only reads is left as it is, and digested before and after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep::sim {

/// A copy of memory that transfers of one rank write, shared by those that were posted on the same
/// memory before the first was waited for: they meet in it as they would have met there.
struct StandIn {
  Memory own;                    ///< The program's memory.
  std::vector<std::byte> bytes;  ///< What transfers work on.
  std::uint64_t number = 0;      ///< Of the transfer that poisons it.
  std::uint64_t digest = 0;      ///< Of elements that cannot be poisoned, as they were.
  std::uint64_t order = 0;  ///< Among the stand-ins of its rank: later ones have larger numbers.
  std::int32_t n_transfers = 0;  ///< That were not handed back yet, once per buffer.
  bool exposed = false;          ///< The program's memory is not poisoned (any more).
};

/// The stand-ins of one rank. Of a list of buffers each has its own, so they are kept by address: a search looks at
/// the neighbours of what it looks for.
class StandIns {
 public:
  /// The first opened of those that hold all of `memory`; null: none does.
  StandIn* find(const Memory& memory);
  StandIn& open(const Memory& memory, std::uint64_t number);
  /// Drops those that no transfer works on any more.
  void close_unused();

  /// Gives the program back what it gave wherever `memory` overlaps: a transfer is about to work on
  /// the program's own memory there.
  void expose(const Memory& memory);

 private:
  using List = std::vector<std::unique_ptr<StandIn>>;

  /// Calls see(stand-in) for each that may overlap `memory`.
  template <typename See>
  void each_near(const Memory& memory, See see);

  List open_;                // By the begin of their memory.
  std::size_t longest_ = 0;  // Bytes of the largest, since there was none.
  std::uint64_t n_opened_ = 0;
  List spare_;  // They keep their capacity.
};

/// Guards the memory of one transfer from its posting until it is handed back.
class MemoryGuard {
 public:
  /// Redirects both lists to stand-ins. `only_reads`: outputs are not written (a broadcast's root).
  /// Requires: buffers in host memory; `stand_ins` outlives it.
  MemoryGuard(StandIns& stand_ins,
              std::uint64_t number,
              std::span<Memory> inputs,
              std::span<Memory> outputs,
              bool only_reads);
  ~MemoryGuard();
  MemoryGuard(const MemoryGuard&) = delete;
  MemoryGuard& operator=(const MemoryGuard&) = delete;
  MemoryGuard(MemoryGuard&&) = delete;
  MemoryGuard& operator=(MemoryGuard&&) = delete;

  /// The program has waited: it gets the results.
  void hand_back();

  /// Where the program wrote since the posting, after hand_back(): one per buffer.
  std::span<const Memory> written() const { return written_; }

 private:
  struct Watched {
    Memory memory;
    std::uint64_t digest = 0;
  };

  void guard_output(Memory& output);
  void guard_input(Memory& input);
  void release();

  StandIns* stand_ins_;
  std::uint64_t number_;
  std::vector<StandIn*> outputs_;  // One per buffer; several may be in one.
  std::vector<StandIn*> sources_;  // What it reads, of other transfers or of its own outputs.
  std::vector<Watched> inputs_;
  std::vector<Memory> written_;
};

}  // namespace lockstep::sim
