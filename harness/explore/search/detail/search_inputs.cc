#include "lockstep/harness/explore/search/detail/search_inputs.h"

#include <algorithm>
#include <utility>

#include "lockstep/harness/explore/search/inputs.h"

namespace lockstep::explore::detail {
namespace {

/// What the settings of each input are: for each change every seed.
std::vector<std::vector<Setting>> settings_of_inputs(const TomlNode& document,
                                                     const std::string& path,
                                                     const SearchOptions& options,
                                                     SearchInputs& counted) {
  std::vector<std::vector<Setting>> seeds;
  for (std::uint64_t seed = 0; seed < std::max<std::uint64_t>(options.n_seeds, 1); ++seed) {
    seeds.push_back(seed_settings(document, path, seed));
    if (seed > 0 && seeds.back().empty()) {  // Nothing is drawn in this job.
      seeds.pop_back();
      break;
    }
  }
  std::vector<std::vector<Setting>> changes = {{}};
  if (options.vary) {
    for (std::vector<Setting>& change : small_changes(document, path)) {
      changes.push_back(std::move(change));
    }
  }
  counted.n_seeds = seeds.size();
  counted.n_changes = changes.size() - 1;
  std::vector<std::vector<Setting>> inputs;
  inputs.reserve(changes.size() * seeds.size());
  for (const std::vector<Setting>& change : changes) {
    for (const std::vector<Setting>& seed : seeds) inputs.push_back(joined(change, seed));
  }
  return inputs;
}

}  // namespace

std::vector<Setting> joined(const std::vector<Setting>& a, const std::vector<Setting>& b) {
  std::vector<Setting> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Result<SearchInputs> load_inputs(const std::string& path, const SearchOptions& options) {
  const Result<TomlNode> document = load_document(path, options.variant, options.settings);
  if (!document.ok()) return document.error();
  const Result<Scenario> itself = scenario_of(document.value(), path);
  if (!itself.ok()) return itself.error();
  SearchInputs inputs;
  for (std::vector<Setting>& settings :
       settings_of_inputs(document.value(), path, options, inputs)) {
    Result<Scenario> scenario =
        load_scenario(path, options.variant, joined(options.settings, settings));
    if (!scenario.ok()) continue;  // A seed and a change that do not go together.
    inputs.settings.push_back(std::move(settings));
    inputs.scenarios.push_back(std::move(scenario).value());
  }
  return inputs;
}

}  // namespace lockstep::explore::detail
