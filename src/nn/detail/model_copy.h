// Models that a program uses beside the one it trains: teachers, target networks, averages by hand.
#pragma once

#include <cstdint>

namespace lockstep {
class Recorder;
}  // namespace lockstep

namespace lockstep::nn {

class Module;

/// Whether a module is the one copy of a wrapped model, and when it was last looked at.
///
/// After the first step of a wrapped model, the one other model with parameters of its names and
/// shapes is looked at where the program calls it: its parameters are recorded at synchronising
/// forwards that grow apart, since reading them takes as long as reading the model. One that is
/// trained is left alone, and so is each of several, and a copy while ranks train alone.
class ModelCopy {
 public:
  /// False once it is known not to be one.
  bool may_be_one() const { return role_ != Role::kNone; }

  /// The program calls `module`, whose this is. Requires: the runtime has a recorder.
  void note_call(Module& module);

 private:
  enum class Role : std::uint8_t { kUnknown, kNone, kCopy };

  Role role_of(Module& module, Recorder& recorder);
  void record(const Module& module, Recorder& recorder);

  Role role_ = Role::kUnknown;
  std::int32_t wrapper_ = -1;
  std::int32_t next_ = 0;  // Synchronising forward from which on it is recorded again.
};

}  // namespace lockstep::nn
