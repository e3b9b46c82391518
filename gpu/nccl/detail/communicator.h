// One NCCL communicator with the stream it works on.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "lockstep/gpu/nccl/api.h"
#include "lockstep/gpu/nccl/detail/deadline.h"

namespace lockstep::nccl {

using EnqueueFn = std::function<Status(Api&, Comm, Stream)>;

/// A call that queues something, and its name for texts.
struct Call {
  std::string_view name;
  EnqueueFn run;
};

/// Memory to be copied: host, managed or device on either side.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t n_bytes = 0;
};

/// A non-blocking communicator, a stream next to the compute stream and an event at its end.
///
/// Requires: one thread at a time; that thread's device is the communicator's.
class Communicator {
 public:
  /// Joins the ranks that were given the same `id`. Errors: NCCL's, as text; the deadline's.
  static Result<std::unique_ptr<Communicator>> join(std::shared_ptr<Api> api,
                                                    std::int32_t size,
                                                    const UniqueId& id,
                                                    std::int32_t rank,
                                                    Deadline& deadline);
  /// Finalizes and destroys it; what is stuck is aborted.
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  Communicator(Communicator&&) = delete;
  Communicator& operator=(Communicator&&) = delete;

  /// A communicator of those members that give `color` 0, by `key`; null for the others.
  Result<std::unique_ptr<Communicator>> split(std::int32_t color,
                                              std::int32_t key,
                                              Deadline& deadline);

  /// Work queued from here on starts when `event` has happened.
  peers::Completion begin_after(Event event);
  peers::Completion queue(const Call& call, Deadline& deadline);
  /// As one NCCL group: the library may run them at once.
  peers::Completion queue_group(const std::vector<Call>& calls, Deadline& deadline);
  peers::Completion queue(const std::vector<Copy>& copies);
  /// Waits until all that was queued is done, with an eye on NCCL's asynchronous errors.
  peers::Completion finish(Deadline& deadline);

  /// Ends what is under way, here. Nothing can be queued afterwards.
  void abort();

  Comm handle() const { return comm_; }

  Stream stream() const { return stream_; }

  Api& api() const { return *api_; }

 private:
  explicit Communicator(std::shared_ptr<Api> api) : api_(std::move(api)) {}

  peers::Completion prepare();
  peers::Completion settle(std::string_view call, Status status, Comm comm, Deadline& deadline);
  peers::Completion cuda_completion(std::string_view call, CudaStatus status) const;

  std::shared_ptr<Api> api_;
  Comm comm_ = nullptr;
  Stream stream_ = nullptr;
  Event end_ = nullptr;
};

}  // namespace lockstep::nccl
