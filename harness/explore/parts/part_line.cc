#include "lockstep/harness/explore/parts/part_line.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep::explore {

using Json = nlohmann::ordered_json;

struct PartLine::Node {
  Json json;
};

/// The line's text, where it stands, and the first complaint about it.
struct PartLine::Source {
  std::string line;
  std::string where;
  std::string complaint;
  std::size_t column = 1;
};

namespace {

std::string quoted(const std::string& key) { return "'" + key + "'"; }

std::size_t column_of(const std::string& line, const std::string& key) {
  const std::size_t at = line.find("\"" + key + "\"");
  return at == std::string::npos ? 1 : at + 1;
}

std::string at_column(const std::string& where, std::size_t column) {
  return where + ":" + std::to_string(column);
}

std::optional<std::uint64_t> number_in(const Json& json) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kMost) return std::nullopt;
  return json.get<std::uint64_t>();
}

}  // namespace

Result<PartLine> PartLine::parse(std::string_view line, const std::string& where) {
  auto node = std::make_shared<Node>();
  try {
    node->json = Json::parse(line);
  } catch (const Json::exception& error) {
    const auto* syntax = dynamic_cast<const Json::parse_error*>(&error);
    const std::size_t byte = syntax == nullptr ? 1 : std::max<std::size_t>(syntax->byte, 1);
    return Error{"not valid JSON", at_column(where, byte)};
  }
  if (!node->json.is_object()) return Error{"a line must be a JSON object", at_column(where, 1)};
  auto source = std::make_shared<Source>();
  source->line = line;
  source->where = where;
  return PartLine(std::move(node), std::move(source));
}

bool PartLine::is_there(const std::string& key, std::string_view kind) {
  if (has(key)) return true;
  complain(key, quoted(key) + " is missing; it must be " + std::string(kind));
  return false;
}

bool PartLine::has(const std::string& key) const { return node_->json.contains(key); }

bool PartLine::is_null(const std::string& key) const {
  return has(key) && node_->json.at(key).is_null();
}

std::uint64_t PartLine::number(const std::string& key) {
  constexpr const char* kKind = "a whole number, 0 or more";
  if (!is_there(key, kKind)) return 0;
  const std::optional<std::uint64_t> number = number_in(node_->json.at(key));
  if (!number) complain(key, quoted(key) + " must be " + kKind);
  return number.value_or(0);
}

std::uint64_t PartLine::word(const std::string& key) {
  const std::string digits = text(key);
  const std::optional<std::uint64_t> word = parse_hex64(digits);
  if (!word) complain(key, quoted(key) + " must hold hex digits in a string");
  return word.value_or(0);
}

std::string PartLine::text(const std::string& key) {
  if (!is_there(key, "a string")) return {};
  const Json& value = node_->json.at(key);
  if (value.is_string()) return value.get<std::string>();
  complain(key, quoted(key) + " must be a string");
  return {};
}

std::vector<std::uint64_t> PartLine::numbers(const std::string& key) {
  constexpr const char* kKind = "a list of whole numbers, 0 or more";
  std::vector<std::uint64_t> numbers;
  if (!is_there(key, kKind)) return numbers;
  const Json& list = node_->json.at(key);
  const bool all = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& each) {
                     return number_in(each).has_value();
                   });
  if (!all) {
    complain(key, quoted(key) + " must be " + kKind);
    return numbers;
  }
  for (const Json& each : list) numbers.push_back(each.get<std::uint64_t>());
  return numbers;
}

std::vector<std::string> PartLine::texts(const std::string& key) {
  constexpr const char* kKind = "a list of strings";
  std::vector<std::string> texts;
  if (!is_there(key, kKind)) return texts;
  const Json& list = node_->json.at(key);
  const bool all = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& each) {
                     return each.is_string();
                   });
  if (!all) {
    complain(key, quoted(key) + " must be " + kKind);
    return texts;
  }
  for (const Json& each : list) texts.push_back(each.get<std::string>());
  return texts;
}

std::vector<PartLine> PartLine::objects(const std::string& key) {
  constexpr const char* kKind = "a list of objects";
  std::vector<PartLine> objects;
  if (!is_there(key, kKind)) return objects;
  const Json& list = node_->json.at(key);
  const bool all = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& each) {
                     return each.is_object();
                   });
  if (!all) {
    complain(key, quoted(key) + " must be " + kKind);
    return objects;
  }
  for (const Json& each : list) {
    auto inner = std::make_shared<Node>();
    inner->json = each;
    objects.push_back(PartLine(std::move(inner), source_));
  }
  return objects;
}

PartLine PartLine::object(const std::string& key) {
  auto inner = std::make_shared<Node>();
  inner->json = Json::object();
  if (is_there(key, "an object") && node_->json.at(key).is_object()) {
    inner->json = node_->json.at(key);
  } else {
    complain(key, quoted(key) + " must be an object");
  }
  return {std::move(inner), source_};
}

std::vector<std::string> PartLine::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : node_->json.items()) keys.push_back(key);
  return keys;
}

void PartLine::complain(const std::string& key, const std::string& what) {
  if (!source_->complaint.empty()) return;
  source_->complaint = what;
  source_->column = column_of(source_->line, key);
}

Outcome PartLine::outcome() const {
  if (source_->complaint.empty()) return success();
  return Error{source_->complaint, at_column(source_->where, source_->column)};
}

}  // namespace lockstep::explore
