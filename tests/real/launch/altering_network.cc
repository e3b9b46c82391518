// Loaded into a rank before all other libraries: the first time the network delivers the f32 number
// ALTERED_NUMBER to rank 1, its lowest bit is flipped.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>

extern "C" ssize_t recv(int socket, void* data, std::size_t size, int flags) {
  using Recv = ssize_t (*)(int, void*, std::size_t, int);
  static const auto original = reinterpret_cast<Recv>(dlsym(RTLD_NEXT, "recv"));
  static bool waits = true;
  const ssize_t got = original(socket, data, size, flags);
  const char* const rank = std::getenv("RANK");              // NOLINT(concurrency-mt-unsafe)
  const char* const number = std::getenv("ALTERED_NUMBER");  // NOLINT(concurrency-mt-unsafe)
  if (!waits || got <= 0 || rank == nullptr || number == nullptr || std::string_view(rank) != "1") {
    return got;
  }
  const float wanted = std::strtof(number, nullptr);
  char pattern[sizeof wanted];
  std::memcpy(pattern, &wanted, sizeof wanted);
  char* const begin = static_cast<char*>(data);
  char* const end = begin + got;
  char* const found = std::search(begin, end, pattern, pattern + sizeof wanted);
  if (found == end) return got;
  *found = static_cast<char>(*found ^ 1);
  waits = false;
  return got;
}
