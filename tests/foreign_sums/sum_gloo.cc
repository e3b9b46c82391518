// An all-reduce by Gloo of the cases in a folder, a thread per rank; started by libraries.py.
//
// sum_gloo FOLDER ALGORITHM RANKS
//
// FOLDER/cases.txt has a line per case: NAME TYPE ELEMENTS; TYPE is f64, f32 or f16, other lines are left out.
// FOLDER/NAME.in has the contributions of all ranks, one after the other, as they lie in memory; the
// result of one rank, which the case's number chooses, goes to FOLDER/NAME.gloo-ALGORITHM.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/hash_store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Case {
  std::string name;
  std::string type;
  std::size_t n = 0;
  int writer = 0;
};

struct Launch {
  std::string folder;
  std::string algorithm;
  std::shared_ptr<gloo::rendezvous::Context> context;
};

template <typename T>
void reduce(const Launch& launch, std::vector<T>& data) {
  const int n = static_cast<int>(data.size());
  const std::vector<T*> pointers = {data.data()};
  if (launch.algorithm == "ring") {
    gloo::AllreduceRing<T>(launch.context, pointers, n).run();
  } else if (launch.algorithm == "ring_chunked") {
    gloo::AllreduceRingChunked<T>(launch.context, pointers, n).run();
  } else if (launch.algorithm == "halving_doubling") {
    gloo::AllreduceHalvingDoubling<T>(launch.context, pointers, n).run();
  } else if (launch.algorithm == "bcube") {
    gloo::AllreduceBcube<T>(launch.context, pointers, n).run();
  } else {
    gloo::AllreduceOptions options(launch.context);
    options.setOutput(data.data(), data.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
      gloo::sum<T>(out, a, b, count);
    });
    options.setAlgorithm(launch.algorithm == "new_ring" ? gloo::AllreduceOptions::Algorithm::RING
                                                        : gloo::AllreduceOptions::Algorithm::BCUBE);
    gloo::allreduce(options);
  }
}

template <typename T>
void run(const Launch& launch, const Case& one) {
  const auto size = static_cast<std::streamsize>(one.n * sizeof(T));
  std::vector<T> data(one.n);
  std::ifstream in(launch.folder + "/" + one.name + ".in", std::ios::binary);
  in.seekg(launch.context->rank * size);
  in.read(reinterpret_cast<char*>(data.data()), size);  // NOLINT
  if (!in) {
    std::cerr << "sum_gloo: too few contributions for " << one.name << "\n";
    std::_Exit(1);
  }
  reduce(launch, data);
  if (launch.context->rank != one.writer) return;
  std::ofstream out(launch.folder + "/" + one.name + ".gloo-" + launch.algorithm, std::ios::binary);
  out.write(reinterpret_cast<const char*>(data.data()), size);  // NOLINT
}

void run_all(const Launch& launch, const std::vector<Case>& cases) {
  for (const Case& one : cases) {
    if (one.type == "f64") run<double>(launch, one);
    if (one.type == "f32") run<float>(launch, one);
    if (one.type == "f16") run<gloo::float16>(launch, one);
  }
}

std::vector<Case> read_cases(const std::string& folder, int ranks) {
  std::ifstream file(folder + "/cases.txt");
  std::vector<Case> cases;
  for (Case one; file >> one.name >> one.type >> one.n; ++one.writer) {
    one.writer %= ranks;
    cases.push_back(one);
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "sum_gloo FOLDER ALGORITHM RANKS\n";
    return 1;
  }
  const int ranks = std::atoi(argv[3]);
  const std::vector<Case> cases = read_cases(argv[1], ranks);
  gloo::rendezvous::HashStore store;
  // Until all are done: a context that goes closes its connections.
  std::vector<Launch> launches(static_cast<std::size_t>(ranks), {argv[1], argv[2], nullptr});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Launch& launch = launches[static_cast<std::size_t>(rank)];
      launch.context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
      gloo::transport::tcp::attr address("127.0.0.1");
      auto device = gloo::transport::tcp::CreateDevice(address);
      launch.context->connectFullMesh(store, device);
      run_all(launch, cases);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::cout.flush();
  std::_Exit(0);  // Gloo's threads are left alone.
}
