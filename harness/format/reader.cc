// From a file to a validated scenario: variant, settings, overrides, then the sections.
#include <algorithm>
#include <filesystem>
#include <map>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/harness/companion/companion.h"
#include "lockstep/harness/format/document.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {
namespace {

struct Document {
  TomlNode root;      ///< The file's base, without its variants.
  TomlNode variants;  ///< The table `variant`, empty when the file has none.
  std::string digest;
};

Result<Document> parse_document(const std::string& text, const std::string& path) {
  Result<TomlNode> root = parse_toml(text, path);
  if (!root.ok()) return root.error();
  Document document;
  document.root = std::move(root).value();
  document.digest = hex64(sm64(text.data(), static_cast<std::int64_t>(text.size()), DType::kU8));
  if (const TomlNode* variants = document.root.find("variant")) {
    if (!variants->is_table())
      return Error{"'variant' must be a table of variants", variants->where};
    document.variants = copy_of(*variants);
    for (const TomlField& variant : variants->fields) {
      if (variant.value.is_table()) continue;
      return Error{"variant '" + variant.key + "' must be a table", variant.value.where};
    }
    std::erase_if(document.root.fields, [](const TomlField& f) { return f.key == "variant"; });
  }
  return document;
}

Result<Document> read_document(const std::string& path) {
  DiskFiles files;
  const Result<std::string> text = files.read(path);
  if (!text.ok()) return text.error();
  return parse_document(text.value(), path);
}

/// Applies one variant's `unset`, then its changes.
Outcome apply_variant(Document& document, const std::string& path, const std::string& name) {
  if (name.empty()) return success();
  const TomlNode* variant = document.variants.find(name);
  if (variant == nullptr) {
    std::vector<std::string_view> known;
    for (const TomlField& field : document.variants.fields) known.push_back(field.key);
    if (known.empty()) {
      return Error{"unknown variant '" + printable(name) + "'; this file has no variants", path};
    }
    return Error{
        printable("unknown variant '" + name + "'" + alternatives(name, known, "this file has:")),
        path};
  }
  TomlNode changes = copy_of(*variant);
  if (const TomlNode* unset = changes.find("unset")) {
    for (const TomlNode& item : unset->items) {
      Outcome removed = remove_at(document.root, item.text, item.where);
      if (!removed.ok()) return removed;
    }
    std::erase_if(changes.fields, [](const TomlField& field) { return field.key == "unset"; });
  }
  merge_into(document.root, changes);
  return success();
}

const TensorInfo* find_tensor(std::span<const TensorInfo> tensors, std::string_view name) {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(), [name](const TensorInfo& one) { return one.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

/// What a bug strikes within its tensor, where the rank's model has one of this name.
void check_bug_place(const BugSpec& bug, std::span<const TensorInfo> tensors, Problem& problem) {
  const std::string& name = *tensor_of(bug.effect);
  const TensorInfo* const tensor = find_tensor(tensors, name);
  if (tensor == nullptr) return;
  const auto* const written = std::get_if<bug::WriteTensor>(&bug.effect);
  const auto* const flipped = std::get_if<bug::FlipBit>(&bug.effect);
  std::int64_t element = flipped != nullptr ? flipped->element : 0;
  if (written != nullptr) element = written->element.value_or(0);
  if (element >= tensor->n_elems) {
    problem.report("'" + name + "' has " + std::to_string(tensor->n_elems) +
                       " elements, counted from 0: there is no element " + std::to_string(element),
                   bug.where);
  }
  const std::int64_t n_bits = 8 * size_of(tensor->dtype);
  if (flipped != nullptr && flipped->bit >= n_bits) {
    problem.report("an element of '" + name + "' has " + std::to_string(n_bits) +
                       " bits, counted from 0: bit " + std::to_string(flipped->bit) +
                       " is out of range",
                   bug.where);
  }
}

/// A bug that names a tensor which the model of rank 0 lacks.
void check_bug_name(const BugSpec& bug, std::span<const TensorInfo> tensors, Problem& problem) {
  const std::string& name = *tensor_of(bug.effect);
  if (find_tensor(tensors, name) != nullptr) return;
  std::vector<std::string_view> known;
  known.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) known.emplace_back(tensor.name);
  problem.report("the model has no tensor '" + name + "'" + did_you_mean(name, known), bug.where);
}

void check_bug_tensors(const Scenario& scenario, Problem& problem) {
  std::map<const Job*, std::vector<TensorInfo>> tensors_by_job;
  const auto tensors_on = [&](std::size_t rank) -> const std::vector<TensorInfo>& {
    const auto [at, is_new] = tensors_by_job.try_emplace(scenario.jobs[rank].get());
    if (is_new) at->second = tensors_of(at->first->model);
    return at->second;
  };
  for (const BugSpec& bug : scenario.bugs) {
    const std::string* const name = tensor_of(bug.effect);
    if (name == nullptr || name->empty()) continue;
    check_bug_name(bug, tensors_on(0), problem);
    for (std::int32_t rank = 0; rank < scenario.n_ranks; ++rank) {
      if (!bug.ranks.contains(rank)) continue;
      check_bug_place(bug, tensors_on(static_cast<std::size_t>(rank)), problem);
    }
  }
}

/// Keys of the top level that are not tables.
const Section<Scenario>& head_section() {
  static const Section<Scenario> section("", [](Section<Scenario>& it) {
    it.code("format", FieldType::kInteger, "Always 1.").between(1, 1).required().stays();
    it.add("title", &Scenario::title, "What it shows.").shown("the path");
    it.add("origin", &Scenario::origin, "Where it comes from.");
    it.add("compat", &Scenario::compat, "The version of PyTorch whose behaviour counts.");
    it.add("torch_detail",
           &Scenario::torch_detail,
           "For `lockstep zoo`: what `TORCH_DISTRIBUTED_DEBUG=DETAIL` was measured to do with this "
           "bug.")
        .words({"", "silent", "times out", "connection closed", "diagnosed", "diagnosed late"})
        .shown("not run");
  });
  return section;
}

/// First of all, so that a misspelt section is reported as that and not as a missing one.
void check_sections(TableReader& root) {
  for (const SchemaSection& section : schema()) {
    const bool is_top = section.name.find('.') == std::string::npos;
    if (is_top && !section.name.empty()) root.has(section.name);
  }
  for (const SchemaField* field : head_section().described().fields) root.has(field->key);
  root.finish();
}

void read_head(TableReader& root, Scenario& scenario, Problem& problem) {
  if (root.has("format")) {
    root.integer("format", 1, 1, 1);
  } else {
    problem.report("a scenario begins with 'format = 1'", root.where());
  }
  scenario.title = scenario.path;
  head_section().read(root, scenario);
}

/// A reproduction's data files lie next to the file it was made from.
std::string data_origin(TableReader& root, const std::string& path) {
  const TomlNode* replay = root.table("replay");
  const TomlNode* folder = replay == nullptr ? nullptr : replay->find("folder");
  if (folder == nullptr || folder->text.empty()) return path;
  return (std::filesystem::path(folder->text) / std::filesystem::path(path).filename()).string();
}

Scenario read_scenario(const TomlNode& document, const std::string& path, Problem& problem) {
  Scenario scenario;
  scenario.path = path;
  TableReader root(document, "", problem);
  check_sections(root);
  read_head(root, scenario, problem);
  read_world(root, scenario, problem);
  const ExactJobs exact = read_exact(root, problem);
  const JobSurroundings around{data_origin(root, path),
                               scenario.n_ranks,
                               scenario.compat,
                               exact.spec,
                               exact.dtype,
                               scenario.session.group.net.ranks_per_node};
  scenario.session.exact = around.exact.on;
  read_faults(root, scenario, problem);
  read_programs(root, scenario, problem);
  scenario.expect = read_expectation(root, scenario.n_ranks, problem);
  read_marks(root, scenario, problem);
  if (scenario.programs.empty()) {
    if (root.has("tensor")) {
      problem.report("'tensor' belongs to a 'program'; the tensors of a job are its model's",
                     root.where("tensor"));
    }
    read_jobs(root, document, around, scenario, problem);
    scenario.bugs = read_bugs(root, scenario.n_ranks, problem);
    if (!problem.found()) read_swarm(root, scenario, problem);
    if (!problem.found()) check_bug_tensors(scenario, problem);
    // A scenario tolerates what its hooks lose, or asks what it is.
    scenario.session.policy.hooks_may_lose = false;
    if (!section(root, "policy", problem).has("allow")) {
      scenario.session.policy.allow = tolerated_laws(scenario.jobs);
    }
  } else {
    for (const std::string_view key : {"model", "data", "loop", "override", "bug", "swarm"}) {
      if (!root.has(key)) continue;
      problem.report(
          "a scenario has either a 'program' or a job; '" + std::string(key) + "' belongs to a job",
          root.where(key));
    }
  }
  return scenario;
}

Result<Document> changed_document(const std::string& path,
                                  const std::string& variant,
                                  const std::vector<Setting>& settings) {
  Result<Document> document = read_document(path);
  if (!document.ok()) return document.error();
  const Outcome applied = apply_variant(document.value(), path, variant);
  if (!applied.ok()) return applied.error();
  for (const Setting& setting : settings) {
    const Outcome set =
        set_at(document.value().root, setting.key, setting_value(setting.key, setting.value));
    if (!set.ok()) return set.error();
  }
  return document;
}

std::string command_for(const std::string& path,
                        const std::string& variant,
                        const std::vector<Setting>& settings) {
  std::string command = "lockstep run " + path;
  if (!variant.empty()) command += " --variant " + variant;
  for (const Setting& setting : settings) {
    command += " --set '" + setting.key + "=" + setting.value + "'";
  }
  return command;
}

}  // namespace

std::vector<SchemaSection> head_sections() { return {head_section().described()}; }

Result<Scenario> scenario_of(const TomlNode& document, const std::string& path) {
  Problem problem;
  Scenario scenario = read_scenario(document, path, problem);
  if (problem.found()) return problem.first();
  return scenario;
}

Outcome check_other_variants(const std::string& path, const std::string& variant) {
  const Result<Document> read = read_document(path);
  if (!read.ok()) return read.error();
  for (const TomlField& other : read.value().variants.fields) {
    if (other.key == variant) continue;
    Document document{copy_of(read.value().root), copy_of(read.value().variants), {}};
    Outcome applied = apply_variant(document, path, other.key);
    if (!applied.ok()) return applied;
    const Result<Scenario> scenario = scenario_of(document.root, path);
    if (!scenario.ok()) return scenario.error();
  }
  return success();
}

Result<Scenario> load_scenario(const std::string& path,
                               const std::string& variant,
                               const std::vector<Setting>& settings) {
  Result<Document> document = changed_document(path, variant, settings);
  if (!document.ok()) return document.error();
  Result<Scenario> scenario = scenario_of(document.value().root, path);
  if (!scenario.ok()) return scenario.error();
  scenario.value().variant = variant;
  scenario.value().command = command_for(path, variant, settings);
  scenario.value().digest = document.value().digest;
  return scenario;
}

Result<TomlNode> load_document(const std::string& path,
                               const std::string& variant,
                               const std::vector<Setting>& settings) {
  Result<Document> document = changed_document(path, variant, settings);
  if (!document.ok()) return document.error();
  return std::move(document.value().root);
}

Result<Scenario> read_scenario_text(const std::string& text, const std::string& path) {
  const Result<Document> document = parse_document(text, path);
  if (!document.ok()) return document.error();
  Result<Scenario> scenario = scenario_of(document.value().root, path);
  if (!scenario.ok()) return scenario.error();
  scenario.value().command = command_for(path, "", {});
  scenario.value().digest = document.value().digest;
  return scenario;
}

Result<std::vector<std::string>> list_variants(const std::string& path) {
  Result<Document> document = read_document(path);
  if (!document.ok()) return document.error();
  std::vector<std::string> names = {""};
  for (const TomlField& variant : document.value().variants.fields) names.push_back(variant.key);
  return names;
}

}  // namespace lockstep
