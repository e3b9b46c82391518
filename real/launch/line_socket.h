// Lines of text over TCP, as launchers of several machines exchange them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// One connection. Never blocks; closes when destroyed.
class LineSocket {
 public:
  /// Takes over `handle`.
  explicit LineSocket(int handle);
  ~LineSocket();
  LineSocket(LineSocket&& other) noexcept;
  LineSocket& operator=(LineSocket&& other) noexcept;
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  /// Tries once. Nothing if no process listens there.
  /// Errors: an address that does not exist.
  static Result<std::optional<LineSocket>> connect(const std::string& address, std::int32_t port);

  /// -1 once the other side is gone.
  int handle() const { return handle_; }

  bool is_open() const { return handle_ >= 0; }

  /// Sends a line; `text` has no line break. A side that does not read is closed.
  void send(std::string_view text);

  /// The lines that have come in since the last call. Closes when the other side has.
  std::vector<std::string> receive();

 private:
  void close();

  int handle_ = -1;
  std::string partial_;
};

/// Where others connect to.
class Listener {
 public:
  ~Listener();
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&& other) = delete;
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  /// Errors: the port is taken.
  static Result<Listener> open(std::int32_t port);

  int handle() const { return handle_; }

  std::optional<LineSocket> accept() const;

 private:
  explicit Listener(int handle) : handle_(handle) {}

  int handle_ = -1;
};

}  // namespace lockstep::launch
