// Sections of the schema bound to the values that they fill: one line per key.
//
//   Section<LossSpec> loss("loss", [](Section<LossSpec>& it) {
//     it.add("kind", &LossSpec::kind, "What is computed.");
//     it.add("scale", &LossSpec::scale, "A factor.").from(0.0).counts();
//   });
//   LossSpec spec;
//   loss.read(table, spec);
//
// A key that is absent leaves its member alone, so the default is the one of the struct, or what the
// caller put there.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/harness/format/field_value.h"
#include "lockstep/harness/format/schema.h"
#include "lockstep/harness/format/table_reader.h"

namespace lockstep {

/// The member of a member: in(&DdpSpec::options, &DdpOptions::init_sync).
template <typename First, typename... Rest>
auto in(First first, Rest... rest) {
  return [ first, rest... ](auto& owner) -> auto& {
    if constexpr (sizeof...(rest) == 0) {
      return std::invoke(first, owner);
    } else {
      return in(rest...)(std::invoke(first, owner));
    }
  };
}

/// One table's keys, and how they fill a T.
template <typename T>
class Section {
  using Reading = std::function<void(TableReader&, const SchemaField&, T&)>;
  using Check = std::function<void(TableReader&, T&)>;

  struct Entry {
    SchemaField field;
    Reading read;
  };

 public:
  /// What a line of the table says besides key, member and meaning. M is the member's type.
  template <typename M>
  class Line {
   public:
    Line(Section& section, Entry& entry, std::function<M&(T&)> member)
        : section_(&section), entry_(&entry), member_(std::move(member)) {}

    Line& at_least(std::int64_t least) { return set(&SchemaField::least, least); }

    Line& at_most(std::int64_t most) { return set(&SchemaField::most, most); }

    Line& between(std::int64_t least, std::int64_t most) { return at_least(least).at_most(most); }

    Line& from(double least) { return set(&SchemaField::from, least); }

    Line& to(double most) { return set(&SchemaField::to, most); }

    Line& in_unit(std::string_view unit) { return set(&SchemaField::unit, std::string(unit)); }

    /// The default as the page shows it, where it is not a value or depends on something.
    Line& shown(std::string_view text) { return set(&SchemaField::fallback, std::string(text)); }

    /// Of an enum, a string or a list of words: only these.
    Line& words(std::vector<std::string_view> words) {
      if (entry_->field.type != FieldType::kWords) entry_->field.type = FieldType::kWord;
      return set(&SchemaField::words, std::move(words));
    }

    Line& later(std::vector<std::string_view> words) {
      return set(&SchemaField::later, std::move(words));
    }

    /// The kinds that have the key.
    template <NamedEnum E>
    Line& of(std::initializer_list<E> kinds) {
      for (const E kind : kinds) entry_->field.kinds.push_back(name_of(kind));
      return *this;
    }

    Line& of(std::vector<std::string_view> kinds) {
      return set(&SchemaField::kinds, std::move(kinds));
    }

    /// All kinds but these have the key.
    template <NamedEnum E>
    Line& except(std::initializer_list<E> kinds) {
      for (const E kind : every<E>()) {
        const bool left_out = std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
        if (!left_out) entry_->field.kinds.push_back(name_of(kind));
      }
      return *this;
    }

    Line& required() { return set(&SchemaField::required, true).shown(""); }

    Line& counts() { return set(&SchemaField::shrinking, Shrinking::kCount); }

    Line& whole() { return set(&SchemaField::shrinking, Shrinking::kWhole); }

    Line& stays() { return set(&SchemaField::stays, true); }

    Line& links(RankLink link) { return set(&SchemaField::rank_link, link); }

    Line& varies(std::string_view name, std::vector<std::string> values) {
      entry_->field.variation = FieldVariation{std::string(name), std::move(values)};
      return *this;
    }

    Line& nudged(std::vector<std::string> values = {}) {
      entry_->field.nudges = std::move(values);
      return *this;
    }

    Line& seeds_job() { return set(&SchemaField::seeds_job, true); }

    /// A default that is not the struct's: of one kind, or of a table that is there.
    Line& preset(M value) {
      entry_->field.fallback = FieldValue<M>::shown(value);
      entry_->read = [read = std::move(entry_->read), member = member_, value = std::move(value)](
                         TableReader& table, const SchemaField& field, T& into) {
        member(into) = value;
        read(table, field, into);
      };
      return *this;
    }

    /// The value says the section's kind: a line with `of` counts for the kinds that it names.
    Line& selects() {
      section_->kind_key_ = entry_->field.key;
      section_->kind_of_ = [member = member_](T& into) {
        return std::string(FieldValue<M>::word(member(into)));
      };
      return *this;
    }

   private:
    template <typename F, typename V>
    Line& set(F SchemaField::*what, V value) {
      entry_->field.*what = std::move(value);
      return *this;
    }

    Section* section_;
    Entry* entry_;
    std::function<M&(T&)> member_;
  };

  template <typename Fill>
  Section(std::string name, Fill fill, SectionShape shape = SectionShape::kTable)
      : name_(std::move(name)), shape_(shape) {
    fill(*this);
  }

  /// The keys that one kind of a section has besides the others.
  template <typename Fill>
  Section(std::string name, const std::vector<std::string_view>& kinds, Fill fill)
      : name_(std::move(name)) {
    fill(*this);
    for (Entry& entry : entries_) entry.field.kinds = kinds;
  }

  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;
  Section(Section&&) = delete;
  Section& operator=(Section&&) = delete;
  ~Section() = default;

  /// A key that fills a member; `access` is a member pointer, or in(...) of several.
  template <typename Access>
  auto add(std::string_view key, Access access, std::string_view meaning) {
    using M = std::remove_reference_t<std::invoke_result_t<Access, T&>>;
    std::function<M&(T&)> member = [access](T& into) -> M& { return std::invoke(access, into); };
    Entry& entry = push(key, FieldValue<M>::kType, meaning);
    FieldValue<M>::describe(entry.field);
    T initial{};
    entry.field.fallback = FieldValue<M>::shown(member(initial));
    entry.read = [member](TableReader& table, const SchemaField& field, T& into) {
      FieldValue<M>::read(table, field, member(into));
    };
    return Line<M>(*this, entry, std::move(member));
  }

  /// A flag that is written as one of two words.
  template <typename Access>
  auto either(std::string_view key,
              Access access,
              std::string_view if_false,
              std::string_view if_true,
              std::string_view meaning) {
    auto line = add(key, access, meaning);
    Entry& entry = entries_.back();
    T initial{};
    line.words({if_false, if_true}).shown(std::invoke(access, initial) ? if_true : if_false);
    entry.read = [access](TableReader& table, const SchemaField& field, T& into) {
      bool& flag = std::invoke(access, into);
      flag = table.word(field.key, field.words[flag ? 1 : 0], field.words) == field.words[1];
    };
    return line;
  }

  /// A table inside this one. Absent, the member stays as it is.
  template <typename Access, typename Inner>
  auto table(std::string_view key,
             Access access,
             const Section<Inner>& inner,
             std::string_view meaning) {
    using M = std::remove_reference_t<std::invoke_result_t<Access, T&>>;
    Entry& entry = push(key, FieldType::kTable, meaning);
    entry.read = [access, &inner](TableReader& table, const SchemaField& field, T& into) {
      const TomlNode* node = table.table(field.key);
      if (node == nullptr) return;
      M& member = std::invoke(access, into);
      if constexpr (std::is_same_v<M, std::optional<Inner>>) {
        inner.read_table(*node, member.emplace(), table.problem());
      } else {
        inner.read_table(*node, member, table.problem());
      }
    };
    return Line<M>(*this, entry, [access](T& into) -> M& { return std::invoke(access, into); });
  }

  /// A list of tables. `wanted` is what to say of an item that is none.
  template <typename Access, typename Inner>
  auto tables(std::string_view key,
              Access access,
              const Section<Inner>& inner,
              std::string_view wanted,
              std::string_view meaning) {
    using M = std::vector<Inner>;
    Entry& entry = push(key, FieldType::kTables, meaning);
    entry.read = [access, &inner, wanted](TableReader& table, const SchemaField& field, T& into) {
      const TomlNode* list = table.array(field.key);
      if (list == nullptr) return;
      for (const TomlNode& node : list->items) {
        if (!node.is_table()) {
          table.problem().report(wanted, node.where);
          continue;
        }
        inner.read_table(node, std::invoke(access, into).emplace_back(), table.problem());
      }
    };
    return Line<M>(*this, entry, [access](T& into) -> M& { return std::invoke(access, into); });
  }

  /// A key that code reads, because it needs more than the table.
  Line<T> code(std::string_view key, FieldType type, std::string_view meaning) {
    Entry& entry = push(key, type, meaning);
    entry.read = [](TableReader& table, const SchemaField& field, T&) { table.has(field.key); };
    return Line<T>(*this, entry, [](T& into) -> T& { return into; });
  }

  /// A key of the format that is not supported yet: an error that says so.
  void refuse(std::string_view key, FieldType type, std::string_view meaning) {
    Entry& entry = push(key, type, meaning);
    entry.field.refused = true;
    entry.read = [](TableReader& table, const SchemaField& field, T&) { table.not_yet(field.key); };
  }

  /// What must be so besides: called once all keys have been read.
  void check(Check check) { checks_.push_back(std::move(check)); }

  void differs_by_rank() { by_rank_ = true; }

  void stays() { stays_ = true; }

  /// The shrinker leaves everything as it is. Call it after all lines.
  void all_stays() {
    stays();
    for (Entry& entry : entries_) {
      entry.field.stays = true;
      if (entry.field.shrinking == Shrinking::kFree) entry.field.shrinking = Shrinking::kWhole;
    }
  }

  /// Reads the keys of the kind, and checks. The caller calls finish.
  void read(TableReader& table, T& into) const {
    std::optional<std::string> kind;
    for (const Entry& entry : entries_) {
      if (!kind_of_ || !kind || entry.field.belongs_to(*kind)) {
        entry.read(table, entry.field, into);
      }
      if (kind_of_ && entry.field.key == kind_key_) kind = kind_of_(into);
    }
    for (const Check& check : checks_) check(table, into);
  }

  /// Whether what was read is of a kind that has this key.
  bool has(T& read, std::string_view key) const {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.field.key == key && (!kind_of_ || entry.field.belongs_to(kind_of_(read)));
    });
  }

  /// The first key that what was read needs, and the table does not have or has as an empty text.
  const SchemaField* missing(TableReader& table, T& read) const {
    for (const Entry& entry : entries_) {
      const SchemaField& field = entry.field;
      if (!field.required || (kind_of_ && !field.belongs_to(kind_of_(read)))) continue;
      const TomlNode* node = table.node(field.key);
      if (node == nullptr || (node->kind == TomlNode::Kind::kString && node->text.empty())) {
        return &field;
      }
    }
    return nullptr;
  }

  /// Reads a whole table: also reports keys that it does not have.
  void read_table(const TomlNode& node, T& into, Problem& problem) const {
    TableReader table(node, name_, problem);
    read(table, into);
    table.finish();
  }

  const std::string& name() const { return name_; }

  SchemaSection described() const {
    SchemaSection section{name_, kind_key_, shape_, by_rank_, stays_, {}};
    for (const Entry& entry : entries_) section.fields.push_back(&entry.field);
    return section;
  }

 private:
  Entry& push(std::string_view key, FieldType type, std::string_view meaning) {
    Entry& entry = entries_.emplace_back();
    entry.field.key = key;
    entry.field.type = type;
    entry.field.meaning = meaning;
    if (type == FieldType::kRanks) entry.field.rank_link = RankLink::kNames;
    if (type == FieldType::kLists) entry.field.rank_link = RankLink::kPerRank;
    return entry;
  }

  std::string name_;
  SectionShape shape_ = SectionShape::kTable;
  std::string kind_key_;
  std::function<std::string(T&)> kind_of_;
  bool by_rank_ = false;
  bool stays_ = false;
  std::deque<Entry> entries_;  ///< A deque: lines refer to theirs while others are added.
  std::vector<Check> checks_;
};

}  // namespace lockstep
