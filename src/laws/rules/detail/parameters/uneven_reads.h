// Files of which ranks read different bytes between the same two steps.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/report.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// What ranks read and wrote, kept as long as it may explain why their parameters differ:
///
///     rank 0: writes best.pt, reads b          rank 1 did not wait: reads a, what it held before
class UnevenReads {
 public:
  void on_event(const Event& event, const SnapshotEvent& snapshot, RankRange who) {
    const bool reads = snapshot.action == SnapshotAction::kRead;
    const bool writes = snapshot.action == SnapshotAction::kPart;
    // Before there is a wrapper, files cannot change what it will make equal.
    const NameId path = snapshot.detail;
    if ((!reads && !writes) || path == kNoName || event.at.wrapper < 0) return;
    File& file = files_[{wrapper_of(event.at), event.at.opt}][path];
    for (std::int32_t rank = who.first; rank < who.first + who.n; ++rank) {
      if (writes) file.writers.insert(rank);
      if (reads) file.read[rank] = snapshot.digest;
    }
  }

  /// A finding still needs what was read after this number of steps.
  void keep(WrapperKey wrapper, std::int32_t opt) { kept_.insert({wrapper, opt}); }

  /// Earlier steps of the wrapper, but for those that are kept.
  void forget_before(WrapperKey wrapper, std::int32_t opt) {
    auto at = files_.lower_bound({wrapper, 0});
    while (at != files_.end() && at->first < Place{wrapper, opt}) {
      at = kept_.contains(at->first) ? std::next(at) : files_.erase(at);
    }
  }

  /// A file of which ranks read different bytes.
  struct Difference {
    std::string text;      ///< Names the file, its readers and its writers.
    bool written = false;  ///< While they read it.
  };

  /// The first such file by its path.
  std::optional<Difference> find(WrapperKey wrapper,
                                 std::int32_t opt,
                                 const NameTable& names) const {
    const auto here = files_.find({wrapper, opt});
    if (here == files_.end()) return std::nullopt;
    std::map<std::string, const File*> by_path;  // Numbers of names depend on the order of events.
    for (const auto& [path, file] : here->second) by_path.emplace(names.text(path), &file);
    for (const auto& [path, file] : by_path) {
      const std::vector<Rank> others = file->others();
      if (others.empty()) continue;
      const Rank first{file->read.begin()->first};
      return Difference{ranks_text(others) + " read different bytes from " + path + " than " +
                            ranks_text({first}) + file->describe_writers(),
                        !file->writers.empty()};
    }
    return std::nullopt;
  }

 private:
  using Place = std::pair<WrapperKey, std::int32_t>;  // With the number of steps.

  struct File {
    std::map<std::int32_t, std::uint64_t> read;  ///< Digests by rank: of the last read.
    std::set<std::int32_t> writers;

    /// Ranks that read something else than the lowest one.
    std::vector<Rank> others() const {
      std::vector<Rank> ranks;
      for (const auto& [rank, digest] : read) {
        if (digest != read.begin()->second) ranks.push_back(Rank{rank});
      }
      return ranks;
    }

    std::string describe_writers() const {
      if (writers.empty()) return {};
      std::vector<Rank> ranks;
      for (const std::int32_t rank : writers) ranks.push_back(Rank{rank});
      return ", while " + ranks_text(ranks) + " wrote it: the readers did not wait for the write";
    }
  };

  std::map<Place, std::map<NameId, File>> files_;
  std::set<Place> kept_;
};

}  // namespace lockstep::laws
