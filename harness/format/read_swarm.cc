// swarm: faults that a seed draws, where a list of them would say what is expected to matter.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/harness/format/section.h"
#include "lockstep/harness/format/sections.h"

namespace lockstep {
namespace {

using sim::FaultKind;

struct SwarmWord {
  std::string_view word;  ///< As a fault's `kind` is called.
  std::vector<FaultKind> kinds;
};

std::vector<SwarmWord> swarm_words() {
  return {{"crash",
           {FaultKind::kException,
            FaultKind::kExit,
            FaultKind::kSigkill,
            FaultKind::kSigterm,
            FaultKind::kOutOfMemory}},
          {"hang", {FaultKind::kHang}},
          {"late", {FaultKind::kLate}},
          {"slow", {FaultKind::kSlow}},
          {"disk-full", {FaultKind::kDiskFull}},
          {"torn-write", {FaultKind::kTornWrite}},
          {"lose", {FaultKind::kLost}},
          {"delay", {FaultKind::kDelayed}},
          {"duplicate", {FaultKind::kDuplicated}},
          {"corrupt", {FaultKind::kCorrupted}},
          {"stale", {FaultKind::kStale}}};
}

// Nothing is slow if computing takes no time; files that are never written are never torn.
bool has_effect(std::string_view word, const Scenario& scenario) {
  if (word == "slow") return !scenario.session.compute.is_free();
  if (word != "disk-full" && word != "torn-write") return true;
  return scenario.jobs.front()->loop.snapshot.every_steps > 0;
}

std::vector<FaultKind> read_kinds(TableReader& swarm, const Scenario& scenario, Problem& problem) {
  const std::vector<SwarmWord> words = swarm_words();
  std::vector<FaultKind> kinds;
  const auto add = [&](const SwarmWord& word) {
    kinds.insert(kinds.end(), word.kinds.begin(), word.kinds.end());
  };
  if (!swarm.has("kinds")) {
    for (const SwarmWord& word : words) {
      if (has_effect(word.word, scenario)) add(word);
    }
    return kinds;
  }
  for (const std::string& wanted : swarm.texts("kinds")) {
    std::vector<std::string_view> known;
    for (const SwarmWord& word : words) {
      known.push_back(word.word);
      if (word.word == wanted) add(word);
    }
    if (std::find(known.begin(), known.end(), wanted) != known.end()) continue;
    problem.report("a swarm has no '" + wanted + "'" + did_you_mean(wanted, known),
                   swarm.where("kinds"));
  }
  if (kinds.empty()) problem.report("a swarm needs a kind of fault", swarm.where("kinds"));
  return kinds;
}

const Section<sim::SwarmOptions>& swarm_section() {
  using Options = sim::SwarmOptions;
  static const Section<Options> section("swarm", [](Section<Options>& it) {
    std::vector<std::string_view> words;
    for (const SwarmWord& each : swarm_words()) words.push_back(each.word);
    it.add("faults", &Options::n_faults, "How many are drawn.").between(1, 1000);
    it.add("seed", &Options::seed, "Draws them.").shown("`world.seed`");
    it.add("steps", &Options::n_steps, "They strike in optimizer steps below it.")
        .at_least(1)
        .shown("`loop.steps`")
        .counts();
    it.code("kinds", FieldType::kWords, "Kinds of faults; `crash` with any `how`.")
        .words(words)
        .shown("all that have an effect");
  });
  return section;
}

}  // namespace

std::vector<SchemaSection> swarm_sections() { return {swarm_section().described()}; }

void read_swarm(TableReader& root, Scenario& scenario, Problem& problem) {
  const TomlNode* node = root.table("swarm");
  if (node == nullptr) return;
  TableReader swarm(*node, "swarm", problem);
  const LoopSpec& loop = scenario.jobs.front()->loop;
  sim::SwarmOptions options;
  options.n_ranks = scenario.n_ranks;
  options.seed = scenario.seed;
  options.by_attempt = scenario.session.agent.has_value();
  options.n_steps = loop.steps.value_or(0);
  swarm_section().read(swarm, options);
  if (!loop.steps && !swarm.has("steps")) {
    problem.report("a job of epochs needs 'swarm.steps': faults strike in steps below it",
                   swarm.where());
  }
  options.kinds = read_kinds(swarm, scenario, problem);
  swarm.finish();
  if (problem.found()) return;
  for (sim::Fault& fault : sim::swarm(options)) {
    scenario.session.faults.push_back(std::move(fault));
  }
}

}  // namespace lockstep
