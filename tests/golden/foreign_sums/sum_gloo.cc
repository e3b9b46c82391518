// An all-reduce of the same numbers by Gloo, a thread per rank.
// sum_gloo ALGORITHM float|double RANKS ELEMENTS; started by make_foreign_sums.py.
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

double drawn(int rank, int element) {
  const std::uint64_t word =
      mixed(mixed(static_cast<std::uint64_t>(rank)) + static_cast<std::uint64_t>(element));
  const double mantissa =
      static_cast<double>(static_cast<std::int64_t>(word >> 11U)) / 9007199254740992.0 + 0.5;
  return std::ldexp((word & 1U) != 0 ? mantissa : -mantissa,
                    static_cast<int>((word >> 1U) % 24) - 12);
}

template <typename T>
void reduce(const std::string& algorithm,
            const std::shared_ptr<gloo::Context>& context,
            std::vector<T>& data) {
  const int n = static_cast<int>(data.size());
  const std::vector<T*> pointers = {data.data()};
  if (algorithm == "ring") {
    gloo::AllreduceRing<T>(context, pointers, n).run();
  } else if (algorithm == "ring_chunked") {
    gloo::AllreduceRingChunked<T>(context, pointers, n).run();
  } else if (algorithm == "halving_doubling") {
    gloo::AllreduceHalvingDoubling<T>(context, pointers, n).run();
  } else if (algorithm == "bcube") {
    gloo::AllreduceBcube<T>(context, pointers, n).run();
  } else {
    gloo::AllreduceOptions options(context);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<T>(out, a, b, count);
    });
    options.setAlgorithm(algorithm == "new_ring" ? gloo::AllreduceOptions::Algorithm::RING
                                                 : gloo::AllreduceOptions::Algorithm::BCUBE);
    gloo::allreduce(options);
  }
}

template <typename T>
void show(const char* what, const std::vector<T>& values) {
  std::printf("%s", what);
  for (const T value : values) {
    std::uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    std::printf(" %0*" PRIx64, static_cast<int>(2 * sizeof(T)), word);
  }
  std::printf("\n");
}

template <typename T>
void run(const std::string& algorithm, int ranks, int n) {
  gloo::rendezvous::HashStore store;
  std::vector<std::vector<T>> data(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < n; ++i) data[rank].push_back(static_cast<T>(drawn(rank, i)));
    show("contribution", data[rank]);
  }
  // Until all are done: a context that goes closes its connections.
  std::vector<std::shared_ptr<gloo::rendezvous::Context>> contexts(data.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto& context = contexts[rank];
      context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
      gloo::transport::tcp::attr address("127.0.0.1");
      auto device = gloo::transport::tcp::CreateDevice(address);
      context->connectFullMesh(store, device);
      reduce(algorithm, context, data[rank]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  show("result", data[0]);
}

}  // namespace

int main(int, char** argv) {
  const int ranks = std::atoi(argv[3]);
  const int n = std::atoi(argv[4]);
  if (std::string(argv[2]) == "double") {
    run<double>(argv[1], ranks, n);
  } else {
    run<float>(argv[1], ranks, n);
  }
  std::fflush(stdout);
  std::_Exit(0);  // Gloo's threads are left alone.
}
