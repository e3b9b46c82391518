// How many contributions each step's gradients were made of, and what became of the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace lockstep::laws {

/// Counts the contributions between two steps of one rank and wrapper.
///
/// A job that accumulates has windows of several contributions. What is left of a window at the end
/// of an epoch, or of the run, belongs into a shorter window of its own: dropped, its samples were
/// never used; carried over, the next epoch's first window is longer than all others. A program that
/// drops gradients in the middle of epochs does so on purpose (a generator's step also reaches the
/// discriminator), and is not judged.
class MicroWindows {
 public:
  void on_contribution(std::int32_t epoch) {
    if (n_open_ > 0 && epoch != last_epoch_) n_before_epoch_ = n_open_;
    last_epoch_ = epoch;
    ++n_open_;
  }

  void on_step() {
    if (n_open_ == 0) return;
    if (n_before_epoch_ > 0) {
      n_carried_ = n_carried_ == 0 ? n_before_epoch_ : n_carried_;
      longest_mixed_ = std::max(longest_mixed_, n_open_);
    } else {
      longest_ = std::max(longest_, n_open_);
    }
    close();
  }

  /// Gradients were forgotten. Clearing them after a step finds none that a step has not used.
  void on_cleared(std::int32_t epoch) {
    knows_clears_ = true;
    if (n_open_ == 0) return;
    if (n_before_epoch_ > 0 || epoch != last_epoch_) {
      n_dropped_ = n_dropped_ == 0 ? n_open_ : n_dropped_;
    } else {
      drops_anywhere_ = true;
    }
    close();
  }

  /// The rank's program ended well.
  void on_end() {
    if (n_open_ > 0) n_dropped_ = n_dropped_ == 0 ? n_open_ : n_dropped_;
    close();
  }

  /// What is wrong with them; empty: nothing, or it was not recorded when gradients are forgotten.
  std::string complaint() const {
    if (!knows_clears_ || drops_anywhere_ || longest_ < 2) return "";
    if (n_dropped_ > 0 && n_dropped_ < longest_) {
      return counted(n_dropped_) + " at the end of an epoch entered no step: windows of " +
             std::to_string(longest_) + " do not divide the epoch, and the rest is dropped";
    }
    if (n_carried_ > 0 && longest_mixed_ > longest_) {
      return counted(n_carried_) +
             " at the end of an epoch leaked into the next epoch's first step, which has " +
             std::to_string(longest_mixed_) + " contributions where other steps have " +
             std::to_string(longest_);
    }
    return "";
  }

 private:
  static std::string counted(std::int64_t n) {
    return n == 1 ? "1 contribution" : std::to_string(n) + " contributions";
  }

  void close() { n_open_ = n_before_epoch_ = 0; }

  std::int64_t n_open_ = 0;          // Contributions that no step has used.
  std::int64_t n_before_epoch_ = 0;  // Of these, from an earlier epoch than the last one.
  std::int64_t longest_ = 0;         // Window within one epoch.
  std::int64_t longest_mixed_ = 0;   // Window over two.
  std::int64_t n_dropped_ = 0;       // The first time, at the end of an epoch or of the run.
  std::int64_t n_carried_ = 0;       // The first time, over the end of an epoch.
  std::int32_t last_epoch_ = 0;
  bool drops_anywhere_ = false;
  bool knows_clears_ = false;
};

}  // namespace lockstep::laws
