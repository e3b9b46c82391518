#include "lockstep/laws/report.h"

#include <algorithm>
#include <array>

#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/laws/detail/finding_text.h"
#include "lockstep/laws/law.h"

namespace lockstep {

namespace {

/// Where in a step an event lies, for people.
std::string place_of(const std::string& event) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kPlaces = {
      {{"step", "after optimizer.step"},
       {"grad.post", "after the reduction"},
       {"grad.redo", "when the micro-step was recomputed"},
       {"wrap", "after wrapping"},
       {"forward", "at the first synchronising forward"},
       {"found", "at the start of the forward"},
       {"eval", "entering evaluation"},
       {"save", "before a snapshot"},
       {"end", "at the end"},
       {"epoch", "in the epoch"},
       {"touch", "with a transfer in flight"}}};
  const auto* const known = std::find_if(
      kPlaces.begin(), kPlaces.end(), [&](const auto& place) { return place.first == event; });
  return known == kPlaces.end() ? event : std::string(known->second);
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + exact(value);
  return text;
}

/// "`fc.weight`[7] (and 3 other tensors) on rank 3: ", or what there is of it.
std::string subject(const Finding& finding, std::size_t n_alike) {
  if (finding.tensor.empty()) return finding.ranks.empty() ? "" : ranks_text(finding.ranks) + ": ";
  std::string text = "`" + finding.tensor + "`";
  if (finding.element) text += "[" + std::to_string(*finding.element) + "]";
  if (n_alike > 0) text += " (and " + std::to_string(n_alike) + " other tensor";
  if (n_alike > 0) text += n_alike == 1 ? ")" : "s)";
  if (!finding.ranks.empty()) text += " on " + ranks_text(finding.ranks);
  return text + ": ";
}

/// "At save.py:12, against train.py:40."
std::string sites_text(const Finding& finding) {
  if (finding.site.empty()) return {};
  const std::string against = finding.other_site.empty() ? "" : ", against " + finding.other_site;
  return " At " + finding.site + against + ".";
}

bool names_its_sites(const Finding& finding) {
  return finding.message.find(finding.site) != std::string::npos &&
         finding.message.find(finding.other_site) != std::string::npos;
}

/// "step 17, after optimizer.step: "
std::string when_and_where(const Finding& finding) {
  std::string text;
  if (finding.attempt > 0) text += "attempt " + std::to_string(finding.attempt) + ", ";
  if (finding.step) text += "step " + std::to_string(*finding.step) + ", ";
  if (finding.epoch >= 0) text += "epoch " + std::to_string(finding.epoch) + ", ";
  if (finding.event != "collective") return text + place_of(finding.event) + ": ";
  text += "group " + std::to_string(finding.group);
  if (finding.seq) text += " call " + std::to_string(*finding.seq);
  return text + ": ";
}

}  // namespace

namespace laws {

std::string law_in_capitals(const std::string& law) {
  std::string result = law;
  for (char& letter : result) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  return result;
}

std::string finding_text(const Finding& finding, const FindingStyle& style) {
  std::string text = when_and_where(finding) + subject(finding, style.n_alike);
  text += finding.message + " (law " + law_in_capitals(finding.law) + ").";
  if (!finding.weights.empty()) {
    text += " Weights " + list(finding.weights) + ", declared " + list(finding.declared) + ".";
  }
  if (!finding.missing.empty()) text += " Missing: " + ranks_text(finding.missing) + ".";
  if (!style.brief || !names_its_sites(finding)) text += sites_text(finding);
  if (style.cause && finding.cause != Cause::kNone) {
    text += " Likely: " + std::string(id_of(finding.cause)) + ".";
  }
  return text;
}

}  // namespace laws

std::string ranks_text(const std::vector<Rank>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && to_int(ranks[last + 1]) == to_int(ranks[last]) + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(to_int(ranks[i]));
    if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(to_int(ranks[last]));
    i = last + 1;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::size_t Report::n_findings() const {
  std::size_t n = 0;
  for (const LawResult& law : laws) n += law.findings.size();
  return n;
}

std::string sentence(const Finding& finding) { return laws::finding_text(finding, {}); }

}  // namespace lockstep
