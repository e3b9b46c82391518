#include "lockstep/harness/explore/search/crew.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep::explore {

class Crew::Threads {
 public:
  Threads(std::uint64_t n_threads, std::function<Work()> make_work)
      : n_threads_(std::max<std::uint64_t>(n_threads, 1)), make_work_(std::move(make_work)) {}

  ~Threads() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& other : others_) other.join();
  }

  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  Threads(Threads&&) = delete;
  Threads& operator=(Threads&&) = delete;

  void run(std::size_t n);

 private:
  /// What a call threw.
  struct Stumble {
    std::size_t at = 0;
    std::exception_ptr thrown;
  };

  void begin_round(std::size_t n);
  void make_calls(const Work& work);
  void live();

  std::uint64_t n_threads_;
  std::function<Work()> make_work_;
  Work own_;
  std::vector<std::thread> others_;

  std::mutex mutex_;  // Of all that follows, but `next_`.
  std::condition_variable changed_;
  std::uint64_t round_ = 0;
  std::size_t n_calls_ = 0;
  std::size_t n_busy_ = 0;
  bool is_over_ = false;
  Stumble earliest_;
  std::atomic<std::size_t> next_ = 0;
};

// Numbers are taken in order, and a thread stops at a call that throws: whatever is below the lowest such call has
// been made.
void Crew::Threads::make_calls(const Work& work) {
  for (std::size_t i = next_.fetch_add(1); i < n_calls_; i = next_.fetch_add(1)) {
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (earliest_.thrown == nullptr || i < earliest_.at)
        earliest_ = {i, std::current_exception()};
      return;
    }
  }
}

// A thread is started in a round and has a part in it.
void Crew::Threads::live() {
  const Work work = make_work_();
  std::unique_lock lock(mutex_);
  for (std::uint64_t done = round_ - 1;;) {
    changed_.wait(lock, [&] { return is_over_ || round_ != done; });
    if (is_over_) return;
    done = round_;
    lock.unlock();
    make_calls(work);
    lock.lock();
    if (--n_busy_ == 0) changed_.notify_all();
  }
}

void Crew::Threads::begin_round(std::size_t n) {
  const std::lock_guard lock(mutex_);
  ++round_;
  n_calls_ = n;
  next_ = 0;
  earliest_ = {};
  while (others_.size() + 1 < std::min<std::uint64_t>(n_threads_, n)) {
    others_.emplace_back(&Threads::live, this);
  }
  n_busy_ = others_.size();
}

void Crew::Threads::run(std::size_t n) {
  if (!own_) own_ = make_work_();
  begin_round(n);
  changed_.notify_all();
  make_calls(own_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_busy_ == 0; });
  if (earliest_.thrown != nullptr) std::rethrow_exception(earliest_.thrown);
}

Crew::Crew(std::uint64_t n_threads, std::function<Work()> make_work)
    : threads_(std::make_unique<Threads>(n_threads, std::move(make_work))) {}

Crew::~Crew() = default;

void Crew::run(std::size_t n) {
  if (n > 0) threads_->run(n);
}

}  // namespace lockstep::explore
