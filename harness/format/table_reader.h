// Reads the values of one table of a scenario: types, ranges, words, unknown keys.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/toml_document.h"

namespace lockstep {

/// The first thing that was wrong. Readers continue with defaults after it, so that code that reads
/// a table is a list of assignments without branches.
class Problem {
 public:
  /// A message quotes what the file says, and stays one line.
  void report(std::string_view message, const std::string& where) {
    if (!first_) first_ = Error{printable(message), where};
  }

  bool found() const { return first_.has_value(); }

  const Error& first() const { return *first_; }

 private:
  std::optional<Error> first_;
};

/// Reads the keys of one table; `finish` then reports the first key that was not asked for.
class TableReader {
 public:
  static constexpr std::int64_t kMaxInteger = std::numeric_limits<std::int64_t>::max();
  /// The bound of every integer that is not a seed: more steps, samples or nanoseconds (11 days)
  /// than a simulation has, and sums of thousands of them still fit.
  static constexpr std::int64_t kMost = 1'000'000'000'000'000;
  /// That of integers with 32 bits.
  static constexpr std::int64_t kMostSmall = 1'000'000;

  /// `name` is the table's path for messages ("loop.eval"), empty for the file's top level.
  TableReader(const TomlNode& table, std::string name, Problem& problem);

  bool has(std::string_view key);
  /// The key's value, or null when it is absent.
  const TomlNode* node(std::string_view key);
  const TomlNode* table(std::string_view key);
  const TomlNode* array(std::string_view key);

  std::int64_t integer(std::string_view key,
                       std::int64_t fallback,
                       std::int64_t min = 0,
                       std::int64_t max = kMost);
  double number(std::string_view key, double fallback);
  /// A number that must not be below `min`, nor above `max` if there is one. A key that is not there is not looked at.
  double number_between(std::string_view key,
                        double fallback,
                        double min,
                        std::optional<double> max);
  bool flag(std::string_view key, bool fallback);
  std::string text(std::string_view key, std::string_view fallback);
  /// One of `words`. A word of `later` belongs to the format but is not supported yet.
  std::string word(std::string_view key,
                   std::string_view fallback,
                   std::span<const std::string_view> words,
                   std::span<const std::string_view> later = {});

  std::vector<double> numbers(std::string_view key);
  std::vector<std::int64_t> integers(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  /// A list of these words; others are reported and left out.
  std::vector<std::string> words(std::string_view key, std::span<const std::string_view> known);
  std::vector<std::vector<double>> number_lists(std::string_view key);
  std::vector<std::vector<std::int64_t>> integer_lists(std::string_view key);

  /// An option that the format does not have yet: an error that says so, if it is given.
  void not_yet(std::string_view key);
  /// Reports unknown keys. Call it last.
  void finish();

  const std::string& where() const { return table_->where; }

  /// Where `key` was written, or the table's own place.
  std::string where(std::string_view key) const;
  /// "loop.steps" for the key `steps` of the table `loop`.
  std::string path(std::string_view key) const;

  Problem& problem() const { return *problem_; }

 private:
  const TomlNode* expect(std::string_view key, TomlNode::Kind kind);
  /// `value` where it is one of `words`; otherwise reports it.
  std::string one_of(std::string_view key,
                     std::string value,
                     std::string_view fallback,
                     std::span<const std::string_view> words);
  void wrong_type(std::string_view key, const TomlNode& value, std::string_view wanted);

  const TomlNode* table_;
  std::string name_;
  Problem* problem_;
  std::vector<std::string_view> asked_;
};

/// Whether a tensor with these sizes is one that a scenario may ask for: 2^31 elements. Their product
/// may be anything.
bool is_affordable(std::span<const std::int64_t> sizes);

/// Elements of an array node as numbers; reports anything else.
std::vector<double> numbers_of(const TomlNode& array, std::string_view name, Problem& problem);
std::vector<std::int64_t> integers_of(const TomlNode& array,
                                      std::string_view name,
                                      Problem& problem);
/// Ranks named in `array`. Reports ranks outside 0 .. n_ranks - 1.
std::vector<std::int32_t> ranks_of(const TomlNode& array, std::int32_t n_ranks, Problem& problem);
/// Reports a rank that a world of this many does not have. Returns: whether it has it.
bool check_rank(std::int64_t rank,
                std::int32_t n_ranks,
                const std::string& where,
                Problem& problem);

}  // namespace lockstep
