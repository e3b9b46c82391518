#include "lockstep/real/launch/keeper.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace lockstep::launch {

namespace {

// What goes through the pipe: a group's number to keep it, minus that to forget it, 0 for the end.
constexpr pid_t kEnd = 0;

void say(int handle, pid_t word) {
  while (write(handle, &word, sizeof word) < 0 && errno == EINTR) {
  }
}

/// The groups that are left when the pipe breaks; nothing once the launcher has said that it ends.
std::set<pid_t> listen_until_death(int handle) {
  std::set<pid_t> groups;
  pid_t word = 0;
  for (;;) {
    const ssize_t n = read(handle, &word, sizeof word);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof word) return groups;
    if (word == kEnd) _exit(0);
    if (word > 0) groups.insert(word);
    if (word < 0) groups.erase(-word);
  }
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

[[noreturn]] void keep(int handle, const std::vector<std::string>& folders) {
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
  for (const pid_t group : listen_until_death(kOwn)) kill(-group, SIGKILL);
  for (const std::string& folder : folders) remove_for_good(folder);
  _exit(0);
}

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::start(const std::vector<std::string>& folders) {
  std::array<int, 2> ends = {-1, -1};
  const bool piped = pipe2(ends.data(), O_CLOEXEC) == 0;
  const pid_t pid = piped ? fork() : -1;
  if (pid < 0) {
    const int reason = errno;
    if (piped) close(ends[0]);
    if (piped) close(ends[1]);
    return Error{
        std::string("cannot start a process that ends the ranks when this one is killed: ") +
            strerrordesc_np(reason),
        {}};
  }
  if (pid == 0) {
    close(ends[1]);
    keep(ends[0], folders);
  }
  close(ends[0]);
  return std::unique_ptr<Keeper>(new Keeper(pid, ends[1]));
}

Keeper::~Keeper() {
  say(pipe_, kEnd);
  close(pipe_);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::announce(int handle) { say(handle, getpid()); }

void Keeper::forget(pid_t group) const { say(pipe_, -group); }

}  // namespace lockstep::launch
