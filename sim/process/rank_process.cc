#include "lockstep/sim/process/rank_process.h"

#include <cerrno>
#include <csignal>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace lockstep::sim {

namespace {

// A process that waits for its reply takes it at once; one that takes nothing for so long never
// will.
constexpr int kSendSlices = 500;
constexpr int kPollMs = 10;

}  // namespace

RankProcess::RankProcess(const ProcessHandles& handles)
    : socket_(handles.socket),
      pid_(handles.pid),
      arena_(handles.arena),
      arena_bytes_(handles.arena_bytes),
      packet_(kMaxPacket + 1) {
  if (pid_ > 0) pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

RankProcess::~RankProcess() {
  if (!exit_) kill();
  if (socket_ >= 0) ::close(socket_);
  if (pidfd_ >= 0) ::close(pidfd_);
  if (pid_ > 0 && !exit_) ::waitpid(pid_, nullptr, 0);
}

void RankProcess::read() {
  // A child of the process may keep its socket open: then nothing comes, and no end either. What it
  // has sent before it ended is there once its end is seen.
  const bool ended = pid_ > 0 && n_replies_due_ == 0 && poll_exit();
  // An end may be reported before what was sent ahead of it: the kernel finds no message, the other
  // side sends its last one and closes, and only then the kernel looks whether it is closed. An end
  // with unread replies is an error that is reported first. Asked again, it gives the message.
  bool closed = false;
  while (!gone_ && requests_.size() < kMostWaiting) {
    const ssize_t n = ::recv(socket_, packet_.data(), packet_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n <= 0) {
      gone_ = std::exchange(closed, true);
    } else if (static_cast<std::size_t>(n) > kMaxPacket) {
      set_problem(fmt::format("a packet of more than {} bytes", kMaxPacket));
    } else {
      receive({packet_.data(), static_cast<std::size_t>(n)});
    }
  }
  if (ended && requests_.size() < kMostWaiting) gone_ = true;
}

void RankProcess::receive(std::string_view packet) {
  Request request;
  const Result<bool> complete = assembly_.add(packet, request);
  if (!complete.ok()) return set_problem(complete.error().message);
  if (complete.value()) keep(std::move(request));
}

void RankProcess::keep(Request request) {
  if (request.kind == RequestKind::kStack) {
    stack_ = std::move(request.body);
    return;
  }
  if (expects_reply(request) || request.kind == RequestKind::kEnd) ++n_replies_due_;
  requests_.push_back(std::move(request));
}

Request RankProcess::take() {
  Request request = std::move(requests_.front());
  requests_.pop_front();
  if (expects_reply(request) || request.kind == RequestKind::kEnd) --n_replies_due_;
  return request;
}

void RankProcess::set_problem(std::string problem) {
  problem_ = std::move(problem);
  gone_ = true;
}

bool RankProcess::send(const Reply& reply) {
  for (const std::string& packet : packets_of(reply)) {
    for (int slice = 0;; ++slice) {
      const ssize_t n = ::send(socket_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (n >= 0) break;
      const bool full = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
      if (!full || slice >= kSendSlices) return false;
      pollfd room{.fd = socket_, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, kPollMs);
    }
  }
  return true;
}

bool RankProcess::define(const NameRequest& request) {
  if (request.id >= kMaxNames) return false;
  return names_.try_emplace(request.id, request.text).second;
}

const char* RankProcess::name(std::uint32_t id) const {
  if (id == kNoName) return "";
  const auto found = names_.find(id);
  return found == names_.end() ? nullptr : found->second.c_str();
}

Result<CallSite> RankProcess::site(std::uint32_t file,
                                   std::int32_t line,
                                   std::uint32_t scope) const {
  const char* file_name = name(file);
  const char* scope_name = name(scope);
  if (file_name == nullptr || scope_name == nullptr) {
    return Error{fmt::format("name {} is not defined", file_name == nullptr ? file : scope), {}};
  }
  return CallSite{file_name, line, scope_name};
}

Result<Memory> RankProcess::memory(const ArenaSlice& slice, DType dtype) const {
  const auto width = static_cast<std::uint64_t>(size_of(dtype));
  const bool fits =
      slice.count >= 0 && slice.offset <= arena_bytes_ &&
      static_cast<std::uint64_t>(slice.count) <= (arena_bytes_ - slice.offset) / width;
  if (!fits || slice.offset % width != 0) {
    return Error{
        fmt::format("{} elements of {} at byte {} do not lie in an arena of {} bytes, at a "
                    "multiple of their size",
                    slice.count,
                    name_of(dtype),
                    slice.offset,
                    arena_bytes_),
        {}};
  }
  return Memory{.data = arena_ + slice.offset, .count = slice.count, .dtype = dtype};
}

void RankProcess::kill() {
  if (killed_) return;
  killed_ = true;
  if (pid_ > 0 && !exit_) {
    ::kill(pid_, SIGKILL);
  } else {
    ::shutdown(socket_, SHUT_RDWR);
  }
}

const std::optional<ProcessExit>& RankProcess::poll_exit() {
  if (exit_) return exit_;
  if (pid_ <= 0) {
    if (gone_) exit_ = ProcessExit{};
    return exit_;
  }
  int status = 0;
  const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
  if (ended == 0) return exit_;
  if (ended != pid_) {  // Not a child of this process, which will not hear how it ended.
    pollfd end{.fd = pidfd_, .events = POLLIN, .revents = 0};  // Its process may be left a zombie.
    if (pidfd_ >= 0 ? ::poll(&end, 1, 0) == 0 : ::kill(pid_, 0) == 0) return exit_;
  }
  exit_ = ProcessExit{};
  if (ended != pid_) return exit_;
  if (WIFEXITED(status)) exit_->code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) exit_->signal = WTERMSIG(status);
  return exit_;
}

}  // namespace lockstep::sim
