// Gloo between threads of one process, over TCP on the loopback interface: seconds of an all-reduce
// of 256 floats.
//
//   gloo_threads [THREADS]
//
// Prints one line of JSON.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <thread>
#include <vector>

namespace {

constexpr int kRounds = 50;
constexpr std::size_t kElems = 256;

double run(gloo::rendezvous::Store& store, int rank, int size) {
  auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
  context->connectFullMesh(store, device);
  std::vector<float> data(kElems, 1e-30F);
  const auto once = [&] {
    gloo::AllreduceOptions options(context);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t n) {
      gloo::sum<float>(out, a, b, n);
    });
    gloo::allreduce(options);
  };
  once();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) once();
  const std::chrono::duration<double> span = std::chrono::steady_clock::now() - begin;
  gloo::BarrierOptions last(context);
  gloo::barrier(last);
  return span.count() / kRounds;
}

}  // namespace

int main(int argc, char** argv) {
  const int size = argc > 1 ? std::atoi(argv[1]) : 8;
  gloo::rendezvous::HashStore store;
  double seconds = 0.0;
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&store, &seconds, rank, size] {
      const double own = run(store, rank, size);
      if (rank == 0) seconds = own;
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"threads\": %d, \"seconds\": %.6g}\n", size, seconds);
  return 0;
}
