// One result beside its contributions: which order gave it, or what else must be so, or that nothing can.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/harness/rounding/order_search.h"
#include "lockstep/harness/rounding/sum_bound.h"
#include "lockstep/harness/rounding/suspicion.h"

namespace lockstep {

/// What would make a result possible that no order of additions in its own type gives.
enum class Unless : std::uint8_t {
  kInBF16,
  kInF16,
  kInF32,
  kNotNearest,
  kInBF16NotNearest,
  kInF16NotNearest,
  kInF32NotNearest
};
template <>
inline constexpr EnumNames<7> kEnumNames<Unless> = {"exchanged in bfloat16",
                                                    "exchanged in float16",
                                                    "exchanged in float32",
                                                    "not rounded to nearest",
                                                    "exchanged in bfloat16, not rounded to nearest",
                                                    "exchanged in float16, not rounded to nearest",
                                                    "exchanged in float32, not rounded to nearest"};

/// Each condition as arithmetic: narrower types, operations that do not round to nearest, and both.
std::vector<Arithmetic> other_ways(const FloatFormat& format);

struct ResultSide {
  std::optional<std::vector<OrderRun>> runs;  ///< Absent: some element has no known order.
  std::int64_t n_outside = 0;                 ///< Elements that no order gives.
  /// The element that is furthest outside of its bound, or else closest to it: distance over radius.
  std::int64_t worst = 0;
  double ratio = 0.0;
  /// It explains all elements. Absent: nothing does, or none needs it.
  std::optional<Unless> only_if = {};

  bool is_impossible() const { return n_outside > 0 && !only_if; }
};

/// An element that no order gives, with all that shows it.
struct ImpossibleElement {
  bool is_left = false;
  std::int64_t element = 0;
  double result = 0.0;
  std::vector<double> contributions;
  SumBound bound;          ///< Zero where a contribution is not finite.
  double distance = 0.0;   ///< Of the result from the exact one.
  std::string looks_like;  ///< Which mistake fits, or empty.
};

/// Judges a result, element by element.
class SideJudge {
 public:
  SideJudge(std::int32_t n, const FloatFormat& format, const Combination& combination);

  /// Requires: n contributions, of the result's type.
  void add(std::span<const double> contributions, double result);

  ResultSide side() const;

  /// The worst one; absent: each element is possible, or would be under one condition.
  std::optional<ImpossibleElement> impossible() const;

 private:
  /// A condition that held for all elements so far.
  struct Condition {
    Unless unless = Unless::kNotNearest;
    Arithmetic arithmetic;
  };

  void judge_finite(std::span<const double> contributions, double result);
  void add_outside(std::span<const double> contributions, double result, double distance);
  bool comes_from(const FloatFormat& narrow, double result) const;
  void drop_types(double result);
  void drop_conditions(std::span<const double> contributions, double result);

  std::int32_t n_;
  Arithmetic arithmetic_;
  Combination combination_;
  SumOrderSearch orders_;
  Suspicion suspicion_;
  std::vector<Condition> conditions_;
  ResultSide side_;
  std::optional<ImpossibleElement> worst_;
  std::int64_t element_ = -1;
  SumBound bound_;  ///< Of the element under way.
};

}  // namespace lockstep
