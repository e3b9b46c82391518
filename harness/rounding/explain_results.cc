#include "lockstep/harness/rounding/explain_results.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

using Tensors = std::vector<const StoredTensor*>;

using ByName = std::map<std::string_view, const StoredTensor*>;

ByName by_name(const std::vector<StoredTensor>& tensors) {
  ByName named;
  for (const StoredTensor& tensor : tensors) named.try_emplace(tensor.name, &tensor);
  return named;
}

/// The tensor called as `like`, if it has its type and size.
Result<const StoredTensor*> matching(const ByName& tensors,
                                     const StoredTensor& like,
                                     const std::string& where) {
  const auto known = tensors.find(like.name);
  const StoredTensor* const tensor = known == tensors.end() ? nullptr : known->second;
  if (tensor == nullptr) return Error{fmt::format("has no tensor '{}'", like.name), where};
  if (tensor->type != like.type || tensor->bytes.size() != like.bytes.size()) {
    return Error{fmt::format("tensor '{}' has {} elements of {} here, {} of {} in the first file",
                             like.name,
                             tensor->bytes.size() / static_cast<std::size_t>(size_of(tensor->type)),
                             name_of(tensor->type),
                             like.bytes.size() / static_cast<std::size_t>(size_of(like.type)),
                             name_of(like.type)),
                 where};
  }
  return tensor;
}

/// Errors: the second file has a tensor that the first one has not.
Outcome check_known(const ByName& left, const std::vector<StoredTensor>& right) {
  for (const StoredTensor& other : right) {
    if (!left.contains(other.name)) return matching(left, other, "the first file").error();
  }
  return success();
}

/// Explains one tensor.
class Explaining {
 public:
  Explaining(const StoredTensor& left,
             const StoredTensor& right,
             Tensors contributions,
             const FloatFormat& format,
             const Combination& reduction)
      : left_(left),
        right_(right),
        contributions_(std::move(contributions)),
        format_(format),
        reduction_(reduction) {}

  TensorExplanation run();

 private:
  void compare(std::int64_t element);
  void judge(std::int64_t element);
  std::optional<ImpossibleElement> worst() const;
  void finish();

  const StoredTensor& left_;
  const StoredTensor& right_;
  Tensors contributions_;
  FloatFormat format_;
  Combination reduction_;
  TensorExplanation found_;
  std::optional<SideJudge> left_judge_;
  std::optional<SideJudge> right_judge_;
  std::vector<double> values_;  ///< Of the element under way.
};

void Explaining::compare(std::int64_t element) {
  const auto index = static_cast<std::size_t>(element);
  const double a = format_.read(left_.bytes, index);
  const double b = format_.read(right_.bytes, index);
  const bool odd = std::isnan(a) || std::isnan(b);
  const std::uint64_t ulps =
      odd ? (std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<std::uint64_t>::max())
          : format_.ulps_between(a, b);
  if (ulps == 0) return;
  ++found_.n_different;
  if (ulps <= found_.ulps) return;
  found_.ulps = ulps;
  found_.widest = element;
}

void Explaining::judge(std::int64_t element) {
  const auto index = static_cast<std::size_t>(element);
  values_.clear();
  for (const StoredTensor* each : contributions_) {
    values_.push_back(format_.read(each->bytes, index));
  }
  left_judge_->add(values_, format_.read(left_.bytes, index));
  right_judge_->add(values_, format_.read(right_.bytes, index));
}

/// Of the two results' worst elements the one that is further outside.
std::optional<ImpossibleElement> Explaining::worst() const {
  std::optional<ImpossibleElement> left = left_judge_->impossible();
  std::optional<ImpossibleElement> right = right_judge_->impossible();
  if (left) left->is_left = true;
  if (!left || !right) return left ? left : right;
  return right_judge_->side().ratio > left_judge_->side().ratio ? right : left;
}

void Explaining::finish() {
  if (contributions_.empty()) {
    if (found_.n_different > 0) found_.verdict = RoundingVerdict::kNotJudged;
    return;
  }
  found_.left = left_judge_->side();
  found_.right = right_judge_->side();
  found_.impossible = worst();
  if (found_.left->is_impossible() || found_.right->is_impossible()) {
    found_.verdict = RoundingVerdict::kImpossible;
  } else if (found_.left->only_if || found_.right->only_if) {
    found_.verdict = RoundingVerdict::kOnlyIf;
  } else if (found_.n_different == 0) {
    found_.verdict = RoundingVerdict::kEqual;
  } else if (found_.left->runs && found_.right->runs) {
    found_.verdict = RoundingVerdict::kNamedOrders;
  } else {
    found_.verdict = RoundingVerdict::kWithinBound;
  }
}

TensorExplanation Explaining::run() {
  found_.tensor = left_.name;
  found_.type = left_.type;
  found_.n_elements = static_cast<std::int64_t>(left_.bytes.size()) / size_of(left_.type);
  const auto n = static_cast<std::int32_t>(contributions_.size());
  if (n > 0) {
    left_judge_.emplace(n, format_, reduction_);
    right_judge_.emplace(n, format_, reduction_);
  }
  for (std::int64_t element = 0; element < found_.n_elements; ++element) {
    compare(element);
    if (n > 0) judge(element);
  }
  finish();
  return std::move(found_);
}

}  // namespace

RoundingVerdict Explanation::verdict() const {
  RoundingVerdict worst = RoundingVerdict::kEqual;
  for (const TensorExplanation& each : tensors) worst = std::max(worst, each.verdict);
  return worst;
}

Result<Explanation> explain_results(const std::vector<StoredTensor>& left,
                                    const std::vector<StoredTensor>& right,
                                    const std::vector<std::vector<StoredTensor>>& contributions,
                                    const Combination& reduction) {
  if (left.empty()) return Error{"has no tensors", "the first file"};
  if (contributions.size() == 1) {
    return Error{"a sum needs at least two contributions: give one file per rank",
                 "--contributions"};
  }
  const ByName all_right = by_name(right);
  if (Outcome known = check_known(by_name(left), right); !known.ok()) return known.error();
  std::vector<ByName> parts_of;
  for (const std::vector<StoredTensor>& own : contributions) parts_of.push_back(by_name(own));
  Explanation explanation{.n_contributions = static_cast<std::int32_t>(contributions.size()),
                          .reduction = reduction,
                          .tensors = {}};
  for (const StoredTensor& tensor : left) {
    const std::optional<FloatFormat> format = FloatFormat::of(tensor.type);
    if (!format) {
      return Error{fmt::format("tensor '{}' is of {}; explained are float16, bfloat16, float32 and "
                               "float64",
                               tensor.name,
                               name_of(tensor.type)),
                   "the first file"};
    }
    const auto other = matching(all_right, tensor, "the second file");
    if (!other.ok()) return other.error();
    Tensors parts;
    for (std::size_t rank = 0; rank < contributions.size(); ++rank) {
      const auto part =
          matching(parts_of[rank], tensor, fmt::format("the contribution of rank {}", rank));
      if (!part.ok()) return part.error();
      parts.push_back(part.value());
    }
    explanation.tensors.push_back(
        Explaining(tensor, *other.value(), std::move(parts), *format, reduction).run());
  }
  return explanation;
}

}  // namespace lockstep
