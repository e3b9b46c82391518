#include "lockstep/sim/explore/marks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {

void count_laws(const Report& report, std::vector<LawCoverage>& laws) {
  for (const LawResult& result : report.laws) {
    auto known = std::ranges::find(laws, result.law, &LawCoverage::law);
    if (known == laws.end()) known = laws.insert(laws.end(), LawCoverage{.law = result.law});
    switch (result.verdict) {
      case Verdict::kHolds:
        ++known->n_held;
        break;
      case Verdict::kBroken:
        ++known->n_broken;
        break;
      case Verdict::kNotCheckable:
        ++known->n_unchecked;
        break;
    }
  }
}

std::string laws_text(const std::vector<LawCoverage>& laws) {
  std::vector<std::string> broken;
  std::vector<std::string> never;
  for (const LawCoverage& law : laws) {
    if (!law.was_checked()) never.push_back(law.law);
    if (law.n_broken > 0) broken.push_back(law.law + " in " + std::to_string(law.n_broken));
  }
  std::string text =
      "laws: " + std::to_string(std::ranges::count_if(laws, &LawCoverage::was_checked)) + " of " +
      std::to_string(laws.size()) + " had something to check";
  if (!broken.empty()) text += "; broken: " + join(broken);
  if (!never.empty()) text += "; never: " + join(never);
  return text + "\n";
}

bool Marks::Handle::look(bool there) const {
  MarkCount& count = marks_->counts_[place_];
  ++count.n_looked;
  if (there) ++count.n_reached;
  return there;
}

Marks::Handle Marks::sometimes(std::string name, CallSite site) {
  counts_.push_back({.name = std::move(name), .declared = site});
  return {*this, counts_.size() - 1};
}

std::vector<MarkCount> Marks::unreached() const {
  std::vector<MarkCount> list;
  std::ranges::copy_if(counts_, std::back_inserter(list), [](const MarkCount& count) {
    return count.n_reached == 0;
  });
  return list;
}

std::string Marks::text() const {
  const std::vector<MarkCount> missing = unreached();
  std::string text = "marks: " + std::to_string(counts_.size() - missing.size()) + " of " +
                     std::to_string(counts_.size()) + " reached\n";
  for (const MarkCount& mark : missing) {
    text += "  never reached: " + mark.name + " (" + mark.declared.text() + "), in " +
            std::to_string(mark.n_looked) + " looks\n";
  }
  return laws_.empty() ? text : text + laws_text(laws_);
}

}  // namespace lockstep
