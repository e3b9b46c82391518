// What the forwards of one wrapper are given, row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Records the rows of what forwards that train are given, and of what their losses compare the outputs with, from the
/// first forward on, for as long as anything new follows from them: up to kMostRows of each argument, on the first
/// kMostRanks ranks.
///
/// Not recorded: what needs a gradient, which other modules have computed, and scalars; of targets, labels and single
/// numbers.
class InputRows {
 public:
  static constexpr std::int64_t kMostRows = 1024;
  static constexpr std::int64_t kMostBytes = 1 << 26;  ///< Per argument: rows may be images.
  static constexpr std::int32_t kMostRanks = 64;

  /// Of the wrapper with this number. Requires: the recorder outlives it.
  InputRows(Recorder& recorder, std::int32_t wrapper) : recorder_(&recorder), wrapper_(wrapper) {}

  /// A forward begins. `trains`: in training mode, with gradients.
  void begin(bool trains);
  /// Its next argument.
  void record(const Variable& input);
  void record_target(const Tensor& target);

 private:
  struct Argument {
    NameId name = kNoName;
    std::int64_t n_rows = 0;
    std::int64_t n_bytes = 0;

    bool is_full() const { return n_rows >= kMostRows || n_bytes >= kMostBytes; }
  };

  bool wants(const Tensor& tensor) const;
  void record(Argument& argument, const Tensor& tensor);

  Recorder* recorder_;
  std::int32_t wrapper_;
  std::size_t place_ = 0;
  bool trains_ = false;
  std::vector<Argument> arguments_;
  Argument target_;
  std::vector<std::uint64_t> rows_;  // Scratch.
};

}  // namespace lockstep
