#include "lockstep/harness/format/schema_page.h"

#include <algorithm>
#include <set>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/schema.h"
#include "lockstep/harness/format/table_reader.h"

namespace lockstep {
namespace {

constexpr std::string_view kBegin = "<!-- keys of ";
constexpr std::string_view kBeginEnd = " -->";
constexpr std::string_view kEnd = "<!-- end of keys -->";
constexpr std::string_view kTopLevel = "the top level";
constexpr std::string_view kNotYet = "what is not supported yet";

std::string code(std::string_view word) { return "`" + std::string(word) + "`"; }

/// "`a`, `b`": without the word for what is not said.
std::string list_of_words(const std::vector<std::string_view>& words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!word.empty()) text += (text.empty() ? "" : ", ") + code(word);
  }
  return text;
}

std::string range_of(const SchemaField& field) {
  if (field.most >= TableReader::kMost) {
    if (field.least == INT64_MIN || field.least <= -TableReader::kMost) return "integer";
    return "integer from " + std::to_string(field.least);
  }
  return "integer, " + std::to_string(field.least) + " to " + std::to_string(field.most);
}

std::string value_of(const SchemaField& field) {
  std::string text(name_of(field.type));
  if (field.type == FieldType::kWord) text = list_of_words(field.words);
  if (field.type == FieldType::kWords) text = "list of " + list_of_words(field.words);
  if (field.type == FieldType::kInteger) text = range_of(field);
  if (field.from) text += " from " + exact(*field.from);
  if (field.to) text += " to " + exact(*field.to);
  if (!field.unit.empty()) text += ", " + field.unit;
  return text;
}

std::string default_of(const SchemaField& field) {
  if (field.required) return "required";
  if (field.refused) return "not supported yet";
  if (!field.fallback.empty()) return field.fallback;
  return field.type == FieldType::kTable ? "absent" : "none";
}

/// A cell must not end early.
std::string cell(std::string_view text) {
  std::string result;
  for (const char letter : text) result += letter == '|' ? "\\|" : std::string(1, letter);
  return result;
}

/// All kinds of a section, in order; empty if it has none.
std::vector<std::string_view> kinds_of(std::string_view section) {
  for (const SchemaSection& each : schema()) {
    if (each.name != section || each.kind_key.empty()) continue;
    for (const SchemaField* field : each.fields) {
      if (field->key == each.kind_key) return field->words;
    }
  }
  return {};
}

/// "all", "`adam`, `adamw`" or "all but `exit`", whichever is short.
std::string written_kinds(const SchemaField& field, std::vector<std::string_view> all) {
  if (field.kinds.empty()) return "all";
  std::erase_if(all, [&](std::string_view kind) { return field.belongs_to(kind); });
  const bool is_short = field.kinds.size() <= all.size() || all.empty();
  return is_short ? list_of_words(field.kinds) : "all but " + list_of_words(all);
}

std::string row(const SchemaField& field,
                bool with_kinds,
                const std::vector<std::string_view>& kinds) {
  std::string text = "| " + code(field.key) + " | ";
  if (with_kinds) text += written_kinds(field, kinds) + " | ";
  return text + cell(value_of(field)) + " | " + cell(default_of(field)) + " | " +
         cell(field.meaning) + " |\n";
}

std::string dictionary_line(std::string_view text) { return "\"" + std::string(text) + "\"\n"; }

/// Keys and words of the format that do nothing yet.
std::string table_of_refused() {
  std::string rows;
  for (const SchemaSection& section : schema()) {
    for (const SchemaField* field : section.fields) {
      if (!field->refused && field->later.empty()) continue;
      const std::string what = field->refused ? "the key" : list_of_words(field->later);
      rows += "| " + code(section.name + "." + field->key) + " | " + what + " |\n";
    }
  }
  return "| key | refused |\n|---|---|\n" + rows;
}

std::string remark_on(std::string_view section) {
  const bool is_top = section.find('.') == std::string_view::npos;
  if (!is_top || section.empty() || !may_differ_by_rank(section)) return {};
  return "`override` may change these for some ranks.\n\n";
}

}  // namespace

std::string key_table(std::string_view section) {
  std::vector<const SchemaField*> fields;
  for (const SchemaSection& each : schema()) {
    if (each.name == section) {
      fields.insert(fields.end(), each.fields.begin(), each.fields.end());
    }
  }
  const bool with_kinds =
      std::any_of(fields.begin(), fields.end(), [](auto* field) { return !field->kinds.empty(); });
  std::string rows;
  const std::vector<std::string_view> kinds = kinds_of(section);
  for (const SchemaField* field : fields) rows += row(*field, with_kinds, kinds);
  if (rows.empty()) return {};
  const std::string head = with_kinds
                               ? "| key | of | value | default | meaning |\n|---|---|---|---|---|\n"
                               : "| key | value | default | meaning |\n|---|---|---|---|\n";
  return remark_on(section) + head + rows;
}

Result<std::string> with_tables(std::string_view page) {
  std::string result;
  while (true) {
    const std::size_t begin = page.find(kBegin);
    if (begin == std::string_view::npos) return result + std::string(page);
    const std::size_t name = begin + kBegin.size();
    const std::size_t name_end = page.find(kBeginEnd, name);
    const std::size_t end = page.find(kEnd, name);
    if (name_end == std::string_view::npos || end == std::string_view::npos || end < name_end) {
      return Error{"a table of keys has no end", std::string(page.substr(begin, 60))};
    }
    std::string_view section = page.substr(name, name_end - name);
    const std::string table =
        section == kNotYet ? table_of_refused() : key_table(section == kTopLevel ? "" : section);
    if (table.empty()) {
      return Error{"the format has no section '" + std::string(section) + "'", "a page"};
    }
    result += std::string(page.substr(0, name_end + kBeginEnd.size())) + "\n" + table;
    page.remove_prefix(end);
    result += std::string(kEnd);
    page.remove_prefix(kEnd.size());
  }
}

std::string fuzz_dictionary() {
  std::set<std::string> tokens;
  for (const SchemaSection& section : schema()) {
    if (!section.name.empty()) tokens.insert("[" + section.name + "]");
    for (const SchemaField* field : section.fields) {
      tokens.insert(field->key);
      for (const std::string_view word : field->words) tokens.insert(std::string(word));
      for (const std::string_view word : field->later) tokens.insert(std::string(word));
    }
  }
  tokens.erase("");
  std::string text;
  for (const std::string& token : tokens) text += dictionary_line(token);
  return text;
}

}  // namespace lockstep
