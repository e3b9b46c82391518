// The ways a thing can go wrong, kept apart on purpose (docs/architecture.md, "Errors"):
//   bug in our code        -> LOCKSTEP_CHECK throws ContractViolation (check.h)
//   bad input from outside -> Result<T> carries an Error to the caller
//   misfortune of a run    -> a value of the domain (comm/comm_status.h)
//   broken law             -> a Finding (laws/finding.h)
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace lockstep {

/// What is wrong with an input, and where a human should look.
struct Error {
  std::string message;  ///< One sentence, lower case, no full stop: "unknown key 'wrold'".
  std::string where;    ///< "scenarios/lessons/hello.toml:7:3", "digits.csv:12:5", or empty.

  /// "where: message", or the message alone when there is no place.
  std::string text() const { return where.empty() ? message : where + ": " + message; }
};

/// Throws the ContractViolation of one who takes a value that is not there.
[[noreturn]] void fail_value(const Error& error);

/// Either a T or the reason there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}  // NOLINT(google-explicit-constructor)

  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return std::holds_alternative<T>(state_); }

  /// Requires: ok(), else ContractViolation with the reason's text.
  const T& value() const& {
    check();
    return *std::get_if<T>(&state_);
  }

  T& value() & {
    check();
    return *std::get_if<T>(&state_);
  }

  T&& value() && {
    check();
    return std::move(*std::get_if<T>(&state_));
  }

  const Error& error() const { return std::get<Error>(state_); }  ///< Requires: !ok().

 private:
  void check() const {
    if (const Error* const error = std::get_if<Error>(&state_)) fail_value(*error);
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or the reason of the failure.
using Outcome = Result<std::monostate>;

inline Outcome success() { return std::monostate{}; }

}  // namespace lockstep
