#include "lockstep/harness/explore/shrink/reproduction.h"

#include <filesystem>
#include <utility>

#include "lockstep/base/disk_files.h"
#include "lockstep/harness/explore/search/paths.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"
#include "lockstep/harness/run/run_scenario.h"

namespace lockstep::explore {
namespace {

constexpr const char* kReproductionFile = "repro.toml";

/// Whether rows come from a file.
bool reads_files(const TomlNode& document) {
  const TomlNode* kind = find_at(document, "data.kind");
  if (kind == nullptr) return false;
  const std::optional<DataKind> known = parse_enum<DataKind>(kind->text);
  return known != DataKind::kInline && known != DataKind::kSynthetic;
}

/// Line breaks and control characters would end a comment.
std::string one_line(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < 0x20) letter = ' ';
  }
  return text;
}

std::vector<std::string> heading(const Shrunk& shrunk, const Reproduction& about) {
  std::vector<std::string> lines = {"Found by `lockstep explore` in " + about.origin +
                                    " and made smaller in " + std::to_string(shrunk.n_tries) +
                                    " tries. It shows:"};
  lines.push_back(shrunk.after.sentence);
  if (about.remarks.empty()) return lines;
  lines.emplace_back("What was varied, everything else as it stands here:");
  lines.insert(lines.end(), about.remarks.begin(), about.remarks.end());
  return lines;
}

std::string comment(const std::vector<std::string>& lines, const std::string& mark) {
  std::string text;
  for (const std::string& line : lines) text += mark + " " + one_line(line) + "\n";
  return text;
}

/// format, title, then what is left.
std::string scenario_text(const Shrunk& shrunk, const Reproduction& about) {
  TomlNode head;
  put(head, "format", integer_node(1));
  put(head, "title", text_node("Shrunk: " + about.title));
  TomlNode rest = copy_of(shrunk.document);
  for (const char* key : {"format", "replay"}) drop(rest, key);
  for (const TomlField& field : rest.fields) {
    put(head, field.key, copy_of(field.value));
  }
  return render_toml(head);
}

/// replicas-equal -> ReplicasEqual
std::string camel(const std::string& words) {
  std::string name;
  bool upper = true;
  for (const char letter : words) {
    const bool is_letter = letter >= 'a' && letter <= 'z';
    if (is_letter) name += upper ? static_cast<char>(letter - 'a' + 'A') : letter;
    upper = !is_letter;
  }
  return name;
}

/// A delimiter that does not end the raw string early.
std::string delimiter_for(const std::string& text) {
  std::string delimiter = "toml";
  while (text.find(")" + delimiter + "\"") != std::string::npos) delimiter += "x";
  return delimiter;
}

}  // namespace

Result<std::string> render_scenario(const Shrunk& shrunk, const Reproduction& about) {
  Replay replay;
  // Lines of the file are call sites of programs; they are the same whatever the table says.
  replay.scenario = kReproductionFile;
  if (reads_files(shrunk.document)) replay.folder = about.folder;
  const std::string text = comment(heading(shrunk, about), "#") + scenario_text(shrunk, about);
  const Result<Scenario> scenario =
      read_scenario_text(with_replay(text, replay), kReproductionFile);
  if (!scenario.ok()) return scenario.error();
  const Result<ScenarioResult> run = run_scenario(scenario.value(), {});
  if (!run.ok()) return run.error();
  replay.trace_digest = run.value().report.trace_digest;
  replay.result_digest = run.value().report.result_digest;
  return with_replay(text, replay);
}

std::string render_test(const Shrunk& shrunk, const Reproduction& about) {
  std::string scenario = scenario_text(shrunk, about);
  if (reads_files(shrunk.document)) {
    scenario += "\n[replay]\nfolder = " + toml_string(about.folder) + "\n";
  }
  const Failure& failure = *shrunk.after.failure;
  const std::string delimiter = delimiter_for(scenario);
  const std::string name = camel(std::string(name_of(failure.outcome))) + camel(failure.law);
  return comment(heading(shrunk, about), "//") +
         "//\n// The test fails as long as the failure is there. Link lockstep::lockstep and "
         "GTest::gtest_main.\n"
         "#include <gtest/gtest.h>\n"
         "\n"
         "#include <lockstep/gtest.h>\n"
         "#include <lockstep/scenario.h>\n"
         "\n"
         "namespace {\n"
         "\n"
         "constexpr char kScenario[] = R\"" +
         delimiter + "(" + scenario + ")" + delimiter +
         "\";\n"
         "\n"
         "TEST(Reproduction, " +
         name +
         ") {\n"
         "  const auto scenario = lockstep::read_scenario_text(kScenario, \"repro.toml\");\n"
         "  ASSERT_TRUE(scenario.ok()) << scenario.error().text();\n"
         "  const auto run = lockstep::run_scenario(scenario.value(), {});\n"
         "  ASSERT_TRUE(run.ok()) << run.error().text();\n"
         "  EXPECT_LAWS_HOLD(run.value().report);\n"
         "}\n"
         "\n"
         "}  // namespace\n";
}

Result<WrittenFiles> write_reproduction(const std::string& folder,
                                        const Shrunk& shrunk,
                                        const Reproduction& about) {
  const std::filesystem::path to(folder);
  const WrittenFiles written = {(to / kReproductionFile).string(), (to / "repro_test.cc").string()};
  const Result<std::string> scenario = render_scenario(shrunk, about);
  if (!scenario.ok()) return scenario.error();
  DiskFiles files;
  Outcome done = files.make_folder(folder);
  if (done.ok()) done = files.publish(written.scenario, scenario.value());
  if (done.ok()) done = files.publish(written.test, render_test(shrunk, about));
  if (!done.ok()) return done.error();
  return written;
}

}  // namespace lockstep::explore
