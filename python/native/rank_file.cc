#include "lockstep/python/native/rank_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace lockstep::python {

Result<std::unique_ptr<RankFile>> RankFile::open(const std::string& folder,
                                                 const TraceHeader& header,
                                                 std::int32_t attempt,
                                                 Rank rank) {
  auto stream = JsonlStream::open(folder, header, attempt, rank);
  if (!stream.ok()) return stream.error();
  if (Outcome closed = stream.value()->close(); !closed.ok()) return closed.error();
  std::string path = folder + "/" + rank_file_name(attempt, rank);
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file < 0) {
    return Error{"cannot open the file: " + std::generic_category().message(errno), path};
  }
  return std::unique_ptr<RankFile>(new RankFile(file, std::move(path)));
}

RankFile::RankFile(int file, std::string path)
    : file_(file), path_(std::move(path)), owner_(::getpid()) {}

RankFile::~RankFile() { (void)close(); }

namespace {

// A signal handler reaches nothing but what is global.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<RankFile*> aborting_file = nullptr;
struct sigaction action_before = {};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

void RankFile::flush_on_abort() {
  aborting_file = this;
  [[maybe_unused]] static const bool installed = [] {
    struct sigaction action = {};
    action.sa_handler = &RankFile::on_abort;
    return ::sigaction(SIGABRT, &action, &action_before) == 0;
  }();
}

/// Calls nothing but write() and what raises the signal again. No line is being added meanwhile: the
/// thread that adds them is not inside this library when a backend gives up.
void RankFile::on_abort(int signal) {
  const RankFile* const file = aborting_file.exchange(nullptr);
  if (file != nullptr && file->is_writable()) {
    (void)!::write(file->file_, file->waiting_.data(), file->waiting_.size());
  }
  ::sigaction(signal, &action_before, nullptr);
  ::raise(signal);
}

bool RankFile::is_writable() const {
  return file_ >= 0 && failure_.empty() && owner_ == ::getpid();
}

void RankFile::fail(const char* what) {
  failure_ = what + std::string(": ") + std::generic_category().message(errno);
}

void RankFile::append(std::string_view lines) {
  if (!is_writable()) return;
  take_back();
  waiting_ += lines;
  if (waiting_.size() > kMostWaiting) (void)flush();
}

void RankFile::append_for_now(std::string_view line) {
  if (!is_writable()) return;
  take_back();
  if (!flush().ok()) return;
  const off_t size = ::lseek(file_, 0, SEEK_END);
  if (size < 0) return fail("cannot measure the file");
  append(line);
  (void)flush();
  kept_size_ = size;
}

void RankFile::take_back() {
  if (kept_size_ < 0) return;
  if (::ftruncate(file_, std::exchange(kept_size_, -1)) != 0) fail("cannot shorten the file");
}

Outcome RankFile::flush() {
  if (!is_writable()) return failure_.empty() ? success() : Outcome(Error{failure_, path_});
  std::string_view bytes = waiting_;
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("cannot write the file");
      return Error{failure_, path_};
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  waiting_.clear();
  return success();
}

Outcome RankFile::close() {
  if (file_ < 0) return success();
  RankFile* self = this;
  aborting_file.compare_exchange_strong(self, nullptr);
  Outcome flushed = flush();
  if (owner_ == ::getpid() && failure_.empty() && ::fsync(file_) != 0) {
    fail("cannot sync the file");
    flushed = Error{failure_, path_};
  }
  ::close(std::exchange(file_, -1));
  return flushed;
}

}  // namespace lockstep::python
