// One posted operation of one virtual rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/process_group.h"
#include "lockstep/sim/fiber/world.h"
#include "lockstep/sim/group/detail/call_memory.h"

namespace lockstep::sim {

class GroupRegistry;
class MemoryGuard;
class SimProcessGroup;

/// Pooled: made in the memory of its rank's runtime, given back with the last handle. The matching
/// slot or channel that it waits in holds one count.
///
/// As an ActionHandler a paired send delivers itself.
class SimWork final : public WorkState, public ActionHandler {
 public:
  static SimWork* make(SimProcessGroup& group, const CollectiveCall& call, std::int64_t seq);

  SimWork(const SimWork&) = delete;
  SimWork& operator=(const SimWork&) = delete;
  SimWork(SimWork&&) = delete;
  SimWork& operator=(SimWork&&) = delete;

  bool is_completed() override;
  CommStatus wait() override;

  std::string detail() const override { return detail_ != nullptr ? *detail_ : std::string(); }

  void on_action(const Action& action) override;

  /// All inputs, one after another.
  std::vector<std::byte> input_bytes() const { return memory_.input_bytes(); }

  /// Contributes these bytes instead of its inputs' own.
  void contribute(std::vector<std::byte> bytes) { memory_.contribute(std::move(bytes)); }

  /// A bit of the result flips as it is handed over.
  void corrupt_result(std::int64_t element, std::int32_t bit) {
    corruption_ = Corruption{element, bit};
  }

  /// What it has left in its one buffer has this name (WorkState::result_content).
  void leave(std::uint64_t content) { name_result(content); }

  /// Ends the operation: recorded, and the rank that waits for it may continue. Requires: not done.
  void complete(CommStatus status, const std::string* detail);

  bool done() const { return done_; }

  std::int64_t seq() const { return seq_; }

  /// Says who sends to a recv from any rank, and the number of the message.
  void set_sender(std::int32_t peer, std::int64_t seq);

  bool from_any_source() const { return from_any_source_; }

  std::int32_t member() const { return member_; }

  Rank rank() const { return rank_; }

  std::int32_t wrapper() const { return wrapper_; }

  CommStatus status() const { return status_; }

  SimProcessGroup& group() const { return *group_; }

  std::span<const Memory> inputs() const { return memory_.inputs(); }

  std::span<const Memory> outputs() const { return memory_.outputs(); }

  // -- links of the lists it is in: pending of its group, waiting in a channel
  SimWork* previous_pending = nullptr;
  SimWork* next_pending = nullptr;
  SimWork* next_in_channel = nullptr;
  SimWork* partner = nullptr;        ///< The other side of a paired send or recv.
  std::uint64_t deadline = 0;        ///< Number of its timer, 0 = none.
  std::uint64_t watch = 0;           ///< Its number with the watchdog, 0 = none.
  std::uint64_t delay = 0;           ///< Number of its late arrival, 0 = none.
  bool lost = false;                 ///< It never arrives.
  std::uint64_t transfer_timer = 0;  ///< A paired send: number of its message under way, 0 = none.

 private:
  struct Corruption {
    std::int64_t element = 0;
    std::int32_t bit = 0;
  };

  SimWork(SimProcessGroup& group, const CollectiveCall& call, std::int64_t seq);
  ~SimWork() override;
  void destroy() override;
  void flip_result();
  void lend();
  void look_for_touches();
  void guard();
  bool only_reads() const;
  void give_back();
  void abandon();

  GroupRegistry* registry_;
  SimProcessGroup* group_;  // Null once done: the group may be gone before the handle.
  Runtime* runtime_;
  RankHandle* handle_;
  std::int64_t seq_;
  std::uint64_t loan_ = 0;  // Number of its loans, 0 = none.
  const std::string* detail_ = nullptr;
  CallMemory memory_;
  Rank rank_;
  std::int32_t group_id_;
  std::int32_t member_;
  std::int32_t wrapper_;
  CommStatus status_ = CommStatus::kOk;
  bool done_ = false;
  std::optional<Corruption> corruption_;
  std::unique_ptr<MemoryGuard> guard_;  // Of what the user's program posted, where it is watched.
  bool from_any_source_ = false;        // A recv whose sender was open when it was posted.
};

/// A send or a recv.
bool is_message(const SimWork& work);

/// Paired with its other half, and about to be delivered.
bool has_arrived(const SimWork& work);

/// Flips bit `bit` of element `element` of `data`, which holds what `like` describes.
void flip_bit(void* data, const Memory& like, std::int64_t element, std::int32_t bit);

}  // namespace lockstep::sim
