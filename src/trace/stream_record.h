// Random streams in a rank's trace: noted before the first draw of each pass.
#pragma once

#include <cstdint>

#include "lockstep/tensor/digest.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// What a stream is meant to be.
enum class StreamScope : std::uint8_t {
  kPrivate,  ///< Unlike any other rank's: dropout, augmentation.
  kShared,   ///< The same on all ranks: which layer to drop, which shape to crop to.
};

/// Remembers in which pass a stream was last recorded.
class StreamRecord {
 public:
  /// `name` lives as long as the recorder: a literal.
  explicit StreamRecord(const char* name, StreamScope scope = StreamScope::kPrivate)
      : name_(name), scope_(scope) {}

  /// Whether this pass has no event of the stream yet.
  bool is_due(Recorder& recorder) const {
    const Position& at = recorder.position(recorder.current_wrapper());
    return !recorded_ || at.epoch != epoch_ || at.attempt != attempt_;
  }

  /// Records `generator` as it is before a draw, once a pass. `worker`: the loader's, -1 = none.
  template <typename Generator>
  void before_draw(Recorder* recorder, const Generator& generator, std::int64_t worker = -1) {
    if (recorder == nullptr || !is_due(*recorder)) return;
    const Position& at = recorder->position(recorder->current_wrapper());
    recorded_ = true;
    epoch_ = at.epoch;
    attempt_ = at.attempt;
    const auto bytes = generator.state();
    recorder->record(
        RngEvent{.stream = recorder->literal(name_),
                 .shared = scope_ == StreamScope::kShared,
                 .worker = worker,
                 .state = sm64(bytes.data(), static_cast<std::int64_t>(bytes.size()), DType::kU8)},
        recorder->current_wrapper());
  }

 private:
  const char* name_;
  StreamScope scope_;
  bool recorded_ = false;
  std::int32_t epoch_ = 0;
  std::int32_t attempt_ = 0;
};

}  // namespace lockstep
