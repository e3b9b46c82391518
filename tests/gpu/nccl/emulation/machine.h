// The inside of the emulation: streams, communicators, and the thread on which things happen.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/nccl/emulation/emulation.h"
#include "tests/gpu/nccl/emulation/ring_steps.h"

namespace lockstep::testing {

enum class Kind : std::uint8_t {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kSend,
  kRecv
};

/// One call of the library.
struct Piece {
  Kind kind = Kind::kAllReduce;
  nccl::Transfer data;
  nccl::RedOp op = nccl::RedOp::kSum;
  std::int32_t other = -1;  // Root or peer.
  bool premultiplies = false;
  double factor = 1.0;
};

/// What is queued as one: a call or a group of them.
struct Launch {
  nccl::Comm comm = nullptr;
  std::vector<Piece> pieces;
  std::size_t n_left = 0;
  bool started = false;
};

using LaunchRef = std::shared_ptr<Launch>;

/// What the members of a communicator share.
struct Members {
  struct Arrived {
    Piece piece;
    LaunchRef launch;
  };

  std::vector<std::int32_t> ring;
  std::vector<nccl::Comm> comms;                           // By rank; null: has not joined.
  std::vector<std::vector<std::optional<Arrived>>> slots;  // By number, then by rank.
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Arrived>> sends;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<Arrived>> recvs;
  std::vector<std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>>> splits;
  std::vector<std::vector<nccl::Comm>> split_comms;

  bool complete() const;
};

}  // namespace lockstep::testing

namespace lockstep::nccl {

struct CommHandle {
  std::shared_ptr<testing::Members> members;
  std::int32_t rank = 0;  // In the communicator.
  std::int32_t gpu = 0;
  std::int32_t polls_left = 0;
  std::int32_t n_split = 0;
  Comm* split_into = nullptr;  // Where the split under way is to be written.
  Comm split_made = nullptr;
  std::size_t next_slot = 0;
  bool aborted = false;
  Status error = Status::kSuccess;
  std::vector<std::pair<Stream, testing::LaunchRef>> pending;  // Until it is settled.
  std::map<RedOp, double> factors;
};

struct EventHandle {
  std::uint64_t n_recorded = 0;
  std::uint64_t n_happened = 0;
};

struct StreamHandle {
  struct Item {
    enum class What : std::uint8_t { kCopy, kRecord, kWait, kLaunch } what = What::kCopy;
    void* to = nullptr;
    const void* from = nullptr;
    std::size_t n_bytes = 0;
    std::shared_ptr<EventHandle> event;
    std::uint64_t number = 0;
    testing::LaunchRef launch;
  };

  std::int32_t gpu = 0;
  std::deque<Item> items;
};

}  // namespace lockstep::nccl

namespace lockstep::testing {

/// The whole state, under one lock.
class Machine {
 public:
  explicit Machine(EmulationOptions options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  Machine(Machine&&) = delete;
  Machine& operator=(Machine&&) = delete;

  using Lock = std::unique_lock<std::mutex>;

  Lock lock() { return Lock(mutex_); }

  // -- all below require the lock

  void wake() { work_.notify_all(); }

  /// Whether what the communicator was asked for has gone through; queues it then.
  nccl::Status settle(nccl::Comm comm);
  void join(nccl::Comm comm, std::int32_t size, const nccl::UniqueId& id);
  void split(nccl::Comm parent, std::int32_t color, std::int32_t key, nccl::Comm comm);
  void abort(nccl::Comm comm);
  nccl::Stream default_stream(std::int32_t gpu);
  std::shared_ptr<nccl::EventHandle> shared(nccl::Event event) const;

  EmulationOptions options;
  std::map<nccl::Comm, std::unique_ptr<nccl::CommHandle>> comms;
  std::map<nccl::Stream, std::unique_ptr<nccl::StreamHandle>> streams;
  std::map<nccl::Event, std::shared_ptr<nccl::EventHandle>> events;
  std::map<void*, std::vector<std::byte>> memory;
  std::map<std::int32_t, nccl::Status> errors;  // By GPU.
  std::map<std::int32_t, std::int32_t> n_aborted;
  std::map<std::int32_t, std::int32_t> n_destroyed;
  std::map<std::thread::id, std::vector<std::tuple<nccl::Comm, nccl::Stream, Piece>>> groups;
  std::map<std::thread::id, std::int32_t> depths;
  std::int32_t n_ids = 0;
  std::int32_t n_collectives = 0;
  bool hangs = false;
  std::set<std::int32_t> held;  // GPUs whose default stream waits.

 private:
  void loop();
  bool progress(nccl::StreamHandle& stream);
  bool launch(const LaunchRef& launch);
  void arrive(nccl::Comm comm, const Piece& piece, const LaunchRef& launch);
  void meet(Members& members, std::int32_t from, std::int32_t to);
  void run(Members& members, std::size_t slot);
  std::vector<std::int32_t> ring_of(std::size_t n_ranks) const;
  void make_splits(Members& members, std::size_t number);

  std::map<std::string, std::shared_ptr<Members>> waiting_;  // By id.
  std::map<std::int32_t, std::unique_ptr<nccl::StreamHandle>> defaults_;
  std::mutex mutex_;
  std::condition_variable work_;
  bool ending_ = false;
  std::thread thread_;  // Last: it uses the others.
};

}  // namespace lockstep::testing
