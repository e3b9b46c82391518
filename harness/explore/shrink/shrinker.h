// Makes failing documents smaller, one accepted change after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "lockstep/harness/explore/search/trial.h"

namespace lockstep::explore {

/// Whether a smaller run fails the way that is wanted. The default asks for equality.
using SameFailure = std::function<bool(const Failure& wanted, const Failure& got)>;

struct ShrinkOptions {
  std::uint64_t n_tries = 4000;  ///< At most this many documents are tried.
  /// A failure that depends on the schedule may need a different one in a smaller world: this many
  /// random ones are tried if the recorded one shows nothing.
  std::uint64_t n_schedules = 6;
  SameFailure same = [](const Failure& wanted, const Failure& got) { return wanted == got; };
};

/// The smallest document so far that fails as the first one did.
///
/// Requires: the bench outlives it.
/// Deterministic: the same offers have the same answers.
class Shrinker {
 public:
  Shrinker(const TrialRunner& runner, ShrinkOptions options)
      : runner_(&runner), options_(std::move(options)) {}

  /// Starts with a document that fails under `schedule` (empty: its own). Expectations, titles and
  /// schedules that do not matter are taken out of it.
  /// Errors: it cannot be read, or does not fail.
  Outcome start(const TomlNode& document, const std::string& schedule);

  /// Runs the document and takes it over if it fails the same way and costs less.
  bool offer(TomlNode candidate);

  const TomlNode& best() const { return best_; }

  const std::string& path() const { return runner_->path(); }

  const Trial& trial() const { return trial_; }

  const Failure& wanted() const { return *wanted_; }

  std::uint64_t n_tries() const { return n_tries_; }

  bool exhausted() const { return n_tries_ >= options_.n_tries; }

 private:
  /// One that fails as wanted, under its own schedule or a different one; nothing otherwise.
  std::optional<Trial> failing(const TomlNode& document) const;
  void adopt(TomlNode document, Trial trial);
  void start_schedule(const std::string& schedule);
  void bound_livelock();

  const TrialRunner* runner_;
  ShrinkOptions options_;
  TomlNode best_;
  Trial trial_;
  std::optional<Failure> wanted_;
  std::set<std::uint64_t> tried_;  ///< Digests of documents.
  std::uint64_t n_tries_ = 0;
  std::uint64_t livelock_points_ = 0;
};

/// A smallest selection of 0 .. n - 1 that `holds`: leaving out any one of it no longer does, as
/// far as was seen. Large parts are left out first.
///
/// Requires: all of them together hold.
/// Source: Zeller, Hildebrandt: "Simplifying and Isolating Failure-Inducing Input", 2002, in its
///     form that only removes.
std::vector<std::size_t> minimize(
    std::size_t n, const std::function<bool(const std::vector<std::size_t>&)>& holds);

}  // namespace lockstep::explore
