// The schema of scenario files: one table that says of every key what may be written there. Readers,
// docs/scenario_format.md, the shrinker, the variations and the fuzzer's dictionary walk it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"

namespace lockstep {

/// What a key's value is.
enum class FieldType : std::uint8_t {
  kFlag,
  kInteger,
  kNumber,
  kText,
  kWord,      ///< One of `words`.
  kIntegers,  ///< A list, as are the next four.
  kNumbers,
  kTexts,
  kWords,
  kLists,  ///< One list of numbers per rank.
  kRanks,  ///< "all" or a list of ranks.
  kTable,
  kTables,  ///< A list of tables.
  kAny,     ///< One of several; the meaning says which.
};
template <>
inline constexpr EnumNames<14> kEnumNames<FieldType> = {"true or false",
                                                        "integer",
                                                        "number",
                                                        "text",
                                                        "word",
                                                        "list of integers",
                                                        "list of numbers",
                                                        "list of texts",
                                                        "list of words",
                                                        "list per rank",
                                                        "\"all\" or list of ranks",
                                                        "table",
                                                        "list of tables",
                                                        "value"};

/// What the shrinker may do with a value besides leaving it out, which brings back the default.
enum class Shrinking : std::uint8_t {
  kFree,   ///< Take items off a list.
  kCount,  ///< The same, and halve its integers towards 0: fewer is simpler.
  kWhole,  ///< Nothing: items of the list belong together.
};

/// What a value has to do with the ranks of the world: what becomes of it in a smaller one.
enum class RankLink : std::uint8_t {
  kNone,
  kNames,    ///< A list of ranks, renumbered. Without any left, what it belongs to goes.
  kPartner,  ///< One rank, renumbered. If it is gone, what it belongs to goes.
  kRoot,     ///< One rank, renumbered. If it is gone, rank 0 takes its place.
  kPerRank,  ///< A list with an entry per rank: those of ranks that are left.
  kSizes,    ///< Numbers of ranks: at most as many as there are.
  kFactor,   ///< A factor: the number of ranks, or one over it, stays that.
};

/// How `explore` varies a key to see what matters for a failure.
struct FieldVariation {
  std::string name;                 ///< "the batch of a rank"
  std::vector<std::string> values;  ///< TOML, or bare words.
};

/// One key.
struct SchemaField {
  std::string key;
  FieldType type = FieldType::kAny;
  std::string meaning;               ///< One sentence or more, in Markdown.
  std::string fallback;              ///< What counts if it is not given, as text; empty: nothing.
  std::string unit;                  ///< "ns"; of a number that is not a plain one.
  std::int64_t least = 0, most = 0;  ///< Bounds of integers, both possible.
  std::optional<double> from{};      ///< The smallest number, itself possible.
  std::optional<double> to{};        ///< The largest one, where there is a smallest.
  std::vector<std::string_view> words{};
  std::vector<std::string_view> later{};  ///< Words of the format that are not supported yet.
  /// Words of the section's kind that have this key; empty: all.
  std::vector<std::string_view> kinds{};
  bool required = false;
  bool refused = false;  ///< A key of the format that is not supported yet.
  Shrinking shrinking = Shrinking::kFree;
  /// The shrinker never leaves it out: it says whom or what something concerns, and without it that
  /// would be more; or runs would be long.
  bool stays = false;
  RankLink rank_link = RankLink::kNone;
  std::optional<FieldVariation> variation{};
  /// Small changes that the search tries: these values; none: around the number in the file.
  std::optional<std::vector<std::string>> nudges{};
  bool seeds_job = false;  ///< Another seed of the job, as the search tries them, shifts it.

  bool belongs_to(std::string_view kind) const;
};

/// How the tables of a section stand in a file.
enum class SectionShape : std::uint8_t {
  kTable,  ///< loop = { ... }
  kList,   ///< bug = [ { ... }, ... ]
  kNamed,  ///< tensor.x = { ... }
};

/// The keys of one table, or those that one kind of it has.
struct SchemaSection {
  std::string name;      ///< From the top, without numbers of items: "optimizer.averager.levels".
  std::string kind_key;  ///< The key that says the kind ("kind", "op"), if it has kinds.
  SectionShape shape = SectionShape::kTable;
  bool by_rank = false;  ///< `override` may change it for some ranks.
  bool stays = false;    ///< The shrinker never leaves the table out.
  std::vector<const SchemaField*> fields{};
};

/// Every section, in the order of the page. Those of one name are parts of one table.
std::span<const SchemaSection> schema();

/// The key at a dotted path such as "loader.batches_by_rank.0.1" or "override.0.set.loader.batch",
/// which may name items of lists; null if the format has none there. Where kinds of a section
/// have a key of the same name, the first one.
const SchemaField* find_field(std::string_view path);

/// The section of the table or list at a path; null if there is none.
const SchemaSection* find_section(std::string_view path);

/// Whether `override` may change what is at this dotted path.
bool may_differ_by_rank(std::string_view path);

}  // namespace lockstep
