// Messages from one rank to another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lockstep/gpu/nccl/detail/communicator.h"
#include "lockstep/gpu/nccl/detail/connection.h"
#include "lockstep/gpu/nccl/detail/staging.h"
#include "lockstep/real/group/connection.h"
#include "lockstep/real/group/file_store.h"

namespace lockstep::nccl {

/// One end of the way from a rank to another, with its own thread and communicator of two.
///
/// NCCL's sends and receives have no tags: the k-th send is paired with the k-th receive, and one
/// without a partner spins on the device. So messages are matched before NCCL sees them. The
/// sender offers each (tag and number) in the file store; the receiver takes the offers that it
/// waits for, one after another; both then queue the transfers in the order in which they were
/// taken. Empty messages need no transfer.
class Lane {
 public:
  /// `from` and `to` are group ranks; this process is one of them. Requires: `place` stays valid.
  Lane(const DeviceContext& context,
       const peers::Membership& group,
       std::int32_t from,
       std::int32_t to);
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
  bool serve_accepted(std::deque<Message>& waiting);
  bool accept_offer(std::deque<Message>& waiting);
  void offer(Message& message);
  peers::Completion end_of(const Message& message,
                           const peers::Completion& failure,
                           bool left) const;
  bool may_withdraw(const Message& message, const peers::Completion& completion) const;
  void expire(std::deque<Message>& waiting);
  void finish(Message& message, const peers::Completion& completion);
  peers::Completion transfer(const peers::Operation& operation);
  peers::Completion connect(Deadline& deadline);

  DeviceContext context_;
  peers::Membership pair_;  // The group, with these two as its members.
  bool sends_;
  peers::PeerMonitor monitor_;
  peers::FileStore store_;
  Staging staging_;
  std::unique_ptr<Communicator> communicator_;
  std::int64_t n_taken_ = 0;
  peers::Completion broken_;

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<Message> inbox_;
  bool stopping_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::nccl
