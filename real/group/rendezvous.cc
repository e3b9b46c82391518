#include "lockstep/real/group/rendezvous.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <sys/random.h>
#include <thread>
#include <unistd.h>

namespace lockstep::peers {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPause{2};

/// A process, named so that its number can be used again without confusion.
struct ProcessName {
  std::string host;
  std::int64_t pid = 0;
  std::string start;  // Ticks since boot, from /proc; empty if there is no /proc.
};

/// What rank 0 sends to the others.
struct Leader {
  ProcessName process;
  std::string session;
  std::int32_t size = 0;
};

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// The 22nd field of /proc/PID/stat; the second may hold spaces and ends with the last ')'. Of a
// process that has ended and waits for its parent to notice (state Z or X), nothing.
std::string start_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return {};
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return {};
  std::istringstream fields(text.substr(end_of_name + 1));
  char state = ' ';
  fields >> state;
  if (state == 'Z' || state == 'X') return {};
  std::string field;
  constexpr int kFieldsAfterState = 19;
  for (int i = 0; i < kFieldsAfterState; ++i) fields >> field;
  return field;
}

ProcessName own_name() {
  const std::int64_t pid = getpid();
  return {host_name(), pid, start_of(pid)};
}

// Processes of other machines count as alive: nothing here can tell.
bool may_be_alive(const ProcessName& process) {
  return process.host != host_name() || start_of(process.pid) == process.start;
}

std::string fresh_name() {
  std::array<unsigned char, 8> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes = {};
  std::string name = "session-";
  for (const unsigned char byte : bytes) {
    std::array<char, 3> word{};
    std::snprintf(word.data(), word.size(), "%02x", byte);
    name += word.data();
  }
  return name;
}

Error failed(const std::string& what, const std::string& path) {
  return {what + ": " + std::generic_category().message(errno), path};
}

Outcome write_whole(const std::string& path, const std::string& text, int flags) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (file < 0) return failed("cannot write", path);
  const ssize_t written = write(file, text.data(), text.size());
  const bool closed = close(file) == 0;
  if (written != static_cast<ssize_t>(text.size()) || !closed) return failed("cannot write", path);
  return success();
}

std::optional<Leader> read_leader(const std::string& path) {
  std::ifstream file(path);
  Leader leader;
  file >> leader.process.host >> leader.process.pid >> leader.session >> leader.size;
  if (!file) return std::nullopt;
  file >> leader.process.start;
  return leader;
}

// With its parents. A rank that leaves the meeting before may remove the empty one at any moment: between the making of
// the parent and that of the folder ("no such file"), and after another rank has made it ("exists", which a link that
// leads nowhere is for good).
std::error_code make_folder(const std::string& path, Clock::time_point deadline) {
  constexpr int kMostRaces = 1000;
  int n_races = 0;
  while (true) {
    std::error_code code;
    std::filesystem::create_directories(path, code);
    if (code != std::errc::no_such_file_or_directory && code != std::errc::file_exists) return code;
    if (code == std::errc::file_exists && ++n_races == kMostRaces) return code;
    if (Clock::now() >= deadline) return code;
  }
}

Result<std::string> lead(const std::string& folder, std::int32_t size, Clock::time_point deadline) {
  const ProcessName self = own_name();
  const std::string session = fresh_name();
  std::error_code code = make_folder(folder + "/" + session, deadline);
  if (code) return Error{"cannot make this folder: " + code.message(), folder + "/" + session};
  const std::string text = self.host + " " + std::to_string(self.pid) + " " + session + " " +
                           std::to_string(size) + " " + self.start + "\n";
  const std::string part = folder + "/leader." + session;
  if (Outcome written = write_whole(part, text, O_TRUNC); !written.ok()) return written.error();
  std::filesystem::rename(part, folder + "/leader", code);
  if (code) return Error{"cannot publish this file: " + code.message(), folder + "/leader"};
  return folder + "/" + session;
}

Result<std::string> follow(const std::string& folder,
                           std::int32_t rank,
                           std::int32_t size,
                           std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  bool gone = false;
  while (true) {
    if (const std::optional<Leader> leader = read_leader(folder + "/leader")) {
      gone = !may_be_alive(leader->process);
      if (!gone && leader->size != size) {
        return Error{"rank 0 has a world of " + std::to_string(leader->size) + ", rank " +
                         std::to_string(rank) + " one of " + std::to_string(size),
                     folder};
      }
      if (!gone) return folder + "/" + leader->session;
    }
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kPause);
  }
  const std::string seconds = std::to_string(timeout.count()) + " ms";
  return Error{gone ? "stale rendezvous: the process of its rank 0 is gone, and no other arrived "
                      "within " +
                          seconds
                    : "rank 0 did not arrive within " + seconds,
               folder};
}

std::string entry_of(const std::string& session, std::int32_t rank) {
  return session + "/rank-" + std::to_string(rank);
}

}  // namespace

std::string exited_process(const std::string& session, std::int32_t rank) {
  std::ifstream file(entry_of(session, rank));
  ProcessName process;
  file >> process.host >> process.pid;
  if (!file) return {};  // It has not signed in yet.
  file >> process.start;
  return may_be_alive(process) ? std::string() : "process " + std::to_string(process.pid);
}

Result<std::string> join_session(const std::string& folder,
                                 std::int32_t rank,
                                 std::int32_t size,
                                 std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  const std::error_code code = make_folder(folder, deadline);
  if (code) return Error{"cannot make this folder: " + code.message(), folder};
  Result<std::string> session =
      rank == 0 ? lead(folder, size, deadline) : follow(folder, rank, size, timeout);
  if (!session.ok()) return session;
  const std::string entry = entry_of(session.value(), rank);
  const ProcessName self = own_name();
  const std::string text = self.host + " " + std::to_string(self.pid) + " " + self.start + "\n";
  if (Outcome written = write_whole(entry, text, O_EXCL); !written.ok()) {
    if (errno != EEXIST) return written.error();
    return Error{"two processes claim to be rank " + std::to_string(rank), folder};
  }
  return session;
}

}  // namespace lockstep::peers
