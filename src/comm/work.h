// A collective under way, as a handle.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/base/intrusive.h"
#include "lockstep/comm/comm_status.h"

namespace lockstep {

/// What a backend keeps for one posted operation. Pooled and counted.
class WorkState : public Counted {
 public:
  virtual bool is_completed() = 0;  ///< A poll: a scheduling point, never blocks.
  virtual CommStatus wait() = 0;    ///< Blocks this rank only. A second wait answers the same.

  virtual std::string detail() const { return {}; }  ///< Words for a status other than kOk.

  /// What it was called with. That of a recv from any rank learns its peer.
  virtual const Signature& signature() const = 0;

  /// The name (contents.h) of what the operation has left in all of its one buffer; 0: not known.
  std::uint64_t result_content() const { return result_content_; }

 protected:
  /// Says what result_content() answers.
  void name_result(std::uint64_t content) { result_content_ = content; }

 private:
  std::uint64_t result_content_ = 0;
};

/// A posted collective. Dropping the handle does not wait and does not cancel: the operation goes
/// on, and the memory it uses must stay alive (as with c10d's asynchronous works).
class [[nodiscard]] Work {
 public:
  Work() = default;

  explicit Work(Ref<WorkState> state) : state_(std::move(state)) {}

  bool valid() const { return static_cast<bool>(state_); }

  bool is_completed() const { return state().is_completed(); }

  [[nodiscard]] CommStatus wait() const { return state().wait(); }

  /// Waits and throws CommError unless the operation succeeded.
  void wait_or_throw() const;

  const Signature& signature() const { return state().signature(); }

  std::uint64_t result_content() const { return state().result_content(); }

  std::string detail() const { return state().detail(); }

 private:
  WorkState& state() const {
    LOCKSTEP_CHECK(state_, "an empty Work is used: nothing was posted");
    return *state_;
  }

  Ref<WorkState> state_;
};

}  // namespace lockstep
