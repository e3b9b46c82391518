// A disk with a write-back cache, and what is left of it after a crash.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/host.h"
#include "lockstep/sim/fiber/folders.h"

namespace lockstep::sim {

/// What becomes of that which was not synced when a machine goes down.
enum class CrashFate : std::uint8_t {
  kKept,       ///< All of it had reached the disk; also when a process dies and its machine lives.
  kLost,       ///< None of it had.
  kTorn,       ///< Names had, bytes had not, or half of them.
  kReordered,  ///< Any part of it, in any order.
};

/// Files that the ranks of a node share, or all ranks (disks.h), as file systems promise them and no
/// better: what was written is seen at once, but survives a crash only if it was synced; a new,
/// renamed or removed name only if its folder was. Renaming is one step: a crash leaves the old name
/// or the new one.
///
/// A file can be made only in a folder that was made before. A folder survives every crash.
///
/// Deterministic: a crash is a function of the operations before it, the fate and the seed.
class VirtualDisk final : public FileSystem {
 public:
  explicit VirtualDisk(std::int64_t capacity_bytes = std::numeric_limits<std::int64_t>::max())
      : capacity_(capacity_bytes) {}

  Result<std::string> read(std::string_view path) override;
  /// Errors: the disk is full; then as much is in the file as had room.
  Outcome write(std::string_view path, std::string_view bytes) override;
  Outcome sync(std::string_view path) override;
  Outcome rename(std::string_view from, std::string_view to) override;
  Outcome remove(std::string_view path) override;
  Result<std::vector<std::string>> list(std::string_view folder) override;
  Outcome make_folder(std::string_view folder) override;

  /// The machine goes down and comes back with what is left.
  void crash(CrashFate fate, std::uint64_t seed);

  void set_capacity(std::int64_t bytes) { capacity_ = bytes; }

  std::int64_t n_bytes() const;  ///< Of all files that have a name.

 private:
  struct File {
    std::string bytes;    ///< What readers see.
    std::string durable;  ///< What is on the disk.
    bool synced = false;  ///< Both are the same for certain.
  };

  using Names = std::map<std::string, std::shared_ptr<File>, std::less<>>;

  /// A change of names that no sync has made durable.
  struct Change {
    std::string folder;   ///< Whose sync settles it.
    std::string removed;  ///< A name that went, or empty.
    std::string added;    ///< A name that came, or empty.
    std::shared_ptr<File> file;
  };

  static void apply(const Change& change, Names& names);

  Names names_;
  Names durable_names_;
  std::vector<Change> changes_;
  Folders folders_;
  std::int64_t capacity_;
};

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<4> kEnumNames<sim::CrashFate> = {"kept", "lost", "torn", "reordered"};

}  // namespace lockstep
