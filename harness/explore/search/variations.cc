#include "lockstep/harness/explore/search/variations.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/harness/explore/search/inputs.h"
#include "lockstep/harness/explore/search/model_edits.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/explore/search/world_edits.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/schema.h"

namespace lockstep::explore {
namespace {

bool is_same(const TomlNode& one, const TomlNode& other) {
  return one.is_number() ? one.number == other.number : one.text == other.text;
}

/// Varies one document and sorts what comes of it.
class Varying {
 public:
  Varying(const TrialRunner& runner, const TomlNode& document, const Failure& failure)
      : runner_(&runner), document_(&document), failure_(&failure) {}

  const TomlNode& document() const { return *document_; }

  const std::string& path() const { return runner_->path(); }

  bool is_job() const { return document_->find("program") == nullptr; }

  void begin(std::string what) { variations_.push_back({std::move(what), {}, {}, {}, {}}); }

  void tell_present(std::int64_t number) { variations_.back().now = number; }

  void add(std::string value, const TomlNode& changed, const std::string& strategy = "") {
    const auto trial = runner_->attempt(changed, {.strategy = strategy});
    if (!trial) return;
    Variation& variation = variations_.back();
    const std::optional<Failure>& got = trial->failure;
    std::vector<std::string>& list = !got                ? variation.healthy
                                     : *got == *failure_ ? variation.same
                                                         : variation.otherwise;
    list.push_back(std::move(value));
  }

  /// The document with other values at `path`, leaving out the present one.
  void add_values(const std::string& path, const std::vector<std::string>& values) {
    const TomlNode* present = find_at(*document_, path);
    if (present != nullptr && present->kind == TomlNode::Kind::kInteger) {
      tell_present(present->integer);
    }
    for (const std::string& value : values) {
      TomlNode node = setting_value(path, value);
      if (present != nullptr && is_same(*present, node)) continue;
      TomlNode changed = copy_of(*document_);
      put(changed, path, std::move(node));
      add(value, changed);
    }
  }

  std::vector<Variation> take() {
    std::erase_if(variations_, [](const Variation& variation) {
      return variation.same.empty() && variation.otherwise.empty() && variation.healthy.empty();
    });
    return std::move(variations_);
  }

 private:
  const TrialRunner* runner_;
  const TomlNode* document_;
  const Failure* failure_;
  std::vector<Variation> variations_;
};

void vary_ranks(Varying& varying) {
  const auto present = static_cast<std::size_t>(world_size(varying.document()).ranks);
  varying.begin("the number of ranks");
  varying.tell_present(static_cast<std::int64_t>(present));
  std::vector<std::size_t> kept;
  for (std::size_t n = 1; n < present; ++n) {
    kept.push_back(n - 1);
    varying.add(std::to_string(n), keep_ranks(varying.document(), kept));
  }
  if (find_at(varying.document(), "world.nodes") != nullptr) return;
  for (const std::size_t n : {present + 1, present + 2, present + 3, 2 * present + 4}) {
    TomlNode changed = copy_of(varying.document());
    put(changed, "world.ranks", integer_node(static_cast<std::int64_t>(n)));
    varying.add(std::to_string(n), changed);
  }
}

void vary_seeds(Varying& varying) {
  varying.begin("the job's seed");
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const TomlNode& document = varying.document();
    const std::vector<Setting> settings = seed_settings(document, varying.path(), seed);
    varying.add("+" + std::to_string(seed), with_settings(document, settings));
  }
}

void vary_schedule(Varying& varying) {
  varying.begin("the schedule");
  for (const char* name : {"run-to-block", "round-robin"}) {
    varying.add(name, varying.document(), name);
  }
  for (int seed = 0; seed < 16; ++seed) {
    const std::string name = "random:seed=" + std::to_string(seed);
    varying.add(name, varying.document(), name);
  }
}

void vary_model(Varying& varying) {
  varying.begin("the model");
  const Result<Scenario> scenario = scenario_of(varying.document(), varying.path());
  if (!scenario.ok() || scenario.value().jobs.empty()) return;
  for (const TomlNode& changed :
       plainer_models(varying.document(), *scenario.value().jobs.front())) {
    const TomlNode* now = find_at(varying.document(), "model.kind");
    const std::string kind = find_at(changed, "model.kind")->text;
    if (kind != (now == nullptr ? "mlp" : now->text)) varying.add(kind, changed);
  }
}

/// Keys that the schema says to vary, where the document may have them.
void vary_keys(Varying& varying, bool of_jobs) {
  for (const SchemaSection& section : schema()) {
    if (section.by_rank != of_jobs) continue;
    for (const SchemaField* field : section.fields) {
      if (!field->variation) continue;
      varying.begin(field->variation->name);
      varying.add_values(section.name + "." + field->key, field->variation->values);
    }
  }
}

std::string list_of(std::vector<std::string> values) {
  constexpr std::size_t kShown = 6;
  const std::size_t n = values.size();
  if (n > kShown + 2) {
    values.resize(kShown);
    values.push_back("... (" + std::to_string(n) + " tried)");
  }
  return join(values);
}

bool all_below(const std::vector<std::string>& values, std::int64_t bound) {
  return std::all_of(values.begin(), values.end(), [&](const std::string& value) {
    return std::stoll(value) < bound;
  });
}

/// The smallest number with the same failure, if every larger one that was tried has it and no
/// smaller one.
std::optional<std::int64_t> fails_from(const Variation& variation) {
  const bool everywhere = variation.healthy.empty() && variation.otherwise.empty();
  if (!variation.now || variation.same.empty() || everywhere) return std::nullopt;
  std::int64_t smallest = *variation.now;
  for (const std::string& value : variation.same) {
    smallest = std::min<std::int64_t>(smallest, std::stoll(value));
  }
  const bool from_there =
      all_below(variation.healthy, smallest) && all_below(variation.otherwise, smallest);
  return from_there ? std::optional(smallest) : std::nullopt;
}

}  // namespace

std::vector<Variation> vary(const TrialRunner& runner,
                            const TomlNode& document,
                            const Failure& failure) {
  Varying varying(runner, document, failure);
  vary_ranks(varying);
  vary_schedule(varying);
  vary_keys(varying, false);
  if (!varying.is_job()) return varying.take();
  vary_seeds(varying);
  vary_keys(varying, true);
  vary_model(varying);
  return varying.take();
}

std::vector<std::string> sentences(const std::vector<Variation>& variations) {
  std::vector<std::string> irrelevant;
  std::vector<std::string> relevant;
  for (const Variation& variation : variations) {
    const auto from = fails_from(variation);
    const bool all = from || (variation.otherwise.empty() && variation.healthy.empty());
    std::vector<std::string> parts;
    if (!variation.same.empty())
      parts.push_back("the same failure with " + list_of(variation.same));
    if (!variation.healthy.empty()) parts.push_back("none with " + list_of(variation.healthy));
    if (!variation.otherwise.empty()) {
      parts.push_back("another one with " + list_of(variation.otherwise));
    }
    const std::string bound = from ? ", from " + std::to_string(*from) : "";
    const std::string text = variation.what + bound + ": " + join(parts, "; ");
    (all ? irrelevant : relevant).push_back((all ? "did not matter: " : "matters: ") + text);
  }
  irrelevant.insert(irrelevant.end(), relevant.begin(), relevant.end());
  return irrelevant;
}

}  // namespace lockstep::explore
