// Everything the library needs from the world it runs in. One implementation a backend: virtual
// time, scheduling points and files in the simulator; the real ones in real runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/end_reason.h"
#include "lockstep/base/error.h"
#include "lockstep/base/types.h"

namespace lockstep {

/// The kind of the next operation that other ranks could notice.
enum class PointKind : std::uint8_t {
  kYield,     ///< Nothing visible: a place where another rank may run.
  kPost,      ///< A collective or message is about to be posted.
  kWait,      ///< A work is about to be waited for or polled.
  kFile,      ///< A file is about to be read or written.
  kDecision,  ///< A branch that may lead to collectives.
};

/// What a scheduling point announces: the footprint of the operation that follows it.
struct Point {
  PointKind kind = PointKind::kYield;
  std::uint64_t object = 0;  ///< Group slot, storage or file the operation touches; 0 = none.
};

/// Files as a rank sees them. Real runs use the disk; the simulator may use a virtual one.
///
/// The steps are those between which a crash can come. What write(), rename() and remove() did is
/// visible to all ranks at once, but a crash may undo it, or keep half of it, until sync().
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::string> read(std::string_view path) = 0;
  /// Creates the file, or replaces its contents in place.
  virtual Outcome write(std::string_view path, std::string_view bytes) = 0;
  /// Makes a file's bytes survive a crash; given a folder, its names: what was created in it,
  /// renamed and removed.
  virtual Outcome sync(std::string_view path) = 0;
  /// Replaces `to` in one step: others see the old file or the new one, never less.
  virtual Outcome rename(std::string_view from, std::string_view to) = 0;
  virtual Outcome remove(std::string_view path) = 0;
  /// Names of a folder's files, ascending. A folder that does not exist has none.
  virtual Result<std::vector<std::string>> list(std::string_view folder) = 0;
  /// Makes a folder and those above it, where they are missing.
  virtual Outcome make_folder(std::string_view folder) = 0;

  /// Publishes atomically: temporary name, sync, rename, sync of the folder. Readers see all of it
  /// or nothing, whenever a crash comes; after success it is there for good. The temporary name here
  /// is the path with ".part", which takes one writer for each path.
  virtual Outcome publish(std::string_view path, std::string_view bytes);
};

/// "ckpt" of "ckpt/model.bin", "." of a name alone.
std::string_view folder_of(std::string_view path);

/// Values computed once per world and shared by its ranks (a permutation, initial weights, a data
/// set), so that 100,000 ranks do not hold 100,000 copies. Keyed by a text that says everything the
/// value depends on; `make` must be a pure function of the key.
class Memo {
 public:
  virtual ~Memo() = default;
  virtual std::shared_ptr<const void> get(
      std::string_view key, const std::function<std::shared_ptr<const void>()>& make) = 0;
};

/// One rank's view of its world.
///
/// Deterministic: every answer is a function of the scenario, its seed and the schedule in the
///     simulator; `now` and files are real in real runs.
class Host {
 public:
  virtual ~Host() = default;

  virtual VirtualTime now() const = 0;
  virtual void sleep(Duration span) = 0;
  /// A place where the scheduler may let another rank run first. Throws RankKilled in a killed
  /// rank.
  virtual void point(const Point& next) = 0;
  /// Accounts for compute: advances the rank's virtual clock in timed mode, free in untimed mode.
  virtual void spend(Duration compute) = 0;
  virtual FileSystem& files() = 0;
  virtual Memo& memo() = 0;
  virtual std::optional<std::string> environment(std::string_view name) const = 0;
  virtual void log(std::string_view line) = 0;

  /// Errors: ContractViolation where something else than this rank's own function acts for it, as
  ///     far as the host can tell.
  virtual void check_caller() const {}
};

/// Thrown at a rank's next scheduling point after it was killed. Not a std::exception, so that user
/// code that catches std::exception cannot swallow its own death.
class RankKilled {
 public:
  explicit RankKilled(std::string reason, EndReason why = EndReason::kNone)
      : reason_(std::move(reason)), why_(why) {}

  /// Text, for people.
  const std::string& reason() const { return reason_; }

  EndReason why() const { return why_; }

 private:
  std::string reason_;
  EndReason why_;
};

}  // namespace lockstep
