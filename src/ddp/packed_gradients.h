// Gradients that a program packs into one buffer, reduces there and takes out again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/autograd/variable.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

/// Where each gradient of a loop without a wrapper lies in a buffer that all of them are sent in, and where it is taken
/// from after the reduction:
///
///     put in      | b | a a a a | d | c c c |     sent, reduced, divided
///     taken out   | a a a a | b | c c c | d |     a step uses this: each gradient is made of others
///
/// Both are found by the bits: one gradient at a time, from the buffer's begin to its end, whose elements are those that follow.
/// Where two gradients would fit, as zeros do, nothing is known. What is taken out may be what has come back, or that divided by
/// the number of ranks or multiplied by its inverse; of anything else nothing is known either.
class PackedGradients {
 public:
  /// Of float32 gradients, in the first few steps.
  void on_sent(std::span<const NamedVariable> parameters, const OwnReductions::Sent& sent);
  void on_received(const OwnReductions::Sent& received);

  /// A step is about to use the gradients.
  /// Returns: what people are to know of those that were taken from elsewhere, once; or nothing.
  std::optional<std::string> on_step(std::span<const NamedVariable> parameters,
                                     std::int32_t n_ranks);

 private:
  /// By parameter: its first element's place, -1 = without a gradient.
  using Places = std::vector<std::int64_t>;
  using Stored = std::function<float(float)>;

  /// The one gradient that what is left of the buffer begins with; nothing where several would do, or none.
  static std::optional<std::size_t> first_of(std::span<const float> rest,
                                             std::span<const NamedVariable> parameters,
                                             const Places& places,
                                             const Stored& stored);
  /// Where gradients lie that are what `stored` makes of the buffer's elements; nothing where several would do, or none.
  static std::optional<Places> places_in(std::span<const float> buffer,
                                         std::span<const NamedVariable> parameters,
                                         const Stored& stored);
  static std::optional<Places> taken_from(std::span<const float> buffer,
                                          std::span<const NamedVariable> parameters,
                                          std::int32_t n_ranks);
  std::string text_of(std::span<const NamedVariable> parameters,
                      const Places& put,
                      const Places& taken) const;

  std::optional<Places> put_;  ///< Since the last step.
  std::int64_t n_sent_ = 0;
  std::vector<float> reduced_;
  CallSite site_;
  int n_looked_at_ = 0;  ///< Steps.
};

}  // namespace lockstep
