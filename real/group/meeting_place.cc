#include "lockstep/real/group/meeting_place.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lockstep/real/group/rendezvous.h"

namespace lockstep::peers {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSession = "session-";
constexpr std::string_view kRank = "rank-";

std::string mark_of(const std::string& folder, std::int32_t rank) {
  return folder + "/left-" + std::to_string(rank);
}

/// At least one rank signed in, and the processes of all that did are known to be gone.
bool is_abandoned(const std::string& session) {
  bool signed_in = false;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(session, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kRank)) continue;
    std::int32_t rank = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, code] = std::from_chars(name.data() + kRank.size(), end, rank);
    if (code != std::errc() || stop != end) continue;
    if (exited_process(session, rank).empty()) return false;
    signed_in = true;
  }
  return signed_in;
}

void remove_abandoned(const std::string& meeting_point, const std::string& own) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(meeting_point, ignored)) {
    const std::string path = entry.path().string();
    if (!entry.path().filename().string().starts_with(kSession) || path == own) continue;
    if (is_abandoned(path)) fs::remove_all(path, ignored);
  }
}

}  // namespace

Result<std::unique_ptr<MeetingPlace>> MeetingPlace::join(const std::string& meeting_point,
                                                         std::int32_t rank,
                                                         std::int32_t size,
                                                         std::chrono::milliseconds timeout) {
  const Result<std::string> session = join_session(meeting_point, rank, size, timeout);
  if (!session.ok()) return session.error();
  std::unique_ptr<MeetingPlace> place(
      new MeetingPlace(meeting_point, session.value(), rank, size));  // NOLINT
  if (rank == 0) remove_abandoned(meeting_point, place->folder_);
  return place;
}

void MeetingPlace::close_doors() {
  if (rank_ != 0 || !doors_are_open_) return;
  doors_are_open_ = false;
  std::error_code ignored;
  fs::remove(meeting_point_ + "/leader", ignored);
}

bool MeetingPlace::is_last() const {
  std::error_code ignored;
  for (std::int32_t rank = 0; rank < size_; ++rank) {
    if (fs::exists(mark_of(folder_, rank), ignored)) continue;
    if (exited_process(folder_, rank).empty()) return false;
  }
  return true;
}

MeetingPlace::~MeetingPlace() {
  close_doors();
  { const std::ofstream mark(mark_of(folder_, rank_)); }
  if (!is_last()) return;
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
  fs::remove(meeting_point_, ignored);  // Only if it is empty.
}

}  // namespace lockstep::peers
