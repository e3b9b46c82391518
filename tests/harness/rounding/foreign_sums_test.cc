// All-reduces of libraries that are not ours, as pairs whose verdict is known: each result is a sum of
// the same contributions (tests/golden/foreign_sums), so no pair may be called impossible; and each
// with a planted error of value, so each must be.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "lockstep/harness/rounding/explain_results.h"

namespace lockstep {
namespace {

using Tensors = std::vector<StoredTensor>;

struct ForeignResult {
  std::string name;  ///< "openmpi ring"
  Tensors tensors;
};

struct ForeignGroup {
  std::string name;  ///< "float 3"
  std::vector<Tensors> contributions;
  std::vector<ForeignResult> results;
};

Tensors read_words(std::istream& words, bool wide) {
  StoredTensor tensor{.name = "sum", .type = wide ? ElementType::kF64 : ElementType::kF32};
  std::string word;
  while (words >> word) {
    const std::uint64_t bits = std::stoull(word, nullptr, 16);
    tensor.bytes.append(reinterpret_cast<const char*>(&bits), wide ? 8 : 4);  // NOLINT
  }
  tensor.sizes = {static_cast<std::int64_t>(tensor.bytes.size()) / (wide ? 8 : 4)};
  return {tensor};
}

std::vector<ForeignGroup> read_groups() {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) +
                     "/tests/golden/foreign_sums/foreign_sums.txt");
  EXPECT_TRUE(file.good());
  std::vector<ForeignGroup> groups;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "group") {
      groups.push_back({line.substr(6), {}, {}});
    } else if (kind == "contribution") {
      groups.back().contributions.push_back(
          read_words(words, groups.back().name.starts_with("double")));
    } else if (kind == "result") {
      std::string library;
      std::string algorithm;
      words >> library >> algorithm;
      groups.back().results.push_back(
          {library + " " + algorithm, read_words(words, groups.back().name.starts_with("double"))});
    }
  }
  return groups;
}

/// AllreduceBcube of this Gloo leaves a rank's contribution out of a part of the buffer where the number of
/// ranks is not a power of two: 3 and 5 here (docs/explain_diff.md).
bool leaves_a_rank_out(const ForeignGroup& group, const ForeignResult& result) {
  const bool odd = group.name.ends_with(" 3") || group.name.ends_with(" 5");
  return odd && result.name == "gloo bcube";
}

RoundingVerdict verdict_of(const Tensors& left,
                           const Tensors& right,
                           const std::vector<Tensors>& contributions) {
  const auto found = explain_results(left, right, contributions, {});
  EXPECT_TRUE(found.ok()) << found.error().text();
  return found.value().verdict();
}

TEST(ForeignSumsTest, APairOfForeignResultsIsImpossibleOnlyWhereALibraryLeftARankOut) {
  std::size_t n_pairs = 0;
  std::size_t n_different = 0;
  std::size_t n_named = 0;
  for (const ForeignGroup& group : read_groups()) {
    for (std::size_t i = 0; i < group.results.size(); ++i) {
      for (std::size_t j = i + 1; j < group.results.size(); ++j) {
        const ForeignResult& a = group.results[i];
        const ForeignResult& b = group.results[j];
        const RoundingVerdict verdict = verdict_of(a.tensors, b.tensors, group.contributions);
        const bool equal = a.tensors[0].bytes == b.tensors[0].bytes;
        ++n_pairs;
        if (!equal) ++n_different;
        if (verdict == RoundingVerdict::kNamedOrders) ++n_named;
        if (leaves_a_rank_out(group, a) || leaves_a_rank_out(group, b)) {
          EXPECT_EQ(verdict, RoundingVerdict::kImpossible) << group.name << a.name << b.name;
          continue;
        }
        EXPECT_EQ(verdict == RoundingVerdict::kEqual, equal) << group.name << a.name << b.name;
        EXPECT_LE(verdict, RoundingVerdict::kWithinBound) << group.name << a.name << b.name;
      }
    }
  }
  EXPECT_GE(n_different, 200U) << "of " << n_pairs;
  EXPECT_GE(n_named, 200U) << "of " << n_different << " that differ";
}

double value_at(const Tensors& tensors, std::size_t element) {
  return FloatFormat::of(tensors[0].type)->read(tensors[0].bytes, element);
}

void set_value(Tensors& tensors, std::size_t element, double value) {
  const std::uint64_t bits = FloatFormat::of(tensors[0].type)->bits_of(value);
  const auto size = static_cast<std::size_t>(size_of(tensors[0].type));
  std::memcpy(tensors[0].bytes.data() + element * size, &bits, size);
}

std::vector<double> values_at(const std::vector<Tensors>& contributions, std::size_t element) {
  std::vector<double> values;
  for (const Tensors& each : contributions) values.push_back(value_at(each, element));
  return values;
}

/// The first number upwards that this way of computing cannot give.
double first_outside(const std::vector<double>& values, const Arithmetic& arithmetic) {
  const FloatFormat& format = arithmetic.format;
  const SumBound bound = bound_of(values, arithmetic, {});
  double wrong = format.round(bound.exact + bound.radius);
  while (is_possible(values, arithmetic, {}, wrong)) {
    wrong = format.type() == ElementType::kF64
                ? std::nextafter(wrong, INFINITY)
                : std::nextafterf(static_cast<float>(wrong), INFINITY);
  }
  return wrong;
}

// One contribution is lost, counted twice, negated or scaled by a power of two, in one element; or
// the result is moved to the first number outside of the interval, also if sums are truncated.
TEST(ForeignSumsTest, EveryPlantedErrorOfValueIsCalledImpossible) {
  std::size_t n_plants = 0;
  for (const ForeignGroup& group : read_groups()) {
    const ForeignResult& healthy = group.results.front();
    const FloatFormat format = *FloatFormat::of(healthy.tensors[0].type);
    for (std::size_t plant = 0; plant < 5; ++plant) {
      const std::size_t element = 7 * plant + 1;
      const std::vector<double> values = values_at(group.contributions, element);
      // The largest one: an error smaller than the rounding of the others cannot be distinguished from it.
      const double moved =
          *std::ranges::max_element(values, {}, [](double value) { return std::abs(value); });
      const double result = value_at(healthy.tensors, element);
      double wrong = 0.0;
      if (plant == 0) wrong = format.add(result, -moved);
      if (plant == 1) wrong = format.add(result, moved);
      if (plant == 2) wrong = format.add(result, -2 * moved);
      if (plant == 3) wrong = format.add(result, 3 * moved);
      if (plant == 4) wrong = first_outside(values, {.format = format, .nearest = false});
      Tensors broken = healthy.tensors;
      set_value(broken, element, wrong);
      const auto found = explain_results(healthy.tensors, broken, group.contributions, {});
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found.value().verdict(), RoundingVerdict::kImpossible)
          << group.name << ", plant " << plant;
      ASSERT_TRUE(found.value().tensors[0].impossible.has_value());
      EXPECT_EQ(found.value().tensors[0].impossible->element, static_cast<std::int64_t>(element));
      EXPECT_FALSE(found.value().tensors[0].impossible->is_left);
      ++n_plants;
    }
  }
  EXPECT_GE(n_plants, 50U);
}

// The interval has no soft edge: one number further needs another way of rounding.
TEST(ForeignSumsTest, TheFirstNumberOutsideIsNotTakenForRounding) {
  for (const ForeignGroup& group : read_groups()) {
    const ForeignResult& healthy = group.results.front();
    const FloatFormat format = *FloatFormat::of(healthy.tensors[0].type);
    Tensors broken = healthy.tensors;
    set_value(broken, 3, first_outside(values_at(group.contributions, 3), {.format = format}));
    EXPECT_EQ(verdict_of(healthy.tensors, broken, group.contributions), RoundingVerdict::kOnlyIf)
        << group.name;
  }
}

}  // namespace
}  // namespace lockstep
