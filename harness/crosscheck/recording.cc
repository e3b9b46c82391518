#include "lockstep/harness/crosscheck/recording.h"

#include <array>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/host.h"
#include "lockstep/harness/crosscheck/order_search.h"
#include "lockstep/kernels/cpu_kernels.h"
#include "lockstep/real/host/real_host.h"
#include "lockstep/tensor/runtime.h"

namespace lockstep {

namespace {

using Json = nlohmann::ordered_json;  // Files keep their order.

constexpr const char* kFormat = "lockstep-gpu-recording-1";
constexpr const char* kImpossible = "impossible";

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const char* const end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  const std::string text(digits.data(), static_cast<std::size_t>(end - digits.data()));
  return std::string(16 - text.size(), '0') + text;
}

std::optional<std::uint64_t> parse_hex(const std::string& text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value, 16);
  if (code != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string verdict_of(Runtime& runtime,
                       const CollectiveCase& one,
                       std::span<const std::uint64_t> digests) {
  const auto rules = rules_of_verdicts(static_cast<std::int32_t>(digests.size()));
  const std::string rule = rule_of_digests(runtime, one, digests, rules);
  return rule.empty() ? kImpossible : rule;
}

/// A runtime on this machine's processor, whatever recorded the values.
struct PlainRank {
  DiskFiles files;
  RealHost host{Rank{0}, files};
  Pool pool;
  std::unique_ptr<Kernels> kernels = make_cpu_kernels();
  Runtime runtime{pool, *kernels, host};
};

class Checker {
 public:
  Checker() {
    for (const auto& cases : {collective_cases(), sized_cases()}) {
      for (const CollectiveCase& one : cases) cases_.emplace(one.name, one);
    }
  }

  /// What is wrong, and the recording with the right verdicts.
  Result<RecordingCheck> check(Json& recording) {
    check_.date = recording.at("date").get<std::string>();
    for (Json& launch : recording.at("launches")) {
      const auto title = launch.at("title").get<std::string>();
      for (Json& one : launch.at("cases")) {
        if (Outcome done = check_case(title, one); !done.ok()) return done.error();
      }
    }
    return std::move(check_);
  }

 private:
  Outcome check_case(const std::string& title, Json& recorded) {
    const auto name = recorded.at("name").get<std::string>();
    const auto found = cases_.find(name);
    if (found == cases_.end()) return Error{"unknown case '" + name + "'", title};
    const std::string where = title + ", " + name;
    std::vector<std::uint64_t> digests;
    for (const Json& digest : recorded.at("digests")) {
      const auto value = parse_hex(digest.get<std::string>());
      if (!value) return Error{"a digest has 16 hexadecimal digits", where};
      digests.push_back(*value);
    }
    if (digests.empty()) return Error{"no digests", where};
    check_.n_digests += static_cast<std::int64_t>(digests.size());
    const auto said = recorded.at("verdict").get<std::string>();
    const std::string derived = verdict_of(rank_.runtime, found->second, digests);
    if (said != derived) {
      check_.problems.push_back(where + ": recorded as " + said + ", computed as " + derived);
      recorded["verdict"] = derived;
    }
    return success();
  }

  PlainRank rank_;
  std::map<std::string, CollectiveCase> cases_;
  RecordingCheck check_;
};

}  // namespace

std::vector<SummingRule> rules_of_verdicts(std::int32_t n_ranks) {
  using Rounding = SummingRule::Rounding;
  std::vector<SummingRule> rules;
  for (const ReductionOrder& order : legal_nccl_orders(n_ranks)) {
    for (const auto rounding : {Rounding::kNccl, Rounding::kNotFused, Rounding::kWide}) {
      rules.push_back({order, rounding});
    }
  }
  return rules;
}

RecordedLaunch record_launch(ProcessGroup& group,
                             const std::string& title,
                             std::span<const CollectiveCase> cases) {
  PlainRank judge;
  RecordedLaunch launch = {title, group.size(), {}};
  for (const CollectiveCase& one : cases) {
    std::int64_t own = static_cast<std::int64_t>(run_case(group, one));
    std::vector<std::int64_t> all(static_cast<std::size_t>(group.size()));
    std::vector<Memory> parts;
    parts.reserve(all.size());
    for (std::int64_t& part : all) parts.push_back(Memory::of(std::span(&part, 1)));
    group.all_gather(parts, Memory::of(std::span(&own, 1))).wait_or_throw();
    RecordedCase recorded = {one.name, {}, {}};
    for (const std::int64_t digest : all) {
      recorded.digests.push_back(static_cast<std::uint64_t>(digest));
    }
    if (group.rank() == 0) recorded.verdict = verdict_of(judge.runtime, one, recorded.digests);
    launch.cases.push_back(std::move(recorded));
  }
  return launch;
}

std::string to_json(const RecordedLaunch& launch) {
  Json cases = Json::array();
  for (const RecordedCase& one : launch.cases) {
    Json digests = Json::array();
    for (const std::uint64_t digest : one.digests) digests.push_back(hex(digest));
    cases.push_back({{"name", one.name}, {"digests", digests}, {"verdict", one.verdict}});
  }
  const Json json = {{"title", launch.title}, {"n_ranks", launch.n_ranks}, {"cases", cases}};
  return json.dump(1);
}

namespace {

/// `recording`: with the verdicts as they are computed.
Result<RecordingCheck> check_file(const std::string& path, Json& recording) {
  const Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  try {
    recording = Json::parse(text.value());
    if (recording.at("format") != kFormat) {
      return Error{"this is not a recording of a GPU run", path};
    }
    return Checker().check(recording);
  } catch (const Json::exception& error) {
    return Error{error.what(), path};
  }
}

}  // namespace

Result<RecordingCheck> check_recording(const std::string& path) {
  Json recording;
  return check_file(path, recording);
}

Outcome judge_recording(const std::string& path) {
  Json recording;
  if (const auto checked = check_file(path, recording); !checked.ok()) return checked.error();
  return DiskFiles().publish(path, recording.dump(1) + "\n");
}

}  // namespace lockstep
