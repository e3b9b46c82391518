#include "lockstep/sim/process/call_fault.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <limits>
#include <optional>

#include "lockstep/base/text.h"

namespace lockstep::sim {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kDefaultMs = 1000;
constexpr std::int64_t kMostBits = 64;
constexpr std::int64_t kHalf = 50;
constexpr std::int64_t kNearlyAll = 99;

struct Spelling {
  std::string_view word;
  FaultKind kind;
};

constexpr std::array kSpellings = {Spelling{"lose", FaultKind::kLost},
                                   Spelling{"drop", FaultKind::kLost},
                                   Spelling{"duplicate", FaultKind::kDuplicated},
                                   Spelling{"double", FaultKind::kDuplicated},
                                   Spelling{"delay", FaultKind::kDelayed},
                                   Spelling{"late", FaultKind::kLate},
                                   Spelling{"slow", FaultKind::kSlow},
                                   Spelling{"corrupt", FaultKind::kCorrupted},
                                   Spelling{"stale", FaultKind::kStale},
                                   Spelling{"exception", FaultKind::kException},
                                   Spelling{"sigkill", FaultKind::kSigkill},
                                   Spelling{"kill", FaultKind::kSigkill},
                                   Spelling{"hang", FaultKind::kHang},
                                   Spelling{"torn-write", FaultKind::kTornWrite},
                                   Spelling{"torn", FaultKind::kTornWrite}};

Error wrong(std::string_view fault, const std::string& what) {
  return {fmt::format("fault '{}': {}", fault, what), {}};
}

std::optional<FaultKind> kind_of(std::string_view word) {
  const auto* const found =
      std::find_if(kSpellings.begin(), kSpellings.end(), [word](const Spelling& known) {
        return known.word == word;
      });
  if (found == kSpellings.end()) return std::nullopt;
  return found->kind;
}

std::string known_words(std::string_view word) {
  std::array<std::string_view, kSpellings.size()> words;
  std::transform(kSpellings.begin(), kSpellings.end(), words.begin(), [](const Spelling& known) {
    return known.word;
  });
  return alternatives(word, words, "kinds are");
}

/// A number of 0 to `most`.
std::optional<std::int64_t> number_of(std::string_view text, std::int64_t most) {
  const std::optional<std::int64_t> number = parse_int(text);
  return number && *number >= 0 && *number <= most ? number : std::nullopt;
}

/// What an amount counts, if it is left out, and at most.
struct Amount {
  std::int64_t usual;
  std::int64_t most;
};

Amount amount_of(FaultKind kind) {
  if (kind == FaultKind::kCorrupted) return {0, kMostBits - 1};
  if (kind == FaultKind::kTornWrite) return {kHalf, kNearlyAll};
  return {kDefaultMs, std::numeric_limits<std::int64_t>::max() / kNsPerMs};
}

struct Parsed {
  FaultKind kind;
  std::int32_t rank = 0;
  std::int64_t call = 0;
  std::int64_t amount = 0;
};

Fault at_a_call(const Parsed& parsed) {
  Fault fault;
  fault.kind = parsed.kind;
  fault.rank = parsed.rank;
  fault.at = EventKind::kCollective;
  fault.nth = parsed.call;
  if (parsed.kind == FaultKind::kCorrupted) {
    fault.bit = static_cast<std::int32_t>(parsed.amount);
  } else {
    fault.delay = Duration{parsed.amount * kNsPerMs};
  }
  return fault;
}

void add(const Parsed& parsed, CallFaults& all) {
  if (parsed.kind == FaultKind::kSlow) {
    all.slow.push_back({.rank = parsed.rank,
                        .first_call = parsed.call,
                        .delay = Duration{parsed.amount * kNsPerMs}});
  } else if (parsed.kind == FaultKind::kTornWrite) {
    all.torn.push_back({.rank = parsed.rank,
                        .save = parsed.call,
                        .percent = static_cast<std::int32_t>(parsed.amount)});
  } else {
    all.faults.push_back(at_a_call(parsed));
  }
}

Result<Parsed> parse(std::string_view text, std::int32_t n_ranks) {
  const std::vector<std::string_view> parts = split(text, ':');
  const std::optional<FaultKind> kind = kind_of(parts.front());
  if (!kind) {
    return wrong(text, fmt::format("unknown kind '{}'{}", parts.front(), known_words(parts[0])));
  }
  if (parts.size() != 3 && parts.size() != 4)
    return wrong(text, "it reads KIND:RANK:CALL or KIND:RANK:CALL:AMOUNT");
  const auto rank = number_of(parts[1], n_ranks - 1);
  if (!rank) return wrong(text, fmt::format("'{}' is not one of the {} ranks", parts[1], n_ranks));
  const auto call = number_of(parts[2], std::numeric_limits<std::int64_t>::max());
  if (!call) return wrong(text, fmt::format("'{}' is not a call's number", parts[2]));
  const Amount known = amount_of(*kind);
  const auto amount = parts.size() == 4 ? number_of(parts[3], known.most) : known.usual;
  if (!amount)
    return wrong(text, fmt::format("'{}' is not an amount of 0 to {}", parts[3], known.most));
  return Parsed{
      .kind = *kind, .rank = static_cast<std::int32_t>(*rank), .call = *call, .amount = *amount};
}

}  // namespace

Result<CallFaults> parse_call_faults(const std::vector<std::string_view>& words,
                                     std::int32_t n_ranks) {
  CallFaults all;
  for (const std::string_view word : words) {
    const Result<Parsed> parsed = parse(word, n_ranks);
    if (!parsed.ok()) return parsed.error();
    add(parsed.value(), all);
  }
  return all;
}

}  // namespace lockstep::sim
