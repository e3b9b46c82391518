#include "lockstep/harness/run/place_values.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/formats/float_format.h"

namespace lockstep {
namespace {

/// The numbers that the finding is about, on one rank.
struct Found {
  Rank rank{};
  std::span<const double> values;
};

bool wants_values(const Finding& finding) {
  return parse_enum<StatePoint>(finding.event) && !finding.tensor.empty() && finding.step &&
         !finding.ranks.empty() && !finding.element;
}

/// Bytes of all values of a run like this one. Its gradients are known; parameters, buffers and an
/// optimizer's state are taken for three times as much.
double value_bytes(const MemoryTrace& trace) {
  double n_elems = 0.0;
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    for (const Event& event : trace.events(Rank{r})) {
      const auto* grad = std::get_if<GradEvent>(&event.body);
      if (grad == nullptr) continue;
      for (const std::int64_t n : grad->n_elems) n_elems += static_cast<double>(n);
    }
  }
  return 4.0 * n_elems * sizeof(double);
}

std::optional<Found> find_values(const MemoryTrace& trace, const Finding& finding, Rank rank) {
  for (const Event& event : trace.events(rank)) {
    const auto* values = std::get_if<ValueEvent>(&event.body);
    if (values == nullptr || event.at.attempt != finding.attempt || event.at.opt != *finding.step ||
        trace.names().text(values->tensor) != finding.tensor ||
        name_of(values->point) != finding.event)
      continue;
    return Found{rank, values->values};
  }
  return std::nullopt;
}

/// The type of the tensor, as far as gradients tell it.
std::optional<DType> dtype_of(const MemoryTrace& trace, const Finding& finding) {
  for (const Event& event : trace.events(finding.ranks.front())) {
    const auto* grad = std::get_if<GradEvent>(&event.body);
    if (grad == nullptr) continue;
    for (const NameId name : trace.names().layout(grad->layout)) {
      if (trace.names().text(name) == finding.tensor) return grad->dtype;
    }
  }
  return std::nullopt;
}

/// Numbers further apart do not look like the work of rounding, and their distance says nothing.
constexpr std::uint64_t kMostUlps = std::uint64_t{1} << 20U;

/// ", 3 ulps of f32 apart"; empty where it says nothing.
std::string distance_text(double a, double b, std::optional<DType> dtype) {
  if (!std::isfinite(a) || !std::isfinite(b) || !dtype) return {};
  const std::optional<FloatFormat> format = FloatFormat::of(*dtype);
  if (!format) return {};
  const std::uint64_t n = format->ulps_between(a, b);
  if (n > kMostUlps) return {};
  return ", " + std::to_string(n) + (n == 1 ? " ulp of " : " ulps of ") +
         std::string(name_of(*dtype)) + " apart";
}

/// The shortest decimal that reads back to the same number of this type.
std::string value_text(const Found& found, std::size_t i, std::optional<DType> dtype) {
  const double value = found.values[i];
  const std::string text =
      dtype == DType::kF32 ? fmt::format("{}", static_cast<float>(value)) : exact(value);
  return text + " on rank " + std::to_string(to_int(found.rank));
}

/// The lowest rank that the finding does not name and that has values there.
std::optional<Found> find_reference(const MemoryTrace& trace, const Finding& finding) {
  for (std::int32_t r = 0; r < trace.n_ranks(); ++r) {
    if (std::ranges::find(finding.ranks, Rank{r}) != finding.ranks.end()) continue;
    if (const auto found = find_values(trace, finding, Rank{r})) return found;
  }
  return std::nullopt;
}

void add_values_to(const MemoryTrace& trace, Finding& finding) {
  const auto accused = find_values(trace, finding, finding.ranks.front());
  const auto reference = find_reference(trace, finding);
  if (!accused || !reference || accused->values.size() != reference->values.size()) return;
  for (std::size_t i = 0; i < accused->values.size(); ++i) {
    const double own = accused->values[i];
    const double other = reference->values[i];
    if (std::bit_cast<std::uint64_t>(own) == std::bit_cast<std::uint64_t>(other)) continue;
    finding.element = static_cast<std::int64_t>(i);
    const std::optional<DType> dtype = dtype_of(trace, finding);
    finding.message += "; that element is " + value_text(*accused, i, dtype) + " and " +
                       value_text(*reference, i, dtype) + distance_text(own, other, dtype);
    return;
  }
}

}  // namespace

void add_values(const std::function<std::shared_ptr<const MemoryTrace>()>& repeat,
                const MemoryTrace& trace,
                Report& report) {
  std::vector<Finding*> findings;
  for (LawResult& law : report.laws) {
    for (Finding& finding : law.findings) {
      if (wants_values(finding)) findings.push_back(&finding);
    }
  }
  if (findings.empty() || value_bytes(trace) > static_cast<double>(kMostValueBytes)) return;
  const std::shared_ptr<const MemoryTrace> again = repeat();
  if (again == nullptr) return;
  for (Finding* const finding : findings) add_values_to(*again, *finding);
}

}  // namespace lockstep
