#include "lockstep/real/launch/worker.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/real/launch/keeper.h"

namespace lockstep::launch {

namespace {

constexpr int kCannotRun = 127;

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  return {ends[0], ends[1]};
}

// What exec wants, made before fork: afterwards nothing may be allocated.
class Terminated {
 public:
  explicit Terminated(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }

  char* const* data() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// This process's environment with `variables` over it.
std::vector<std::string> environment_with(const Variables& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const auto& [own, value] : variables) replaced = replaced || own == name;
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : variables) {
    std::string entry = name;
    entry += '=';
    entry += value;
    all.push_back(std::move(entry));
  }
  return all;
}

[[noreturn]] void fail(int report) {
  const int reason = errno;
  if (write(report, &reason, sizeof reason) < 0) _exit(kCannotRun);
  _exit(kCannotRun);
}

int open_output(const std::string& file, int pipe) {
  if (file.empty()) return pipe;
  return open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

// The new process, until it executes the program.
[[noreturn]] void become(const WorkerSpec& spec,
                         const Terminated& arguments,
                         const Terminated& environment,
                         const std::array<Pipe, 2>& streams,
                         int report) {
  setpgid(0, 0);
  if (spec.keeper >= 0) Keeper::announce(spec.keeper);
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input < 0 || dup2(input, STDIN_FILENO) < 0) fail(report);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const int output = open_output(spec.files[i], streams[i].write);
    if (output < 0 || dup2(output, static_cast<int>(i) + STDOUT_FILENO) < 0) fail(report);
  }
  sigprocmask(SIG_SETMASK, &spec.mask, nullptr);
  execvpe(arguments.data()[0], arguments.data(), environment.data());
  fail(report);
}

void close_writers(const std::array<Pipe, 2>& streams) {
  for (const Pipe& stream : streams) {
    if (stream.write >= 0) close(stream.write);
  }
}

void never_block(const std::array<int, 2>& pipes) {
  for (const int pipe : pipes) {
    if (pipe >= 0) fcntl(pipe, F_SETFL, O_NONBLOCK);
  }
}

/// Why the child could not run its program, 0 when it runs: exec closes the other side in silence.
int reason_of_child(int report) {
  int reason = 0;
  return read(report, &reason, sizeof reason) < 0 ? errno : reason;
}

}  // namespace

Result<Worker> Worker::start(const WorkerSpec& spec) {
  const Terminated arguments(spec.command);
  const Terminated environment(environment_with(spec.variables));
  std::array<Pipe, 2> streams;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (spec.files[i].empty()) streams[i] = make_pipe();
  }
  const Pipe report = make_pipe();
  const pid_t launcher = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // Before that the launcher may have died; then this process would never be killed.
    if (getppid() != launcher) _exit(kCannotRun);
    become(spec, arguments, environment, streams, report.write);
  }
  int reason = pid < 0 ? errno : 0;
  close_writers(streams);
  close(report.write);
  Worker worker;
  worker.pid_ = pid;
  worker.pipes_ = {streams[0].read, streams[1].read};
  if (pid > 0) reason = reason_of_child(report.read);
  close(report.read);
  if (reason == 0) {
    setpgid(pid, pid);
    never_block(worker.pipes_);
    return worker;
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
  for (const std::int32_t stream : {0, 1}) worker.close_pipe(stream);
  return Error{"cannot run '" + spec.command.front() + "': " + strerrordesc_np(reason), {}};
}

void Worker::close_pipe(std::int32_t stream) {
  int& pipe = pipes_[static_cast<std::size_t>(stream)];
  if (pipe >= 0) close(pipe);
  pipe = -1;
}

void Worker::look() {
  if (!is_running()) return;
  siginfo_t info{};
  // It is not reaped yet, so that its pid cannot belong to another process.
  const int looked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
  if (looked != 0 || info.si_pid == 0) return;
  send(SIGKILL);
  int status = 0;
  waitpid(pid_, &status, 0);
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Worker::send(int signal) const { kill(-pid_, signal); }

}  // namespace lockstep::launch
