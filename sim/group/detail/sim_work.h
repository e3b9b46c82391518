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

/// What an operation was called with, shared by those that were called alike: as a rule all members
/// of a group.
class SharedSignature final : public Counted {
 public:
  /// One that says what `signature` says, call site included: `known` if it does; otherwise it
  /// becomes `known`.
  static Ref<SharedSignature> of(const Signature& signature, Ref<SharedSignature>& known);

  const Signature& get() const { return signature_; }

 private:
  explicit SharedSignature(const Signature& signature) : signature_(signature) {}

  Signature signature_;
};

/// Pooled: made in the memory of its rank's runtime, given back with the last handle. The matching
/// slot or channel that it waits in holds one count.
///
/// As an ActionHandler a paired send delivers itself.
///
/// Four cache lines, the order of whose members is that of their use: a thousand members of a group
/// are in no cache when they complete one after the other, which touches the first two.
class SimWork final : public WorkState, public ActionHandler {
 public:
  /// `known`: what was last called with in this place, as SharedSignature::of has it.
  static SimWork* make(SimProcessGroup& group,
                       const CollectiveCall& call,
                       std::int64_t seq,
                       Ref<SharedSignature>& known);

  SimWork(const SimWork&) = delete;
  SimWork& operator=(const SimWork&) = delete;
  SimWork(SimWork&&) = delete;
  SimWork& operator=(SimWork&&) = delete;

  const Signature& signature() const override { return signature_->get(); }

  bool is_completed() override;
  CommStatus wait() override;

  std::string detail() const override { return detail_ != nullptr ? *detail_ : std::string(); }

  void on_action(const Action& action) override;

  /// All inputs, one after another.
  std::vector<std::byte> input_bytes() const { return memory_.input_bytes(); }

  /// Contributes these bytes instead of its inputs' own.
  void contribute(std::vector<std::byte> bytes);

  /// A bit of the result flips as it is handed over.
  void corrupt_result(std::int64_t element, std::int32_t bit);

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

  /// Starts to load what moving its data and completing it will read and write.
  void prefetch() const {
    const auto* const line = reinterpret_cast<const std::byte*>(this);
    for (std::size_t i = 0; i < 3; ++i) __builtin_prefetch(line + i * 64, 1);
  }

 private:
  /// What injected faults have made of it.
  struct Tampering {
    struct Corruption {
      std::int64_t element = 0;
      std::int32_t bit = 0;
    };

    std::vector<std::byte> contribution;  // Instead of the inputs' own memory.
    std::optional<Corruption> corruption;
  };

  SimWork(SimProcessGroup& group,
          const CollectiveCall& call,
          std::int64_t seq,
          Ref<SharedSignature>& known);
  ~SimWork() override;
  void destroy() override;
  Tampering& tampering();
  void flip_result();
  void lend();
  void look_for_touches();
  void guard();
  bool only_reads() const;
  void give_back();
  void abandon();

  Ref<SharedSignature> signature_;
  SimProcessGroup* group_;  // Null once done: the group may be gone before the handle.
  Runtime* runtime_;
  RankHandle* handle_;
  // The second line.
  std::int64_t seq_;
  Rank rank_;
  std::int32_t member_;
  std::int32_t wrapper_;
  CommStatus status_ = CommStatus::kOk;
  bool done_ = false;
  bool from_any_source_;  // A recv whose sender was open when it was posted.

 public:
  bool lost = false;  ///< It never arrives.
  // -- links of the lists it is in: pending of its group, waiting in a channel
  SimWork* previous_pending = nullptr;
  SimWork* next_pending = nullptr;

 private:
  const std::string* detail_ = nullptr;
  CallMemory memory_;  // Its list is the third line.
  // The fourth line.
  std::uint64_t loan_ = 0;              // Number of its loans, 0 = none.
  std::unique_ptr<MemoryGuard> guard_;  // Of what the user's program posted, where it is watched.
  std::unique_ptr<Tampering> tampering_;

 public:
  SimWork* next_in_channel = nullptr;
  SimWork* partner = nullptr;  ///< The other side of a paired send or recv.
  /// Number of its deadline; negative: of its place with the watchdog; 0 = it may wait forever.
  std::int64_t limit = 0;
  std::uint64_t delay = 0;           ///< Number of its late arrival, 0 = none.
  std::uint64_t transfer_timer = 0;  ///< A paired send: number of its message under way, 0 = none.
};

/// A send or a recv.
bool is_message(const SimWork& work);

/// Paired with its other half, and about to be delivered.
bool has_arrived(const SimWork& work);

/// Flips bit `bit` of element `element` of `data`, which holds what `like` describes.
void flip_bit(void* data, const Memory& like, std::int64_t element, std::int32_t bit);

}  // namespace lockstep::sim
