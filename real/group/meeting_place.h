// One meeting of processes that may meet several times in the same folder, and leave nothing there.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::peers {

/// A folder that the ranks of one world have in common, for as long as one of them needs it.
///
/// A process may take part in one meeting after the other, without counting them: the name of each
/// meeting is fresh, and no rank finds one whose doors are closed. The last rank to leave removes
/// the folder, and `meeting_point` if nothing else is in it; ranks whose process is gone do not
/// count. What a run left behind whose processes were all killed is removed by rank 0 of the next.
class MeetingPlace {
 public:
  /// Waits for rank 0. Errors: those of join_session.
  static Result<std::unique_ptr<MeetingPlace>> join(const std::string& meeting_point,
                                                    std::int32_t rank,
                                                    std::int32_t size,
                                                    std::chrono::milliseconds timeout);
  /// Leaves.
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;
  MeetingPlace(MeetingPlace&&) = delete;
  MeetingPlace& operator=(MeetingPlace&&) = delete;

  const std::string& folder() const { return folder_; }

  /// From now on this meeting is not found: a rank that comes to the meeting point waits for the
  /// next one. Only rank 0 does anything.
  /// Requires: all ranks have joined.
  void close_doors();

 private:
  MeetingPlace(std::string meeting_point, std::string folder, std::int32_t rank, std::int32_t size)
      : meeting_point_(std::move(meeting_point)),
        folder_(std::move(folder)),
        rank_(rank),
        size_(size) {}

  bool is_last() const;

  std::string meeting_point_;
  std::string folder_;
  std::int32_t rank_;
  std::int32_t size_;
  bool doors_are_open_ = true;
};

}  // namespace lockstep::peers
