// Runs a program on ranks outside of the coordinator: threads, or processes of their own.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/sim/process/coordinator.h"

#include "tests/sim/process/rank_client.h"

namespace lockstep::sim::testing {

using RankProgram = std::function<void(RankClient&)>;

constexpr std::size_t kArenaBytes = std::size_t{64} << 20U;

/// Sockets and shared memory of one run.
class Ensemble {
 public:
  explicit Ensemble(int n_ranks) : arenas_(static_cast<std::size_t>(n_ranks)) {
    for (std::span<std::byte>& arena : arenas_) {
      void* memory = ::mmap(nullptr,
                            kArenaBytes,
                            PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                            -1,
                            0);
      arena = {static_cast<std::byte*>(memory), kArenaBytes};
      int ends[2] = {-1, -1};
      if (memory == MAP_FAILED || ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0)
        throw std::runtime_error("no memory or no sockets");
      ours_.push_back(ends[0]);
      theirs_.push_back(ends[1]);
    }
  }

  ~Ensemble() {
    for (const std::span<std::byte> arena : arenas_) ::munmap(arena.data(), arena.size());
    for (const int socket : theirs_) {
      if (socket >= 0) ::close(socket);
    }
  }

  Ensemble(const Ensemble&) = delete;
  Ensemble& operator=(const Ensemble&) = delete;

  int size() const { return static_cast<int>(arenas_.size()); }

  RankClient client(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return {rank, size(), theirs_[r], arenas_[r]};
  }

  /// This end belongs to a rank alone: closing it there is noticed here.
  void close_theirs(int rank) {
    ::close(std::exchange(theirs_[static_cast<std::size_t>(rank)], -1));
  }

  void close_ours() {
    for (const int socket : ours_) ::close(socket);
  }

  void keep_only(int rank) {
    close_ours();
    for (int r = 0; r < size(); ++r) {
      if (r != rank) close_theirs(r);
    }
  }

  ProcessHandles handles(int rank, int pid) const {
    const auto r = static_cast<std::size_t>(rank);
    return {.socket = ours_[r],
            .pid = pid,
            .arena = arenas_[r].data(),
            .arena_bytes = arenas_[r].size()};
  }

 private:
  std::vector<std::span<std::byte>> arenas_;
  std::vector<int> ours_;
  std::vector<int> theirs_;
};

/// The program, and END after it: with what it threw, unless the coordinator stopped it.
inline int run_client(RankClient& client, const RankProgram& program) {
  try {
    program(client);
    client.end();
    return 0;
  } catch (const Stopped&) {
    return 7;
  } catch (const std::exception& error) {
    try {
      client.end(1, error.what());
    } catch (const Stopped&) {
      return 7;
    }
    return 1;
  }
}

inline Coordination value_of(Result<Coordination> found) {
  if (!found.ok()) throw std::runtime_error(found.error().text());
  return std::move(found).value();
}

/// Ranks as threads of the test, which may share its variables.
inline Coordination coordinate_threads(int n_ranks,
                                       CoordinatorOptions options,
                                       const RankProgram& program) {
  Ensemble ensemble(n_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) {
    options.processes.push_back(ensemble.handles(rank, 0));
    threads.emplace_back([&ensemble, &program, rank] {
      RankClient client = ensemble.client(rank);
      run_client(client, program);
      ensemble.close_theirs(rank);
    });
  }
  Result<Coordination> found = coordinate(std::move(options));
  for (std::thread& thread : threads) thread.join();
  return value_of(std::move(found));
}

/// Ranks as processes, which share nothing but their arenas.
inline std::vector<int> fork_ranks(Ensemble& ensemble, const RankProgram& program) {
  std::vector<int> pids;
  std::fflush(nullptr);
  for (int rank = 0; rank < ensemble.size(); ++rank) {
    const int pid = ::fork();
    if (pid == 0) {
      ensemble.keep_only(rank);
      RankClient client = ensemble.client(rank);
      ::_exit(run_client(client, program));
    }
    pids.push_back(pid);
  }
  return pids;
}

inline Coordination coordinate_processes(int n_ranks,
                                         CoordinatorOptions options,
                                         const RankProgram& program) {
  Ensemble ensemble(n_ranks);
  const std::vector<int> pids = fork_ranks(ensemble, program);
  for (int rank = 0; rank < n_ranks; ++rank) {
    options.processes.push_back(ensemble.handles(rank, pids[static_cast<std::size_t>(rank)]));
    ensemble.close_theirs(rank);
  }
  return value_of(coordinate(std::move(options)));
}

inline Coordination coordinate_threads(int n_ranks, const RankProgram& program) {
  return coordinate_threads(n_ranks, CoordinatorOptions{}, program);
}

// -- requests as programs write them
inline PostRequest all_reduce(std::int32_t group,
                              const Floats& data,
                              ReduceOp op = ReduceOp::kSum) {
  PostRequest request;
  request.group = group;
  request.op = CollectiveOp::kAllReduce;
  request.reduce = op;
  request.inputs = request.outputs = {data.slice};
  return request;
}

inline PostRequest broadcast(std::int32_t group, const Floats& data, std::int32_t root) {
  PostRequest request = all_reduce(group, data);
  request.op = CollectiveOp::kBroadcast;
  request.root_or_peer = root;
  return request;
}

inline PostRequest barrier(std::int32_t group) {
  PostRequest request;
  request.group = group;
  return request;
}

inline PostRequest send_to(std::int32_t group,
                           const Floats& data,
                           std::int32_t to,
                           std::int32_t tag = 0) {
  PostRequest request;
  request.group = group;
  request.op = CollectiveOp::kSend;
  request.root_or_peer = to;
  request.tag = tag;
  request.inputs = {data.slice};
  return request;
}

inline PostRequest recv_from(std::int32_t group,
                             const Floats& data,
                             std::int32_t from,
                             std::int32_t tag = 0) {
  PostRequest request;
  request.group = group;
  request.op = CollectiveOp::kRecv;
  request.root_or_peer = from;
  request.tag = tag;
  request.outputs = {data.slice};
  return request;
}

/// With inputs and outputs of their own.
inline PostRequest exchange(std::int32_t group,
                            CollectiveOp op,
                            const std::vector<Floats>& inputs,
                            const std::vector<Floats>& outputs) {
  PostRequest request;
  request.group = group;
  request.op = op;
  for (const Floats& input : inputs) request.inputs.push_back(input.slice);
  for (const Floats& output : outputs) request.outputs.push_back(output.slice);
  return request;
}

inline std::vector<float> values(const Floats& data) {
  return {data.values.begin(), data.values.end()};
}

}  // namespace lockstep::sim::testing
