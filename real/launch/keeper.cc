#include "lockstep/real/launch/keeper.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <set>
#include <string_view>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace lockstep::launch {

namespace {

// What the launcher says: a group's number to keep it, minus that to forget it, 0 for the end; or this,
// followed by how the path of a folder begins.
constexpr pid_t kEnd = 0;
constexpr pid_t kMakeFolder = std::numeric_limits<pid_t>::min();

/// A number, followed by a path.
struct NumberAndPath {
  int word = kEnd;
  std::array<char, PATH_MAX> text{};
};

/// Callable between fork and exec.
bool say(int handle, int word) {
  ssize_t n = 0;
  while ((n = send(handle, &word, sizeof word, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return n >= 0;
}

bool say(int handle, int word, std::string_view text) {
  NumberAndPath message;
  message.word = word;
  if (text.size() >= message.text.size()) {
    errno = ENAMETOOLONG;
    return false;
  }
  text.copy(message.text.data(), text.size());
  ssize_t n = 0;
  while ((n = send(handle, &message, sizeof word + text.size(), MSG_NOSIGNAL)) < 0 &&
         errno == EINTR) {
  }
  return n >= 0;
}

/// False: the other end is gone.
bool hear(int handle, NumberAndPath& message) {
  for (;;) {
    message.text.fill('\0');
    const ssize_t n = recv(handle, &message, sizeof message - 1, 0);
    // The other end is gone and had not read all; what it said before is still to come.
    if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
    return n >= static_cast<ssize_t>(sizeof message.word);
  }
}

/// What is to be ended and removed.
struct Charges {
  std::set<pid_t> groups;
  std::vector<std::string> folders;
};

void make_folder_for(int handle, std::string path, Charges& charges) {
  path += "XXXXXX";
  const int reason = mkdtemp(path.data()) != nullptr ? 0 : errno;
  if (reason == 0) charges.folders.push_back(path);
  say(handle, reason, path);
}

/// What is left when the launcher dies; does not return once that has said that it ends.
Charges listen_until_death(int handle) {
  Charges charges;
  NumberAndPath message;
  while (hear(handle, message)) {
    const pid_t word = message.word;
    if (word == kEnd) _exit(0);
    if (word == kMakeFolder) {
      make_folder_for(handle, message.text.data(), charges);
    } else if (word > 0) {
      charges.groups.insert(word);
    } else {
      charges.groups.erase(-word);
    }
  }
  return charges;
}

/// Processes that are being killed may still make files.
void remove_for_good(const std::string& folder) {
  namespace fs = std::filesystem;
  constexpr int kTries = 50;
  constexpr auto kPause = std::chrono::milliseconds(20);
  std::error_code failed;
  for (int i = 0; i < kTries; ++i) {
    fs::remove_all(folder, failed);
    if (!fs::exists(folder, failed)) return;
    std::this_thread::sleep_for(kPause);
  }
}

[[noreturn]] void keep(int handle) {
  setsid();
  prctl(PR_SET_NAME, "lockstep-keeper");
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) {
    static_cast<void>(std::signal(signal, SIG_IGN));
  }
  // It keeps no file, pipe or terminal of the launcher open.
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, stream);
  constexpr int kOwn = STDERR_FILENO + 1;
  if (handle != kOwn) dup2(handle, kOwn);
  close_range(kOwn + 1, ~0U, 0);
  const Charges left = listen_until_death(kOwn);
  for (const pid_t group : left.groups) kill(-group, SIGKILL);
  for (const std::string& folder : left.folders) remove_for_good(folder);
  _exit(0);
}

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::start() {
  std::array<int, 2> ends = {-1, -1};
  const bool paired = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0;
  const pid_t pid = paired ? fork() : -1;
  if (pid < 0) {
    const int reason = errno;
    if (paired) close(ends[0]);
    if (paired) close(ends[1]);
    return Error{
        std::string("cannot start a process that ends the ranks when this one is killed: ") +
            strerrordesc_np(reason),
        {}};
  }
  if (pid == 0) {
    close(ends[1]);
    keep(ends[0]);
  }
  close(ends[0]);
  return std::unique_ptr<Keeper>(new Keeper(pid, ends[1]));
}

Keeper::~Keeper() {
  say(socket_, kEnd);
  close(socket_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::announce(int handle) { say(handle, getpid()); }

void Keeper::forget(pid_t group) const { say(socket_, -group); }

Result<std::string> Keeper::make_folder(const std::string& start) const {
  NumberAndPath answer;
  if (!say(socket_, kMakeFolder, start)) {
    answer.word = errno;
  } else if (!hear(socket_, answer)) {
    answer.word = EPIPE;
  }
  if (answer.word == 0) return std::string(answer.text.data());
  return Error{std::string("cannot make a temporary folder: ") + strerrordesc_np(answer.word),
               start};
}

std::string below_tmpdir(const std::string& name) {
  const char* const folder = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  return std::string(folder == nullptr ? "/tmp" : folder) + "/" + name;
}

Result<std::unique_ptr<KeptFolder>> KeptFolder::make(const Keeper& keeper,
                                                     const std::string& start) {
  Result<std::string> path = keeper.make_folder(start);
  if (!path.ok()) return path.error();
  return std::unique_ptr<KeptFolder>(new KeptFolder(std::move(path).value()));
}

KeptFolder::~KeptFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace lockstep::launch
