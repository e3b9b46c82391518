// Whether a restart goes on where its files say that training was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "lockstep/laws/finding.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// Compares the epoch in whose order each attempt goes through the data first with that in which the
/// files of earlier attempts were written. The number of a shuffled order is seed + epoch, as
/// set_epoch() says it; how often a process went through its data says nothing about a restart.
///
/// A file of a later epoch that was read, or was there and was not looked for, says that steps are
/// done again. A file of the same epoch says nothing: it may have been written in the middle. Where
/// nothing is shuffled, the same bytes at the same step say the same.
class Resumes {
 public:
  void on_event(const Event& event, const NameTable& names);

  /// At most one, about the first attempt that repeats steps.
  std::optional<Advice> advice() const;

 private:
  /// seed + epoch of the order that is gone through, by split.
  using Orders = std::map<NameId, std::uint64_t>;

  struct File {
    std::string path;
    std::int64_t step = 0;
    Orders orders;
    std::uint64_t digest = 0;
  };

  struct Attempt {
    bool trains = false;
    Orders first;                          ///< The least of each split.
    std::optional<File> newest;            ///< That it wrote, by step.
    std::optional<File> read;              ///< Of those of earlier attempts, the newest.
    bool looked = false;                   ///< It read anything, or began anew on purpose.
    std::optional<std::string> looked_in;  ///< The folder in which it found nothing.
    bool repeats_bytes = false;            ///< It wrote what an earlier one had at that step.
  };

  void on_part(Attempt& attempt, std::int32_t number, File file);
  void on_read(Attempt& attempt, std::int32_t number, const File& read);
  const File* left_before(std::int32_t number) const;
  /// Whether what it did not read lay where it looked.
  static bool looked_beside(const Attempt& attempt, const File& file);
  static std::uint64_t epochs_back(const Attempt& attempt, const File& file);

  std::map<std::int32_t, Attempt> attempts_;
  std::map<std::pair<std::int32_t, Rank>, Orders> now_;  ///< By attempt and rank.
  /// What was written: by path and digest, the first attempt that did.
  std::map<std::string, std::map<std::uint64_t, std::pair<std::int32_t, File>>> files_;
};

}  // namespace lockstep::laws
