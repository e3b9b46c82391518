// What one rank did with the parameters of one wrapper.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "lockstep/base/names.h"
#include "lockstep/laws/rules/detail/trained/micro_windows.h"
#include "lockstep/trace/event.h"

namespace lockstep::laws {

/// A parameter that no reduction has, and that got a gradient, as one rank saw it first.
struct Unreduced {
  NameId tensor = kNoName;
  std::int32_t step = 0;
  std::uint64_t digest = 0;
};

/// A step that trained parameters of no wrapper instead of a wrapper's own, as one rank saw it.
struct Replaced {
  std::int32_t step = 0;         ///< Of the wrapper.
  std::uint64_t used = 0;        ///< Digest of what the step used.
  std::size_t n_parameters = 0;  ///< That it trained.
};

/// Which parameters got gradients, and which of them steps used. Of wrapper -1: those that no wrapper
/// has.
struct TrainedSets {
  LayoutId reduced = kNoLayout;
  std::vector<std::uint8_t> contributed;  ///< Bits: got a gradient in some backward.
  std::vector<LayoutId> optimized;
  std::vector<Unreduced> unreduced;
  MicroWindows windows;
  std::int64_t n_steps = 0;
  std::int64_t n_with_gradient = 0;  ///< Steps that had one for any parameter.
  std::int32_t last_step = 0;
  bool has_gradient = false;  ///< In what the next step uses.
  bool is_zero = false;       ///< All of that, as far as sketches say.
  bool is_open = false;       ///< A contribution came since the last step, and was not cleared.
  bool emptied = false;       ///< Contributions came since the last step, and were cleared.
  std::int64_t n_used = 0;    ///< Steps that had a gradient with anything in it.
  std::optional<std::int32_t> emptied_at{};  ///< The first step of which nothing was left.
  std::uint64_t used = 0;                    ///< Digest of what the next step uses.
  std::uint64_t first_used = 0;              ///< Of the first step that had a gradient ...
  std::int32_t first_step = 0;               ///< ... and that step.
  /// The last forward was to reduce, and its backward has not come by; at this step.
  std::optional<std::int32_t> awaited{};
  std::optional<Replaced> replaced{};  ///< Unless gradients come by again.
  LayoutId began = kNoLayout;          ///< What was wrapped, and its digests.
  std::vector<std::uint64_t> began_as{};
  std::set<NameId>
      moved{};  ///< Parameters that have changed otherwise than by steps recorded here.

  /// A backward has added to gradients.
  void contribute(const GradEvent& grad, std::int32_t epoch);
  /// The gradients that the step at `opt` is going to use.
  void use(const GradEvent& grad, std::int32_t opt);
  void clear(std::int32_t epoch);
  /// Values of parameters, as they were wrapped or left behind.
  void see(const StateEvent& state, const NameTable& names);
  void step(const StepEvent& step, std::int32_t opt);
};

}  // namespace lockstep::laws
