// Messages from one rank to another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/nccl/detail/communicator.h"
#include "lockstep/nccl/detail/connection.h"
#include "lockstep/nccl/detail/staging.h"
#include "lockstep/peers/connection.h"
#include "lockstep/peers/noticeboard.h"

namespace lockstep::nccl {

/// One end of the way from a rank to another, with a thread and a communicator of two of its own.
///
/// NCCL's sends and receives have no tags: the k-th send meets the k-th receive, and one that has
/// no partner spins on the device. So messages are matched before NCCL hears of them. The sender
/// offers each (tag and number) on the noticeboard; the receiver takes the offers that it waits
/// for, one after another; both then queue the transfers in the order in which they were taken.
/// Empty messages need no transfer.
class Lane {
 public:
  /// `from` and `to` are group ranks; this process is one of them. Requires: `place` stays valid.
  Lane(const Place& place, const peers::Membership& group, std::int32_t from, std::int32_t to);
  /// Gives up what is not done.
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  Lane(Lane&&) = delete;
  Lane& operator=(Lane&&) = delete;

  /// `number` counts this lane's messages of the same tag. Never blocks.
  std::shared_ptr<peers::Task> post(const peers::Operation& operation, std::int64_t number);

 private:
  using Clock = std::chrono::steady_clock;

  struct Message {
    peers::Operation operation;
    std::string name;  // "TAG-NUMBER"
    std::chrono::milliseconds timeout;
    Clock::time_point deadline;
    std::shared_ptr<peers::Task> task;
    bool offered = false;
  };

  void loop();
  bool serve(std::deque<Message>& waiting);
  bool serve_taken(std::deque<Message>& waiting);
  bool take_offer(std::deque<Message>& waiting);
  void offer(Message& message);
  peers::Ending end_of(const Message& message, const peers::Ending& trouble, bool left) const;
  bool may_give_up(const Message& message, const peers::Ending& ending) const;
  void expire(std::deque<Message>& waiting);
  void finish(Message& message, const peers::Ending& ending);
  peers::Ending transfer(const peers::Operation& operation);
  peers::Ending connect(Vigil& vigil);

  Place place_;
  peers::Membership pair_;  // The group, with these two as its members.
  bool sends_;
  peers::Watch watch_;
  peers::Noticeboard board_;
  Staging staging_;
  std::unique_ptr<Communicator> communicator_;
  std::int64_t n_taken_ = 0;
  peers::Ending broken_;

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Message> inbox_;
  bool ending_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::nccl
