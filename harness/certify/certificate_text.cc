// A certificate as text.
#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/harness/certify/certificate.h"

namespace lockstep {
namespace {

/// Tables of windows with different weights that are shown; more are counted.
constexpr std::size_t kMostTables = 12;

using Cells = std::array<std::string, 7>;

/// "0-3, 5" of sorted numbers.
std::string ranges(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[i]);
    if (end > i + 1) text += (end > i + 2 ? "-" : ", ") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

/// Rows of ranks that have the same ones.
struct AlikeRanks {
  std::vector<std::int64_t> ranks;
  std::vector<WeightRow> rows;  ///< Of the first of them.
};

bool same_but_rank(const std::vector<WeightRow>& left, const std::vector<WeightRow>& right) {
  return std::equal(
      left.begin(), left.end(), right.begin(), right.end(), [](WeightRow a, const WeightRow& b) {
        a.rank = b.rank;
        a.site = b.site;
        return a == b;
      });
}

std::vector<AlikeRanks> by_equal_rows(const std::vector<WeightRow>& rows) {
  std::vector<AlikeRanks> groups;
  for (std::size_t i = 0; i < rows.size();) {
    AlikeRanks own{{rows[i].rank}, {}};
    for (; i < rows.size() && rows[i].rank == own.ranks.front(); ++i) own.rows.push_back(rows[i]);
    if (!groups.empty() && same_but_rank(groups.back().rows, own.rows)) {
      groups.back().ranks.push_back(own.ranks.front());
    } else {
      groups.push_back(std::move(own));
    }
  }
  return groups;
}

std::string factor_of(const WeightRow& row) {
  if (!row.is_fraction) return "?";
  if (row.asked.is_zero()) return row.weight.is_zero() ? "1" : "-";
  return (row.weight / row.asked).text();
}

std::vector<Cells> cells_of(const WindowWeights& window) {
  std::vector<Cells> table = {
      {"rank", "micro-step", "samples", "tokens", "weight", "asked", "factor"}};
  for (const AlikeRanks& alike : by_equal_rows(window.rows)) {
    for (const WeightRow& row : alike.rows) {
      table.push_back({ranges(alike.ranks),
                       std::to_string(row.micro),
                       std::to_string(row.n_samples),
                       std::to_string(row.n_tokens),
                       row.is_fraction ? row.weight.text() : "?",
                       row.is_fraction ? row.asked.text() : "?",
                       factor_of(row)});
    }
  }
  return table;
}

std::string table_text(const WindowWeights& window) {
  const std::vector<Cells> table = cells_of(window);
  std::array<std::size_t, 7> widths{};
  for (const Cells& row : table) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Cells& row : table) {
    std::string line = "  ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i] + std::string(widths[i] + 2 - row[i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

bool same_weights(const WindowWeights& a, const WindowWeights& b) {
  return a.unused_ranks == b.unused_ranks && a.other_ranks == b.other_ranks &&
         a.left_over == b.left_over && a.rows == b.rows;
}

/// Windows that share a table: the first wrong one's first, then in the order of their first ones.
std::vector<std::vector<std::size_t>> tables_of(const Certificate& certificate) {
  std::vector<std::vector<std::size_t>> tables;
  for (std::size_t i = 0; i < certificate.windows.size(); ++i) {
    const auto alike = std::find_if(tables.begin(), tables.end(), [&](const auto& table) {
      return same_weights(certificate.windows[table.front()], certificate.windows[i]);
    });
    if (alike == tables.end()) {
      tables.push_back({i});
    } else {
      alike->push_back(i);
    }
  }
  if (certificate.certified()) return tables;
  const auto wrong = std::find_if(tables.begin(), tables.end(), [&](const auto& table) {
    return std::find(table.begin(), table.end(), certificate.faults.front().place.window) !=
           table.end();
  });
  std::rotate(tables.begin(), wrong, std::next(wrong));
  return tables;
}

std::string table_title(const Certificate& certificate, const std::vector<std::size_t>& table) {
  std::vector<std::int64_t> steps;
  steps.reserve(table.size());
  for (const std::size_t i : table) steps.push_back(certificate.windows[i].step);
  const bool one = steps.size() == 1;
  std::string numbers = (one ? "step " : "steps ") + ranges(steps);
  if (certificate.windows[table.front()].stepped) return numbers;
  return steps.front() < 0 ? "in no step" : "in no step, after " + numbers;
}

/// "sample of rank 0, micro-step 2", and where that was reduced.
std::string holder(const Certificate& certificate, const WeightRow& row) {
  const std::string unit = certificate.objective.counts_tokens() ? "token" : "sample";
  return unit + " of rank " + std::to_string(row.rank) + ", micro-step " +
         std::to_string(row.micro) + (row.site.empty() ? "" : " (reduced at " + row.site + ")");
}

/// "1/8 x (8 times too small)", "9 x"
std::string factor_text(const Fraction& factor) {
  std::string text = factor.text() + " x";
  if (factor.numerator() != 1 || factor.denominator() == 1) return text;
  return text + " (" + std::to_string(factor.denominator()) + " times too small)";
}

/// Samples that count unequally: the largest weight and the smallest.
std::string uneven_line(const Certificate& certificate, const Fault& fault) {
  const WindowWeights& window = certificate.windows[fault.place.window];
  const WeightRow& most = window.rows[fault.place.row];
  const WeightRow& least = window.rows[fault.smallest.row];
  const std::string asked = most.asked == least.asked
                                ? "both " + most.asked.text()
                                : "them " + most.asked.text() + " and " + least.asked.text();
  return "Factor: " + fault.factor.text() + " x. A " + holder(certificate, most) + " weighs " +
         most.weight.text() + ", and a " + holder(certificate, least) + " weighs " +
         least.weight.text() + "; the objective gives " + asked + ".";
}

/// "rank 1", "ranks 0-3"
std::string ranks_of(const std::vector<std::int32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + ranges({ranks.begin(), ranks.end()});
}

/// Where the weights are wrong, and by how much.
std::string factor_line(const Certificate& certificate, const Fault& fault) {
  const WindowWeights& window = certificate.windows[fault.place.window];
  if (window.rows.empty()) return {};
  const WeightRow& row = window.rows[fault.place.row];
  const std::string weighs = "A " + holder(certificate, row) + " weighs " + row.weight.text() +
                             ", where the objective gives it " + row.asked.text() + ".";
  switch (fault.deviation) {
    case Deviation::kNone:
    case Deviation::kNotAFraction:
      return "Place: a " + holder(certificate, row) + ".";
    case Deviation::kRanksDiffer:
      return "Place: the gradient on " + ranks_of(window.other_ranks) +
             " is not the first rank's, whose weights are below.";
    case Deviation::kNeverUsed:
      return "Place: " + ranks_of(window.unused_ranks) + ", of " +
             std::to_string(certificate.n_ranks) + " in the world.";
    case Deviation::kLeftOver:
      return "Place: not only the samples below have weights in it.";
    case Deviation::kMissing:
    case Deviation::kUneven:
      return "Place: " + weighs;
    case Deviation::kMeanOfRanks:
    case Deviation::kMeanOfMicros:
    case Deviation::kMeanOfBatches:
    case Deviation::kCountsSamples:
    case Deviation::kCountsTokens:
    case Deviation::kGrowsPerMicro:
      return uneven_line(certificate, fault);
    case Deviation::kShortWindow:
    case Deviation::kIdleRanks:
    case Deviation::kRanksAdded:
    case Deviation::kRanksDivided:
    case Deviation::kMicrosAdded:
    case Deviation::kMicrosDivided:
    case Deviation::kEitherAdded:
    case Deviation::kEitherDivided:
    case Deviation::kLossSummed:
    case Deviation::kScaled:
      break;
  }
  return "Factor: " + factor_text(fault.factor) + ", for every sample of the window. " + weighs;
}

/// "step 3", or "after step 3" of micro-steps that no step uses.
std::string time_of(const WindowWeights& window) {
  if (window.step < 0) return "before the first step";
  return (window.stepped ? "step " : "after step ") + std::to_string(window.step);
}

/// The other ways in which weights are wrong, and where they begin.
std::string other_faults(const Certificate& certificate) {
  std::string text;
  for (std::size_t i = 1; i < certificate.faults.size(); ++i) {
    const Fault& fault = certificate.faults[i];
    const DeviationInfo& info = describe(fault.deviation);
    text += "  Also, " + time_of(certificate.windows[fault.place.window]) + ": " +
            std::string(info.id) + ". " + std::string(info.sentence) + "\n";
  }
  return text;
}

std::string refusal(const Certificate& certificate) {
  const Fault& fault = certificate.faults.front();
  const WindowWeights& window = certificate.windows[fault.place.window];
  const DeviationInfo& info = describe(fault.deviation);
  const std::string what =
      window.stepped ? time_of(window) + " does not use the gradient that one process would use"
                     : "micro-steps " + time_of(window) +
                           " enter no gradient that a step uses, but one process would use them";
  std::string text = "Not certified: " + what + " (" + certificate.objective.text() + ").\n";
  const std::string line = factor_line(certificate, fault);
  if (!line.empty()) text += "  " + line + "\n";
  text += "  Why: " + std::string(info.id) + ". " + std::string(info.sentence) + "\n";
  if (fault.total != Fraction(1)) {
    text += "  Together: all weights add up to " + fault.total.text() +
            " of what the objective asks for.\n";
  }
  text += "  Remedy: " + std::string(info.remedy) + "\n";
  if (window.used && window.one_process && *window.used != *window.one_process) {
    text += "  In numbers: if the n-th sample below had the gradient n, the step would use " +
            window.used->text() + ", and one process " + window.one_process->text() + ".\n";
  }
  return text + other_faults(certificate);
}

std::string summary(const Certificate& certificate) {
  std::int64_t n_samples = 0;
  std::int64_t n_wrong = 0;
  for (const WindowWeights& window : certificate.windows) {
    for (const WeightRow& row : window.rows) n_samples += row.n_samples;
    if (!window.is_right()) ++n_wrong;
  }
  const auto count = [](std::int64_t n, const std::string& noun) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
  };
  return count(certificate.n_ranks, "rank") + ", " +
         count(static_cast<std::int64_t>(certificate.windows.size()), "window") + ", " +
         count(n_samples, "sample") + ", " +
         (n_wrong == 0 ? "every weight right" : count(n_wrong, "window") + " wrong") + "\n";
}

}  // namespace

std::string render_text(const Certificate& certificate) {
  std::string text = certificate.title.empty() ? "" : certificate.title + "\n\n";
  text += certificate.certified()
              ? "Certified: equals one process. Every step uses the gradient of the " +
                    certificate.objective.text() + " over its window.\n"
              : refusal(certificate);
  text += std::string("\nWeight of one ") +
          (certificate.objective.counts_tokens() ? "token" : "sample") +
          " in the gradient, and what the objective asks for:\n";
  const auto tables = tables_of(certificate);
  for (std::size_t i = 0; i < std::min(tables.size(), kMostTables); ++i) {
    text += "\n" + table_title(certificate, tables[i]) + "\n" +
            table_text(certificate.windows[tables[i].front()]);
  }
  if (tables.size() > kMostTables) {
    text += "\nand " + std::to_string(tables.size() - kMostTables) + " more tables\n";
  }
  text += "\n" + summary(certificate);
  if (!certificate.set_aside.empty()) {
    text += "ignored by the probe: " + join(certificate.set_aside) + "\n";
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const Certificate& certificate) {
  return out << render_text(certificate);
}

}  // namespace lockstep
