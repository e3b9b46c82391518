// One rank's control block: its Host, its state, what it waits for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/sim/engine/engine.h"
#include "lockstep/sim/fiber/world.h"

namespace lockstep::sim {

class RankSlot;

/// The rank's view of the shared file system: every access is a scheduling point, and a killed
/// rank's writes are dropped.
class RankFiles final : public FileSystem {
 public:
  explicit RankFiles(RankSlot& slot) : slot_(&slot) {}

  Result<std::string> read(std::string_view path) override;
  Outcome write(std::string_view path, std::string_view bytes) override;
  Outcome sync(std::string_view path) override;
  Outcome rename(std::string_view from, std::string_view to) override;
  Outcome remove(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view folder) override;
  Outcome make_folder(std::string_view folder) override;

 private:
  /// The scheduling point before each operation. True: the rank is dead, nothing may happen.
  bool gone(std::string_view path);
  FileSystem& files();

  RankSlot* slot_;
};

enum class RankState : std::uint8_t { kReady, kRunning, kBlocked, kSleeping, kEnded };

/// Of a rank that has not waited yet.
inline constexpr WaitReason kNoReason{};

/// What the parts of the scheduler know of a rank, and write. What a switch reads comes first.
struct RankControl {
  Scheduler* scheduler = nullptr;
  Engine::Fiber fiber = Engine::kMain;  ///< kMain: not started.
  Rank rank{};
  RankState state = RankState::kBlocked;
  bool interrupt_pending : 1 = false;  ///< Killed or interrupted: at its next point.
  bool kill_pending : 1 = false;       ///< Gets RankKilled at its next point.
  bool fenced : 1 = false;             ///< Killed: nothing it does from now on has an effect.
  std::uint16_t n_kill_notices = 0;    ///< How often RankKilled was thrown.
  std::uint32_t generation = 0;        ///< Grows with each sleep: a timer of an older one is stale.
  std::int64_t clock_ns = 0;  ///< Own clock; ahead of the world's by compute not yet waited for.
  /// While it is blocked: in the frame of the call that it waits in. Not to be read once it runs.
  const WaitReason* reason = &kNoReason;
};

/// Small on purpose: a world may have a million of them. One cache line is all that a switch, a wait
/// and a wake-up read.
class alignas(64) RankSlot final : public RankHandle {
 public:
  RankSlot() : files_(*this) {}

  RankControl& control() { return control_; }

  const RankControl& control() const { return control_; }

  Rank rank() const override { return control_.rank; }

  World& world() const override;
  bool block(const WaitReason& reason) override;

  VirtualTime now() const override;
  void sleep(Duration span) override;
  void point(const Point& next) override;
  void spend(Duration compute) override;

  FileSystem& files() override { return files_; }

  Memo& memo() override;
  std::optional<std::string> environment(std::string_view name) const override;
  void log(std::string_view line) override;
  void check_caller() const override;

  /// Throws RankKilled in a killed rank. True: killed, but unwinding already, where nothing may
  /// throw.
  bool dying() { return control_.interrupt_pending && throw_if_killed(); }

  /// The rank's own time, from which its clock may differ.
  VirtualTime local_time() const;

 private:
  bool throw_if_killed();
  [[noreturn]] void refuse_caller() const;

  RankControl control_;
  RankFiles files_;
};

static_assert(sizeof(RankSlot) == 64);

}  // namespace lockstep::sim
