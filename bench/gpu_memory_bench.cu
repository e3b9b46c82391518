// What managed memory costs beside memory of the device alone. Prints one line of JSON, of seconds.
//
//   gpu_memory_bench
//
// Tensor elements of ranks on a GPU lie in managed memory (gpu/cuda/memory_pool.h): the host reads and
// writes them by their address, and pages move. The alternative is plain device memory, and pinned
// buffers for what the host reads or writes. Here both do the same work, alternating, through the
// executor of Lockstep's kernels, and every result is compared. Takes at most 1 GiB in all.
//
// stream: one launch of y = a x + y, many queued or each waited for. round_trip: a batch to the device and
// back. loss: a kernel that writes one number, and the host's reading it. page: the host reads one page of an
// array; the kernel over the array before it, after it, and once more. allocation: slabs, and kernels
// over new ones.
//
// Ends with 3, and one sentence, where there is no GPU; with 1 where a result is wrong or the device
// refuses a call.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "lockstep/gpu/cuda/check.h"
#include "lockstep/gpu/cuda/device.h"
#include "lockstep/gpu/cuda/executor.h"

#include "bench/memory_kinds.cuh"
#include "bench/samples.h"

namespace lockstep::bench {
namespace {

using cuda::check;
using cuda::Executor;

constexpr std::size_t kKiB = std::size_t{1} << 10U;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

/// What lies between two touches of a page in a training job. The driver takes a page that host and device touch
/// again within half a millisecond for thrashing, and ends its moving. Not a sleep, after which the
/// processor would be slow.
void pause() {
  const auto end = Clock::now() + std::chrono::milliseconds(2);
  while (Clock::now() < end) {
  }
}

// ---- 1: kernels over memory that stays where it is

struct StreamTimes {
  Samples queued;
  Samples waited;

  std::string json() const {
    return object({{"queued", summary(queued)}, {"waited", summary(waited)}});
  }
};

void stream(Executor& executor, Kind kind, std::size_t n_bytes, StreamTimes& times) {
  constexpr int kRounds = 5;
  const int launches = n_bytes > kMiB ? 16 : 256;
  const Memory x(kind, n_bytes);
  const Memory y(kind, n_bytes);
  int done = 0;
  const auto launch = [&] {
    executor.run(y.n_elems(), AddScaled{y.data(), x.data(), 1.0F});
    ++done;
  };
  executor.run(x.n_elems(), Fill{x.data(), 1.0F});
  executor.run(y.n_elems(), Fill{y.data(), 0.0F});
  launch();
  executor.settle();
  for (int round = 0; round < kRounds; ++round) {
    const double queued = seconds([&] {
      for (int i = 0; i < launches; ++i) launch();
      executor.settle();
    });
    const double waited = seconds([&] {
      for (int i = 0; i < launches; ++i) {
        launch();
        executor.settle();
      }
    });
    times.queued.push_back(queued / launches);
    times.waited.push_back(waited / launches);
  }
  expect_filled(executor, y, static_cast<float>(done), "stream of " + std::to_string(n_bytes));
}

/// Memory of one kind at a time, and anew in each turn: two pairs of the largest arrays would be all that this
/// program may take, and where the driver puts them is chance.
std::string measure_streams(Executor& executor) {
  constexpr int kTurns = 3;
  StreamTimes warming;  // A GPU that was idle raises its clock first.
  stream(executor, Kind::kPlain, 16 * kMiB, warming);
  std::vector<std::string> all;
  for (const std::size_t n_bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 256 * kMiB}) {
    StreamTimes managed;
    StreamTimes plain;
    for (int turn = 0; turn < kTurns; ++turn) {
      stream(executor, Kind::kManaged, n_bytes, managed);
      stream(executor, Kind::kPlain, n_bytes, plain);
    }
    all.push_back(object({{"bytes", std::to_string(n_bytes)},
                          {"managed", managed.json()},
                          {"plain", plain.json()}}));
  }
  return list(all);
}

// ---- 2: a batch that goes to the device and comes back

enum class Way : std::uint8_t {
  kByAddress,   ///< The host's touch moves the pages, and so does the device's.
  kPrefetched,  ///< They are moved before each touch.
  kStaged,      ///< They stay on the device; pinned memory is copied.
};

struct Path {
  const char* name;
  Kind kind;
  Way way;
  float scale;  ///< Different ones: what a path left in shared memory is wrong for the next.
};

/// The third shows whether staging alone is what helps, without giving managed memory up.
constexpr Path kPaths[] = {
    {"managed", Kind::kManaged, Way::kByAddress, 2.0F},
    {"managed_prefetched", Kind::kManaged, Way::kPrefetched, 3.0F},
    {"managed_staged", Kind::kManaged, Way::kStaged, 5.0F},
    {"plain_staged", Kind::kPlain, Way::kStaged, 7.0F},
};

/// What the paths share.
struct HostSide {
  explicit HostSide(std::size_t n_bytes)
      : batch(n_bytes / sizeof(float)),
        result(batch.size()),
        pinned_in(Kind::kPinned, n_bytes),
        pinned_out(Kind::kPinned, n_bytes) {}

  std::vector<float> batch;
  std::vector<float> result;
  Memory pinned_in;
  Memory pinned_out;
};

/// One path, with its own memory: what another did to pages does not matter.
class Trip {
 public:
  Trip(Executor& executor, HostSide& host, const Path& path)
      : executor_(executor),
        host_(host),
        path_(path),
        in_(path.kind, host.pinned_in.n_bytes()),
        out_(path.kind, host.pinned_in.n_bytes()) {}

  /// There and back; compared outside of what is timed.
  void travel(bool timed) {
    pause();
    const double write = seconds([&] { write_batch(); });
    const double device = seconds([&] { run(); });
    const double read = seconds([&] { read_result(); });
    bool right = true;
    for (std::size_t i = 0; i < host_.batch.size(); ++i) {
      right = right && host_.result[i] == path_.scale * host_.batch[i];
    }
    expect(right, std::string("round trip of ") + path_.name);
    if (!timed) return;
    write_.push_back(write);
    device_.push_back(device);
    read_.push_back(read);
    total_.push_back(write + device + read);
  }

  std::string json() const {
    return object({{"total", summary(total_)},
                   {"write", summary(write_)},
                   {"device", summary(device_)},
                   {"read", summary(read_)}});
  }

 private:
  void write_batch() {
    const bool staged = path_.way == Way::kStaged;
    if (path_.way == Way::kPrefetched) {
      prefetch(executor_, in_.data(), in_.n_bytes(), cudaCpuDeviceId);
      executor_.settle();
    }
    std::memcpy(staged ? host_.pinned_in.data() : in_.data(), host_.batch.data(), in_.n_bytes());
  }

  void run() {
    if (path_.way == Way::kPrefetched) {
      prefetch(executor_, in_.data(), in_.n_bytes(), kDevice);
      prefetch(executor_, out_.data(), out_.n_bytes(), kDevice);
    }
    if (path_.way == Way::kStaged) {
      copy(executor_, in_.data(), host_.pinned_in.data(), in_.n_bytes());
    }
    executor_.run(in_.n_elems(), Scale{out_.data(), in_.data(), path_.scale});
    if (path_.way == Way::kPrefetched) {
      prefetch(executor_, out_.data(), out_.n_bytes(), cudaCpuDeviceId);
    }
    if (path_.way == Way::kStaged) {
      copy(executor_, host_.pinned_out.data(), out_.data(), out_.n_bytes());
    }
    executor_.settle();
  }

  void read_result() {
    const bool staged = path_.way == Way::kStaged;
    std::memcpy(
        host_.result.data(), staged ? host_.pinned_out.data() : out_.data(), out_.n_bytes());
  }

  Executor& executor_;
  HostSide& host_;
  Path path_;
  Memory in_;
  Memory out_;
  Samples write_;
  Samples device_;
  Samples read_;
  Samples total_;
};

std::string measure_round_trips(Executor& executor) {
  constexpr int kRounds = 7;
  std::vector<std::string> all;
  for (const std::size_t n_bytes : {4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 64 * kMiB}) {
    HostSide host(n_bytes);
    std::vector<std::unique_ptr<Trip>> trips;
    for (const Path& path : kPaths) trips.push_back(std::make_unique<Trip>(executor, host, path));
    for (int round = 0; round <= kRounds; ++round) {  // The first one places the pages.
      for (std::size_t i = 0; i < host.batch.size(); ++i) {
        host.batch[i] = static_cast<float>(round + 1) * pattern(static_cast<std::int64_t>(i));
      }
      for (const auto& trip : trips) trip->travel(round > 0);
    }
    Fields fields = {{"bytes", std::to_string(n_bytes)}};
    for (std::size_t i = 0; i < trips.size(); ++i) {
      fields.emplace_back(kPaths[i].name, trips[i]->json());
    }
    all.push_back(object(fields));
  }
  return list(all);
}

// ---- 3: a number, and a page, that the host reads

/// A kernel of one number, the wait for it, and the reading; through `pinned` where there is one.
double read_number(Executor& executor, float value, float* target, float* pinned) {
  float found = 0.0F;
  pause();
  const double span = seconds([&] {
    executor.run(1, Fill{target, value});
    if (pinned != nullptr) copy(executor, pinned, target, sizeof(float));
    executor.settle();
    found = pinned != nullptr ? *pinned : *target;
  });
  expect(found == value, "the number that a kernel wrote");
  return span;
}

/// `mapped` is the executor's scratch: host memory that kernels write.
std::string measure_loss(Executor& executor) {
  constexpr int kReads = 100;
  const Memory managed(Kind::kManaged, sizeof(float));
  const Memory plain(Kind::kPlain, sizeof(float));
  const Memory pinned(Kind::kPinned, sizeof(float));
  auto* const mapped = static_cast<float*>(executor.scratch());
  Samples by_address;
  Samples staged;
  Samples direct;
  for (int i = 0; i < kReads; ++i) {
    const auto value = static_cast<float>(i + 1);
    by_address.push_back(read_number(executor, value, managed.data(), nullptr));
    staged.push_back(read_number(executor, value, plain.data(), pinned.data()));
    direct.push_back(read_number(executor, value, mapped, nullptr));
  }
  return object({{"managed", summary(by_address)},
                 {"plain_staged", summary(staged)},
                 {"mapped", summary(direct)}});
}

/// An array that kernels work on, and of which the host reads a page now and then.
class Pages {
 public:
  static constexpr std::size_t kBytes = 64 * kMiB;
  static constexpr std::size_t kBlockBytes = 2 * kMiB;  // What the driver maps as one.
  static constexpr std::size_t kPageBytes = 4 * kKiB;

  Pages(Executor& executor, Kind kind)
      : executor_(executor), x_(kind, kBytes), y_(kind, kBytes), staging_(kind != Kind::kManaged) {
    executor.run(x_.n_elems(), Fill{x_.data(), 1.0F});
    executor.run(y_.n_elems(), Fill{y_.data(), 0.0F});
    static_cast<void>(launch());
  }

  /// Requires: `block` is another one each time, so that the host's touch is its first.
  void visit(std::size_t block) {
    const std::size_t first = block * kBlockBytes / sizeof(float);
    float found = 0.0F;
    before_.push_back(launch());
    touch_.push_back(seconds([&] { found = read(y_.data() + first); }));
    expect(found == static_cast<float>(done_) * pattern(static_cast<std::int64_t>(first)),
           "a page of an array that the device uses");
    after_.push_back(launch());
    later_.push_back(launch());
  }

  /// Returns: the times, after all elements were compared.
  std::string json() const {
    expect_filled(executor_, y_, static_cast<float>(done_), "an array whose pages were read");
    return object({{"before", summary(before_)},
                   {"touch", summary(touch_)},
                   {"after", summary(after_)},
                   {"later", summary(later_)}});
  }

 private:
  double launch() {
    ++done_;
    return seconds([&] {
      executor_.run(y_.n_elems(), AddScaled{y_.data(), x_.data(), 1.0F});
      executor_.settle();
    });
  }

  float read(const float* page) {
    if (!staging_) return *page;
    copy(executor_, pinned_.data(), page, kPageBytes);
    executor_.settle();
    return *pinned_.data();
  }

  Executor& executor_;
  Memory x_;
  Memory y_;
  Memory pinned_{Kind::kPinned, kPageBytes};
  bool staging_;
  int done_ = 0;
  Samples before_;
  Samples touch_;
  Samples after_;
  Samples later_;
};

std::string measure_pages(Executor& executor) {
  Pages managed(executor, Kind::kManaged);
  Pages plain(executor, Kind::kPlain);
  for (std::size_t block = 0; block < Pages::kBytes / Pages::kBlockBytes; ++block) {
    managed.visit(block);
    plain.visit(block);
  }
  return object({{"bytes", std::to_string(Pages::kBytes)},
                 {"managed", managed.json()},
                 {"plain_staged", plain.json()}});
}

// ---- 4: allocations

struct AllocationTimes {
  Samples allocate;
  Samples first_kernel;  ///< Managed memory gets its pages here.
  Samples second_kernel;
  Samples free;

  std::string json() const {
    return object({{"allocate", summary(allocate)},
                   {"first_kernel", summary(first_kernel)},
                   {"second_kernel", summary(second_kernel)},
                   {"free", summary(free)}});
  }
};

void allocate(Executor& executor, Kind kind, std::size_t n_bytes, AllocationTimes& times) {
  constexpr int kSlabs = 8;
  std::vector<std::unique_ptr<Memory>> slabs;
  const auto fill_all = [&](float factor) {
    return seconds([&] {
      for (const auto& slab : slabs) {
        executor.run(slab->n_elems(), Fill{slab->data(), factor});
        executor.settle();
      }
    });
  };
  times.allocate.push_back(seconds([&] {
                             for (int i = 0; i < kSlabs; ++i)
                               slabs.push_back(std::make_unique<Memory>(kind, n_bytes));
                           }) /
                           kSlabs);
  times.first_kernel.push_back(fill_all(1.0F) / kSlabs);
  times.second_kernel.push_back(fill_all(2.0F) / kSlabs);
  for (const auto& slab : slabs) expect_filled(executor, *slab, 2.0F, "a new slab");
  times.free.push_back(seconds([&] { slabs.clear(); }) / kSlabs);
}

/// Slabs of 2 MiB, and of 32 MiB as the pool takes them.
std::string measure_allocations(Executor& executor) {
  constexpr int kRounds = 7;
  std::vector<std::string> all;
  for (const std::size_t n_bytes : {2 * kMiB, 32 * kMiB}) {
    AllocationTimes managed;
    AllocationTimes plain;
    for (int round = 0; round < kRounds; ++round) {
      allocate(executor, Kind::kManaged, n_bytes, managed);
      allocate(executor, Kind::kPlain, n_bytes, plain);
    }
    all.push_back(object({{"bytes", std::to_string(n_bytes)},
                          {"managed", managed.json()},
                          {"plain", plain.json()}}));
  }
  return list(all);
}

// ---- the program

int explain(const std::string& reason, int code) {
  std::fprintf(stderr, "gpu_memory_bench: %s\n", reason.c_str());
  return code;
}

/// Why it cannot be measured here; empty when it can.
std::string obstacle() {
  const cuda::DeviceCount devices = cuda::device_count();
  if (devices.count == 0) return devices.reason;
  int concurrent = 0;
  check(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, kDevice),
        "cudaDeviceGetAttribute");
  return concurrent != 0 ? "" : "the device has no concurrent managed access";
}

void measure() {
  check(cudaSetDevice(kDevice), "cudaSetDevice");
  Executor executor(cuda::ExecutionTarget::kDevice);
  Fields fields = {{"device", "\"" + cuda::device_info(kDevice).name + "\""}};
  const double span = seconds([&] {
    fields.emplace_back("stream", measure_streams(executor));
    fields.emplace_back("round_trip", measure_round_trips(executor));
    fields.emplace_back("loss", measure_loss(executor));
    fields.emplace_back("page", measure_pages(executor));
    fields.emplace_back("allocation", measure_allocations(executor));
  });
  fields.emplace_back("seconds_in_all", number(span));
  std::printf("%s\n", object(fields).c_str());
}

int run(int n_words) {
  // Not 3, which is taken for a machine without a GPU.
  if (n_words > 1) return explain("usage: gpu_memory_bench", 2);
  try {
    const std::string reason = obstacle();
    if (!reason.empty()) return explain(reason, 3);
    measure();
  } catch (const std::exception& error) {
    return explain(error.what(), 1);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** /*argv*/) { return lockstep::bench::run(argc); }
