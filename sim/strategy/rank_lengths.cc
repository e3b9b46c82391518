// How long ranks are: counted in a run, and as a word.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/sim/strategy/uniform.h"

namespace lockstep::sim {

namespace {

constexpr std::string_view kNoStretch = "0";
constexpr std::uint64_t kMost = std::uint64_t{1} << 20U;

class Counter final : public LengthCounter {
 public:
  explicit Counter(LengthOrder order) : order_(order) {}

  void start(std::int32_t n_ranks) override {
    ranks_.assign(static_cast<std::size_t>(n_ranks), Progress{});
    ready_.clear();
    polling_.clear();
    others_.clear();
    picked_.reset();
  }

  void on_enabled(const Action& action) override {
    const auto number = static_cast<std::size_t>(action.id);
    if (number >= ranks_.size()) {
      others_.insert(action.id);
      return;
    }
    if (picked_ != number) end_stretch(ranks_[number]);
    if (action.polls) {
      polling_.push_back(number);
    } else {
      ready_.insert(number);
    }
  }

  void on_disabled(ActionId id) override {
    const auto number = static_cast<std::size_t>(id);
    ready_.erase(number);
    std::erase(polling_, number);
    others_.erase(id);
  }

  ActionId pick() override {
    const ActionId id = choose();
    on_disabled(id);
    picked_ = static_cast<std::size_t>(id);
    if (*picked_ < ranks_.size()) ++ranks_[*picked_].open;
    return id;
  }

  std::string describe() const override {
    return order_ == LengthOrder::kLowestFirst ? "lengths, lowest first" : "lengths, highest first";
  }

  RankLengths lengths() const override {
    RankLengths lengths;
    for (Progress rank : ranks_) {
      end_stretch(rank);
      lengths.stretches.push_back(std::move(rank.stretches));
    }
    return lengths;
  }

 private:
  struct Progress {
    std::vector<std::uint64_t> stretches;
    std::uint64_t open = 0;  ///< Resumptions since the last one ended.
  };

  static void end_stretch(Progress& rank) {
    if (rank.open > 0) rank.stretches.push_back(std::exchange(rank.open, 0));
  }

  ActionId choose() const {
    if (picked_ && ready_.contains(*picked_)) return static_cast<ActionId>(*picked_);
    if (!ready_.empty()) {
      const bool lowest = order_ == LengthOrder::kLowestFirst;
      return static_cast<ActionId>(lowest ? *ready_.begin() : *ready_.rbegin());
    }
    return others_.empty() ? static_cast<ActionId>(polling_.front()) : *others_.begin();
  }

  LengthOrder order_;
  std::vector<Progress> ranks_;
  std::set<std::size_t> ready_;
  std::deque<std::size_t> polling_;  // First come, first served.
  std::set<ActionId> others_;
  std::optional<std::size_t> picked_;  // What was picked last.
};

std::string encode_rank(const std::vector<std::uint64_t>& stretches) {
  std::string text;
  for (std::size_t i = 0; i < stretches.size();) {
    std::size_t end = i;
    while (end < stretches.size() && stretches[end] == stretches[i]) ++end;
    if (!text.empty()) text += '.';
    text += std::to_string(stretches[i]);
    if (end - i > 1) text += "x" + std::to_string(end - i);
    i = end;
  }
  return text.empty() ? std::string(kNoStretch) : text;
}

Error not_lengths(std::string_view part) {
  return {"'" + printable(part) + "' is not a length: write 3, or 2x4 for four of 2", ""};
}

/// A whole number from `least` to kMost; nothing for anything else.
std::optional<std::uint64_t> number_of(std::string_view text, std::int64_t least) {
  const std::optional<std::int64_t> number = parse_int(text);
  if (!number || *number < least || *number > static_cast<std::int64_t>(kMost)) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

Result<std::vector<std::uint64_t>> decode_rank(std::string_view text, std::uint64_t& room) {
  std::vector<std::uint64_t> stretches;
  if (text == kNoStretch) return stretches;
  for (const std::string_view part : split(text, '.')) {
    const std::size_t times = part.find('x');
    const auto length = number_of(part.substr(0, times), 1);
    const auto n = times == std::string_view::npos ? std::optional<std::uint64_t>(1)
                                                   : number_of(part.substr(times + 1), 1);
    if (!length || !n) return not_lengths(part);
    if (*n > room) return Error{"more than " + std::to_string(kMost) + " lengths", ""};
    room -= *n;
    stretches.insert(stretches.end(), *n, *length);
  }
  return stretches;
}

}  // namespace

std::string encode_lengths(const RankLengths& lengths) {
  const std::vector<std::vector<std::uint64_t>>& ranks = lengths.stretches;
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i;
    while (end < ranks.size() && ranks[end] == ranks[i]) ++end;
    if (!text.empty()) text += '/';
    if (end - i > 1) text += std::to_string(end - i) + "r";
    text += encode_rank(ranks[i]);
    i = end;
  }
  return text;
}

Result<RankLengths> decode_lengths(std::string_view text) {
  RankLengths lengths;
  if (text.empty()) return lengths;
  std::uint64_t room = kMost;
  for (std::string_view part : split(text, '/')) {
    std::uint64_t n_ranks = 1;
    if (const std::size_t mark = part.find('r'); mark != std::string_view::npos) {
      const auto n = number_of(part.substr(0, mark), 1);
      if (!n) return not_lengths(part);
      n_ranks = *n;
      part.remove_prefix(mark + 1);
    }
    const auto stretches = decode_rank(part, room);
    if (!stretches.ok()) return stretches.error();
    const std::uint64_t each = stretches.value().size() + 1;
    if (n_ranks > room / each) return Error{"more than " + std::to_string(kMost) + " lengths", ""};
    room -= n_ranks * each;
    lengths.stretches.insert(lengths.stretches.end(), n_ranks, stretches.value());
  }
  return lengths;
}

std::unique_ptr<LengthCounter> make_length_counter(LengthOrder order) {
  return std::make_unique<Counter>(order);
}

Result<RankLengths> count_lengths(const std::function<Outcome(LengthCounter&)>& run) {
  RankLengths lengths;
  for (const LengthOrder order : {LengthOrder::kLowestFirst, LengthOrder::kHighestFirst}) {
    const auto counter = make_length_counter(order);
    const Outcome made = run(*counter);
    if (!made.ok()) return made.error();
    lengths = longer_of(lengths, counter->lengths());
  }
  return lengths;
}

RankLengths longer_of(const RankLengths& first, const RankLengths& second) {
  RankLengths longer = first;
  longer.stretches.resize(std::max(first.stretches.size(), second.stretches.size()));
  for (std::size_t rank = 0; rank < second.stretches.size(); ++rank) {
    std::vector<std::uint64_t>& own = longer.stretches[rank];
    const std::vector<std::uint64_t>& other = second.stretches[rank];
    own.resize(std::max(own.size(), other.size()), 0);
    for (std::size_t i = 0; i < other.size(); ++i) own[i] = std::max(own[i], other[i]);
  }
  return longer;
}

}  // namespace lockstep::sim
