#include "lockstep/python/native/watch.h"

#include <cerrno>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "lockstep/formats/trace_tail.h"
#include "lockstep/laws/live_check.h"
#include "lockstep/laws/report.h"

namespace lockstep::python {

namespace {

constexpr const char* kCapsule = "lockstep.watch";

/// A folder and what the laws have seen of it.
class FolderWatch {
 public:
  FolderWatch(std::string folder, LawPolicy policy)
      : tail_(std::move(folder)), policy_(std::move(policy)) {}

  /// Empty: nothing new.
  std::string poll(bool in_silence) {
    read();
    if (!check_) return {};
    std::string report;
    if (check_->n_cuts() != n_judged_) {
      n_judged_ = check_->n_cuts();
      report = in_a_copy(false);
    } else if (in_silence && n_read_ != n_calls_judged_) {
      n_calls_judged_ = n_read_;
      report = in_a_copy(true);
    }
    return report;
  }

 private:
  /// The check is made with the first event: there is a header by then.
  class Forward final : public EventSink {
   public:
    explicit Forward(FolderWatch& watch) : watch_(&watch) {}

    void on_event(const Event& event, const NameTable& names) override {
      watch_->check().on_event(event, names);
    }

   private:
    FolderWatch* watch_;
  };

  [[noreturn]] static void refuse(const Error& error) {
    PyErr_SetString(PyExc_ValueError, error.text().c_str());
    throw PythonError();
  }

  void read() {
    Forward forward(*this);
    const Result<std::int64_t> n = tail_.poll(forward);
    if (!n.ok()) refuse(n.error());
    n_read_ += n.value();
  }

  LiveCheck& check() {
    if (!check_) {
      Result<LiveCheck> made = LiveCheck::make(*tail_.header(), policy_, tail_.names());
      if (!made.ok()) refuse(made.error());
      check_.emplace(std::move(made).value());
    }
    return *check_;
  }

  /// Laws conclude once. A copy of this process concludes for them, so that they can go on reading.
  std::string in_a_copy(bool calls) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child == 0) {
      ::close(ends[0]);
      ::_exit(conclude(calls, ends[1]));
    }
    ::close(ends[1]);
    std::string text = read_all(ends[0]);
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (status != 0) throw std::runtime_error("the laws could not be asked");
    return text;
  }

  int conclude(bool calls, int pipe) {
    try {
      Report report;
      report.n_ranks = tail_.header()->n_ranks;
      report.laws = calls ? check_->finish_calls() : check_->finish();
      const std::string text = render_json(report);
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t n = ::write(pipe, text.data() + at, text.size() - at);
        if (n < 0 && errno != EINTR) return 1;
        at += n < 0 ? 0 : static_cast<std::size_t>(n);
      }
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }

  static std::string read_all(int pipe) {
    std::string text;
    char part[1 << 16];
    for (;;) {
      const ssize_t n = ::read(pipe, part, sizeof part);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return text;
      text.append(part, static_cast<std::size_t>(n));
    }
  }

  TraceTail tail_;
  LawPolicy policy_;
  std::optional<LiveCheck> check_;
  std::int64_t n_read_ = 0;
  std::int64_t n_judged_ = 0;
  std::int64_t n_calls_judged_ = 0;
};

FolderWatch& watch_in(PyObject* capsule) {
  auto* const watch = static_cast<FolderWatch*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (watch == nullptr) throw PythonError();
  return *watch;
}

void release_watch(PyObject* capsule) {
  delete static_cast<FolderWatch*>(PyCapsule_GetPointer(capsule, kCapsule));
}

}  // namespace

PyObject* watch_open(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    const Arguments arguments(values, n, 3);
    LawPolicy policy;
    policy.buffers = arguments.named<BufferPolicy>(2);
    for (const std::string_view allowed : arguments.texts(1)) policy.allow.emplace_back(allowed);
    auto watch = std::make_unique<FolderWatch>(std::string(arguments.text(0)), std::move(policy));
    Owned capsule(checked(PyCapsule_New(watch.get(), kCapsule, release_watch)));
    (void)watch.release();
    return capsule.release();
  });
}

PyObject* watch_poll(PyObject* /*module*/, PyObject* const* values, Py_ssize_t n) {
  return guarded([&] {
    const Arguments arguments(values, n, 2);
    return text(watch_in(arguments.object(0)).poll(arguments.flag(1)));
  });
}

}  // namespace lockstep::python
