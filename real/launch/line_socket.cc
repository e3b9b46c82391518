#include "lockstep/real/launch/line_socket.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace lockstep::launch {

namespace {

constexpr std::size_t kLongestLine = 65536;
constexpr int kConnectMilliseconds = 1000;

void never_block(int handle) { fcntl(handle, F_SETFL, fcntl(handle, F_GETFL) | O_NONBLOCK); }

/// Whether a connection that was begun is there in time.
bool is_connected(int handle) {
  pollfd wanted = {handle, POLLOUT, 0};
  if (poll(&wanted, 1, kConnectMilliseconds) <= 0) return false;
  int failure = 0;
  socklen_t length = sizeof failure;
  getsockopt(handle, SOL_SOCKET, SO_ERROR, &failure, &length);
  return failure == 0;
}

/// A connected socket, or -1.
int connected_to(const addrinfo& place) {
  const int handle = socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (handle < 0) return -1;
  const int done = ::connect(handle, place.ai_addr, place.ai_addrlen);
  if (done == 0 || (errno == EINPROGRESS && is_connected(handle))) return handle;
  ::close(handle);
  return -1;
}

}  // namespace

LineSocket::LineSocket(int handle) : handle_(handle) {
  never_block(handle_);
  const int on = 1;
  setsockopt(handle_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A machine that vanished silently is detected within a minute.
  setsockopt(handle_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  const int seconds = 20;
  const int n_probes = 3;
  setsockopt(handle_, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(handle_, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(handle_, IPPROTO_TCP, TCP_KEEPCNT, &n_probes, sizeof n_probes);
}

LineSocket::~LineSocket() { close(); }

LineSocket::LineSocket(LineSocket&& other) noexcept
    : handle_(std::exchange(other.handle_, -1)), partial_(std::move(other.partial_)) {}

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  if (this == &other) return *this;
  close();
  handle_ = std::exchange(other.handle_, -1);
  partial_ = std::move(other.partial_);
  return *this;
}

Result<std::optional<LineSocket>> LineSocket::connect(const std::string& address,
                                                      std::int32_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failure = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failure == EAI_AGAIN) return std::optional<LineSocket>();
  if (failure != 0) {
    return Error{"invalid --master-addr " + address + ": " + gai_strerror(failure), {}};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> places(found, &freeaddrinfo);
  for (const addrinfo* place = found; place != nullptr; place = place->ai_next) {
    const int handle = connected_to(*place);
    if (handle >= 0) return std::optional<LineSocket>(LineSocket(handle));
  }
  return std::optional<LineSocket>();
}

void LineSocket::send(std::string_view text) {
  if (!is_open()) return;
  std::string line(text.substr(0, kLongestLine - 1));
  line += '\n';
  const ssize_t sent = ::send(handle_, line.data(), line.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(line.size())) close();
}

std::vector<std::string> LineSocket::receive() {
  std::vector<std::string> lines;
  std::array<char, 4096> bytes{};
  while (is_open()) {
    const ssize_t n = recv(handle_, bytes.data(), bytes.size(), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0) {
      close();
      break;
    }
    partial_.append(bytes.data(), static_cast<std::size_t>(n));
    for (std::size_t end = partial_.find('\n'); end != std::string::npos;
         end = partial_.find('\n')) {
      lines.push_back(partial_.substr(0, end));
      partial_.erase(0, end + 1);
    }
    if (partial_.size() > kLongestLine) close();
  }
  return lines;
}

void LineSocket::close() {
  if (is_open()) ::close(std::exchange(handle_, -1));
}

Listener::~Listener() {
  if (handle_ >= 0) close(handle_);
}

Listener::Listener(Listener&& other) noexcept : handle_(std::exchange(other.handle_, -1)) {}

Result<Listener> Listener::open(std::int32_t port) {
  Listener listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;  // Connections of an earlier run that fade out do not count.
  setsockopt(listener.handle_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  constexpr int kQueue = 128;
  if (bind(listener.handle_, generic, sizeof address) != 0 ||
      listen(listener.handle_, kQueue) != 0) {
    return Error{"port " + std::to_string(port) + ", where the launchers meet, cannot be used: " +
                     strerrordesc_np(errno) + "; choose another with --launcher-port",
                 {}};
  }
  return listener;
}

std::optional<LineSocket> Listener::accept() const {
  const int handle = accept4(handle_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (handle < 0) return std::nullopt;
  return LineSocket(handle);
}

}  // namespace lockstep::launch
