#include "lockstep/harness/format/schema.h"

#include <algorithm>
#include <iterator>

#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

std::vector<SchemaSection> all_sections() {
  std::vector<SchemaSection> all;
  for (auto* const sections :
       {head_sections,   world_sections,     sim_sections,     network_sections,
        exact_sections,  model_sections,     data_sections,    rows_sections,
        loader_sections, optimizer_sections, sharing_sections, scheduler_sections,
        scaler_sections, loop_sections,      ddp_sections,     hook_sections,
        policy_sections, override_sections,  bug_sections,     fault_sections,
        swarm_sections,  program_sections,   expect_sections,  mark_sections,
        replay_sections}) {
    std::vector<SchemaSection> some = sections();
    all.insert(
        all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

bool is_number(std::string_view step) {
  return !step.empty() && step.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The keys of a path, without numbers of items and names that are the file's own.
std::vector<std::string_view> keys_of(std::string_view path) {
  std::vector<std::string_view> keys;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string_view step = path.substr(0, dot);
    path.remove_prefix(std::min(dot + 1, path.size()));
    const bool is_name = keys.size() == 1 && keys[0] == "tensor";
    // Bodies of operations and parts of schedules have the keys of what they are in.
    const bool repeats = !keys.empty() && step == keys.back();
    if (is_name && !path.empty()) keys.emplace_back("NAME");
    if (!is_number(step) && !is_name && !repeats) keys.push_back(step);
  }
  std::erase(keys, "NAME");
  // What is set for some ranks is a key of their job.
  if (keys.size() > 2 && keys[0] == "override" && keys[1] == "set") {
    keys.erase(keys.begin(), keys.begin() + 2);
  }
  return keys;
}

const SchemaField* field_of(std::string_view section, std::string_view key) {
  for (const SchemaSection& each : schema()) {
    if (each.name != section) continue;
    for (const SchemaField* field : each.fields) {
      if (field->key == key) return field;
    }
  }
  return nullptr;
}

}  // namespace

bool SchemaField::belongs_to(std::string_view kind) const {
  return kinds.empty() || std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

std::span<const SchemaSection> schema() {
  static const std::vector<SchemaSection> sections = all_sections();
  return sections;
}

const SchemaField* find_field(std::string_view path) {
  const std::vector<std::string_view> keys = keys_of(path);
  if (keys.empty()) return nullptr;
  std::string section;
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) {
    section += (i == 0 ? "" : ".") + std::string(keys[i]);
  }
  const SchemaField* field = field_of(section, keys.back());
  // A part of a schedule has the keys of its kind.
  if (field == nullptr && section == "scheduler.parts") field = field_of("scheduler", keys.back());
  return field;
}

const SchemaSection* find_section(std::string_view path) {
  std::string name;
  for (const std::string_view key : keys_of(path)) {
    name += (name.empty() ? "" : ".") + std::string(key);
  }
  const auto all = schema();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const SchemaSection& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool may_differ_by_rank(std::string_view path) {
  const std::string_view section = path.substr(0, path.find('.'));
  const auto all = schema();
  return std::any_of(all.begin(), all.end(), [&](const SchemaSection& each) {
    return each.name == section && each.by_rank;
  });
}

}  // namespace lockstep
