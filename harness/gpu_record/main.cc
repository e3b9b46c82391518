// The program that gpu/record.py starts, once per rank or alone:
//
//   obstacle BACKEND                         why the backend cannot be had here (exit code 3)
//   cases TITLE FILE                         all collectives; rank 0 writes their digests
//   sizes TITLE FILE                         the same of all-reduces of 1 to 2^24 elements
//   fault NAME FILE TIMEOUT_S checked|unchecked    each rank writes FILE.RANK
//   check FOLDER                             computes recordings again; 77: there is none
//   judge FILE                               writes this version's verdicts into a recording
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/harness/backends/backends.h"
#include "lockstep/harness/crosscheck/recording.h"
#include "lockstep/harness/gpu_record/faults.h"
#include "lockstep/harness/run/run_scenario.h"
#include "lockstep/real/session/rank_session.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int kWell = 0;
constexpr int kWrong = 1;
constexpr int kBadInput = 2;
constexpr int kFailed = 3;
constexpr int kSkipped = 77;

int say(const std::string& text, int code) {
  std::fprintf(stderr, "lockstep_gpu_record: %s\n", text.c_str());
  return code;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

int write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << "\n";
  file.close();
  return file ? kWell : say("cannot write " + path, kFailed);
}

int run_rank(RankSessionOptions options, const std::function<void(RankContext&)>& body) {
  const auto place = read_launch_environment(process_environment());
  if (!place.ok()) return say(place.error().text(), kBadInput);
  if (!place.value()) return say("no launcher started this process", kBadInput);
  const Result<Backend> backend = find_backend(place.value()->backend);
  if (!backend.ok()) return say(backend.error().text(), kBadInput);
  options.backend.place = *place.value();
  options.backend.rendezvous = rendezvous_folder(*place.value(), process_environment());
  options.record = false;
  options.judge = false;
  const auto run = run_this_rank(backend.value(), options, body);
  if (!run.ok()) return say(run.error().text(), kFailed);
  if (run.value().exception == nullptr) return kWell;
  try {
    std::rethrow_exception(run.value().exception);
  } catch (const std::exception& error) {
    return say(error.what(), kFailed);
  }
}

int obstacle(const std::string& name) {
  const Result<Backend> backend = find_backend(name);
  if (!backend.ok()) return say(backend.error().text(), kFailed);
  const std::string text = obstacle_of(backend.value());
  return text.empty() ? kWell : say(text, kFailed);
}

int cases(std::span<const CollectiveCase> played,
          const std::string& title,
          const std::string& path) {
  int written = kWell;
  const int ran = run_rank({}, [&](RankContext& context) {
    const RecordedLaunch launch = record_launch(context.world(), title, played);
    if (context.rank() == 0) written = write(path, to_json(launch));
  });
  return std::max(ran, written);
}

int fault(const std::vector<std::string>& words) {
  RankSessionOptions options;
  options.backend.timeout = std::chrono::seconds(std::stoi(words[3]));
  options.backend.check_signatures = words[4] == "checked";
  int written = kWell;
  const int ran = run_rank(options, [&](RankContext& context) {
    const auto outcome = play_fault(context.world(), words[1]);
    if (!outcome) {
      written = say("no fault is called '" + words[1] + "'", kBadInput);
      return;
    }
    written = write(words[2] + "." + std::to_string(context.rank()),
                    "{\"status\": " + quoted(outcome->status) +
                        ", \"detail\": " + quoted(outcome->detail) +
                        ", \"right\": " + (outcome->right ? "true" : "false") +
                        ", \"seconds\": " + std::to_string(outcome->seconds) + "}");
  });
  return std::max(ran, written);
}

int check(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  if (paths.empty()) return say("no recording yet: not run on a GPU", kSkipped);
  std::sort(paths.begin(), paths.end());
  int code = kWell;
  for (const fs::path& path : paths) {
    const Result<RecordingCheck> checked = check_recording(path.string());
    if (!checked.ok()) return say(checked.error().text(), kBadInput);
    std::printf("%s: recorded %s, %lld digests computed again, %zu differ\n",
                path.filename().c_str(),
                checked.value().date.c_str(),
                static_cast<long long>(checked.value().n_digests),
                checked.value().problems.size());
    for (const std::string& problem : checked.value().problems) code = say(problem, kWrong);
  }
  return code;
}

int judge(const std::string& path) {
  const Outcome judged = judge_recording(path);
  return judged.ok() ? kWell : say(judged.error().text(), kBadInput);
}

/// What the program is asked to do, and the words after it.
enum class Verb : std::uint8_t { kObstacle, kCases, kSizes, kFault, kCheck, kJudge };

std::size_t n_words(Verb verb) {
  switch (verb) {
    case Verb::kCases:
    case Verb::kSizes:
      return 3;
    case Verb::kFault:
      return 5;
    case Verb::kObstacle:
    case Verb::kCheck:
    case Verb::kJudge:
      return 2;
  }
  return 0;
}

}  // namespace

template <>
inline constexpr EnumNames<6> kEnumNames<Verb> = {
    "obstacle", "cases", "sizes", "fault", "check", "judge"};

namespace {

int run(const std::vector<std::string>& words) {
  const auto verb = parse_enum<Verb>(words.empty() ? "" : words[0]);
  if (!verb || words.size() != n_words(*verb)) {
    return say(
        "usage: obstacle BACKEND | cases TITLE FILE | sizes TITLE FILE | fault NAME FILE TIMEOUT_S "
        "checked|unchecked | check FOLDER | judge FILE",
        kBadInput);
  }
  switch (*verb) {
    case Verb::kObstacle:
      return obstacle(words[1]);
    case Verb::kCases:
      return cases(collective_cases(), words[1], words[2]);
    case Verb::kSizes:
      return cases(sized_cases(), words[1], words[2]);
    case Verb::kFault:
      return fault(words);
    case Verb::kCheck:
      return check(words[1]);
    case Verb::kJudge:
      return judge(words[1]);
  }
  return kBadInput;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    return lockstep::say(error.what(), lockstep::kFailed);
  }
}
