#include "lockstep/laws/rules/detail/remarks.h"

#include <algorithm>
#include <string>

#include "lockstep/base/text.h"
#include "lockstep/laws/report.h"

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostShown = 3;
constexpr std::size_t kMostKept = 64;

}  // namespace

void Remarks::on_event(const Event& event, RankRange who) {
  const auto* log = std::get_if<LogEvent>(&event.body);
  if (log == nullptr || log->kind != about_) return;
  if (ranks_.size() == kMostKept && !ranks_.contains(log->text)) return;
  append(ranks_[log->text], who);
}

std::optional<Advice> Remarks::advice(std::string_view id,
                                      std::string_view so,
                                      const NameTable& names) const {
  if (ranks_.empty()) return std::nullopt;
  std::map<std::string_view, std::vector<Rank>> by_text;
  for (const auto& [text, ranks] : ranks_) by_text[names.text(text)] = ranks;
  std::vector<std::string> shown;
  for (auto& [text, ranks] : by_text) {
    if (shown.size() == kMostShown) break;
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    shown.push_back(ranks_text(ranks) + ": " + std::string(text));
  }
  std::string message = join(shown, "; ");
  const std::size_t n_left = by_text.size() - shown.size();
  if (n_left > 0) message += "; and " + std::to_string(n_left) + " more";
  return Advice{std::string(id), message + ". " + std::string(so)};
}

}  // namespace lockstep::laws
