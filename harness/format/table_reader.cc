#include "lockstep/harness/format/table_reader.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/tensor/shape.h"

namespace lockstep {

TableReader::TableReader(const TomlNode& table, std::string name, Problem& problem)
    : table_(&table), name_(std::move(name)), problem_(&problem) {}

std::string TableReader::path(std::string_view key) const {
  return name_.empty() ? std::string(key) : name_ + "." + std::string(key);
}

std::string TableReader::where(std::string_view key) const {
  for (const TomlField& field : table_->fields) {
    if (field.key == key) return field.value.where;
  }
  return table_->where;
}

const TomlNode* TableReader::node(std::string_view key) {
  asked_.push_back(key);
  return table_->find(key);
}

bool TableReader::has(std::string_view key) { return node(key) != nullptr; }

void TableReader::wrong_type(std::string_view key, const TomlNode& value, std::string_view wanted) {
  problem_->report("'" + path(key) + "' must be " + std::string(wanted) + ", not " +
                       std::string(describe(value.kind)),
                   value.where);
}

const TomlNode* TableReader::expect(std::string_view key, TomlNode::Kind kind) {
  const TomlNode* value = node(key);
  if (value == nullptr || value->kind == kind) return value;
  wrong_type(key, *value, describe(kind));
  return nullptr;
}

const TomlNode* TableReader::table(std::string_view key) {
  return expect(key, TomlNode::Kind::kTable);
}

const TomlNode* TableReader::array(std::string_view key) {
  return expect(key, TomlNode::Kind::kArray);
}

std::int64_t TableReader::integer(std::string_view key,
                                  std::int64_t fallback,
                                  std::int64_t min,
                                  std::int64_t max) {
  const TomlNode* value = expect(key, TomlNode::Kind::kInteger);
  if (value == nullptr) return fallback;
  if (value->integer < min || value->integer > max) {
    const std::string range =
        max >= kMost && value->integer < min
            ? "at least " + std::to_string(min)
            : "between " + std::to_string(min) + " and " + std::to_string(max);
    problem_->report(
        "'" + path(key) + "' is " + std::to_string(value->integer) + "; it must be " + range,
        value->where);
    return fallback;
  }
  return value->integer;
}

double TableReader::number(std::string_view key, double fallback) {
  const TomlNode* value = node(key);
  if (value == nullptr) return fallback;
  if (!value->is_number()) {
    wrong_type(key, *value, "a number");
    return fallback;
  }
  return value->number;
}

double TableReader::number_between(std::string_view key,
                                   double fallback,
                                   double min,
                                   std::optional<double> max) {
  if (node(key) == nullptr) return fallback;
  const double value = number(key, fallback);
  if (value >= min && (!max || value <= *max)) return value;
  const std::string range =
      max ? "between " + exact(min) + " and " + exact(*max) : "at least " + exact(min);
  problem_->report("'" + path(key) + "' is " + exact(value) + "; it must be " + range, where(key));
  return fallback;
}

bool TableReader::flag(std::string_view key, bool fallback) {
  const TomlNode* value = expect(key, TomlNode::Kind::kBool);
  return value == nullptr ? fallback : value->flag;
}

std::string TableReader::text(std::string_view key, std::string_view fallback) {
  const TomlNode* value = expect(key, TomlNode::Kind::kString);
  return value == nullptr ? std::string(fallback) : value->text;
}

std::string TableReader::word(std::string_view key,
                              std::string_view fallback,
                              std::span<const std::string_view> words,
                              std::span<const std::string_view> later) {
  std::string value = text(key, fallback);
  if (std::find(later.begin(), later.end(), value) != later.end()) {
    problem_->report("'" + path(key) + " = \"" + value + "\"' is not supported yet", where(key));
    return std::string(fallback);
  }
  return one_of(key, std::move(value), fallback, words);
}

std::string TableReader::one_of(std::string_view key,
                                std::string value,
                                std::string_view fallback,
                                std::span<const std::string_view> words) {
  if (std::find(words.begin(), words.end(), value) != words.end()) return value;
  std::string known;
  for (const std::string_view word : words)
    known += (known.empty() ? "" : ", ") + std::string(word);
  const std::string guess = did_you_mean(value, words);
  problem_->report("'" + path(key) + "' does not know '" + value + "'" +
                       (guess.empty() ? "; it is one of: " + known : guess),
                   where(key));
  return std::string(fallback);
}

std::vector<double> TableReader::numbers(std::string_view key) {
  const TomlNode* value = array(key);
  return value == nullptr ? std::vector<double>() : numbers_of(*value, path(key), *problem_);
}

std::vector<std::int64_t> TableReader::integers(std::string_view key) {
  const TomlNode* value = array(key);
  return value == nullptr ? std::vector<std::int64_t>() : integers_of(*value, path(key), *problem_);
}

std::vector<std::string> TableReader::texts(std::string_view key) {
  std::vector<std::string> result;
  const TomlNode* value = array(key);
  if (value == nullptr) return result;
  for (const TomlNode& item : value->items) {
    if (item.kind != TomlNode::Kind::kString) {
      problem_->report(
          "'" + path(key) + "' must hold strings, not " + std::string(describe(item.kind)),
          item.where);
    }
    result.push_back(item.text);
  }
  return result;
}

std::vector<std::string> TableReader::words(std::string_view key,
                                            std::span<const std::string_view> known) {
  std::vector<std::string> given = texts(key);
  std::erase_if(given,
                [&](const std::string& word) { return one_of(key, word, {}, known).empty(); });
  return given;
}

std::vector<std::vector<double>> TableReader::number_lists(std::string_view key) {
  std::vector<std::vector<double>> result;
  const TomlNode* value = array(key);
  if (value == nullptr) return result;
  for (const TomlNode& item : value->items) {
    if (!item.is_array()) {
      problem_->report("'" + path(key) + "' must hold one array per rank, not " +
                           std::string(describe(item.kind)),
                       item.where);
    }
    result.push_back(numbers_of(item, path(key), *problem_));
  }
  return result;
}

std::vector<std::vector<std::int64_t>> TableReader::integer_lists(std::string_view key) {
  std::vector<std::vector<std::int64_t>> result;
  const TomlNode* value = array(key);
  if (value == nullptr) return result;
  for (const TomlNode& item : value->items) {
    result.push_back(integers_of(item, path(key), *problem_));
  }
  return result;
}

void TableReader::not_yet(std::string_view key) {
  if (has(key)) problem_->report("'" + path(key) + "' is not supported yet", where(key));
}

void TableReader::finish() {
  for (const TomlField& field : table_->fields) {
    if (std::find(asked_.begin(), asked_.end(), field.key) != asked_.end()) continue;
    const std::string in = name_.empty() ? "" : " in '" + name_ + "'";
    problem_->report("unknown key '" + field.key + "'" + in + did_you_mean(field.key, asked_),
                     field.where);
  }
}

std::vector<double> numbers_of(const TomlNode& array, std::string_view name, Problem& problem) {
  std::vector<double> result;
  for (const TomlNode& item : array.items) {
    if (!item.is_number()) {
      problem.report(
          "'" + std::string(name) + "' must hold numbers, not " + std::string(describe(item.kind)),
          item.where);
    }
    result.push_back(item.number);
  }
  return result;
}

std::vector<std::int64_t> integers_of(const TomlNode& array,
                                      std::string_view name,
                                      Problem& problem) {
  std::vector<std::int64_t> result;
  for (const TomlNode& item : array.items) {
    if (item.kind != TomlNode::Kind::kInteger) {
      problem.report(
          "'" + std::string(name) + "' must hold integers, not " + std::string(describe(item.kind)),
          item.where);
    }
    if (item.integer < -TableReader::kMost || item.integer > TableReader::kMost) {
      problem.report("'" + std::string(name) + "' holds " + std::to_string(item.integer) +
                         "; at most " + std::to_string(TableReader::kMost) + " is possible",
                     item.where);
    }
    result.push_back(item.integer);
  }
  return result;
}

bool is_affordable(std::span<const std::int64_t> sizes) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 31;
  if (!Shape::fits(sizes)) return false;
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= std::max<std::int64_t>(size, 1);
  return product <= kMostElements;
}

bool check_rank(std::int64_t rank,
                std::int32_t n_ranks,
                const std::string& where,
                Problem& problem) {
  if (rank >= 0 && rank < n_ranks) return true;
  problem.report("rank " + std::to_string(rank) + " does not exist: the world has ranks 0 to " +
                     std::to_string(n_ranks - 1),
                 where);
  return false;
}

std::vector<std::int32_t> ranks_of(const TomlNode& array, std::int32_t n_ranks, Problem& problem) {
  std::vector<std::int32_t> result;
  for (const TomlNode& item : array.items) {
    if (item.kind != TomlNode::Kind::kInteger) {
      problem.report("ranks are integers, not " + std::string(describe(item.kind)), item.where);
    } else if (check_rank(item.integer, n_ranks, item.where, problem)) {
      result.push_back(static_cast<std::int32_t>(item.integer));
    }
  }
  return result;
}

}  // namespace lockstep
