// The thread on which a group's collectives run, in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/real/group/task.h"

namespace lockstep::peers {

/// Destroying it finishes what was posted; a failed operation makes the rest fail at once.
class Runner {
 public:
  Runner() : thread_([this] { loop(); }) {}

  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  Runner(Runner&&) = delete;
  Runner& operator=(Runner&&) = delete;

  void post(std::shared_ptr<Task> task);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::shared_ptr<Task>> tasks_;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::peers
