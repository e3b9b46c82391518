#include "lockstep/formats/jsonl.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "tests/support/event_stream.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::EventStream;
using testing::TempFolder;

constexpr const char* kHeader =
    R"({"lockstep_trace":1,"run":"r1","attempt":0,"rank":0,"ranks":2,"backend":"sim"})"
    "\n";

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// The error of a folder whose rank 0 file is the header and `line`.
std::string error_of(const std::string& line) {
  const TempFolder folder;
  write_file(folder.path() + "/a000.rank-00000.jsonl", kHeader + line + "\n");
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());
  if (loaded.ok()) return "no error";
  return loaded.error().where.substr(folder.path().size() + 1) + ": " + loaded.error().message;
}

TEST(JsonlTest, WritesACollectiveAsDocumented) {
  EventStream stream(2);
  stream.at(1) = {.attempt = 0, .wrapper = 0, .sync = 3, .micro = 0, .opt = 3, .epoch = 1};
  CollectiveEvent event;
  event.seq = 7;
  event.signature.op = CollectiveOp::kAllReduce;
  event.signature.count = 16;
  event.signature.async = true;
  event.signature.layout = 0xabc;
  event.signature.site = stream.site("train.py", 40);
  stream.add(1, event);

  EXPECT_EQ(to_json_line(stream.trace().events(Rank{1})[0], stream.names()),
            R"({"rank":1,"i":0,"t":0,"at":[0,0,3,0,3,1],"kind":"collective","phase":"posted",)"
            R"("group":0,"seq":7,"op":"all_reduce","reduce":"sum","dtype":"f32","device":"cpu",)"
            R"("async":true,"root":-1,"peer":-1,"tag":0,"count":16,"premul":1,)"
            R"("splits":"0000000000000000","layout":"0000000000000abc","site":"train.py:40",)"
            R"("scope":"","digest":"0000000000000000","status":""})");
}

TEST(JsonlTest, WritesNumbersThatJsonDoesNotHaveAsStrings) {
  EventStream stream(1);
  MetricEvent metric{.name = stream.name("a\"b\\\n\x01\xff")};
  metric.value = std::numeric_limits<double>::quiet_NaN();
  metric.numerator = -std::numeric_limits<double>::infinity();
  metric.denominator = -0.0;
  const double parts[] = {0.5};
  metric.parts = parts;
  stream.add(0, metric);

  EXPECT_EQ(
      to_json_line(stream.trace().events(Rank{0})[0], stream.names()),
      R"({"rank":0,"i":0,"t":0,"at":[0,-1,-1,-1,0,0],"kind":"metric",)"
      R"("name":"a\"b\\\n\u0001\ufffd","value":"nan","numerator":"-inf","denominator":-0.0,"parts":[0.5]})");
}

/// The only event of rank 0 in a file with this one line, an `end` with these members.
EndEvent read_end(const std::string& members) {
  const TempFolder folder;
  write_file(
      folder.path() + "/a000.rank-00000.jsonl",
      kHeader + (R"({"rank":0,"i":0,"t":0,"at":[0,0,0,0,0,0],"kind":"end",)" + members) + "}\n");
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());
  if (!loaded.ok()) throw std::runtime_error(loaded.error().text());
  return std::get<EndEvent>(loaded.value().trace->events(Rank{0}).front().body);
}

TEST(JsonlTest, SaysWhyARankWasKilledIfThatIsKnown) {
  EventStream stream(2);
  stream.add(0, EndEvent{.outcome = EndOutcome::kOk});
  stream.add(1, EndEvent{.outcome = EndOutcome::kStuck, .reason = EndReason::kLivelock});
  const auto line = [&](std::int32_t rank) {
    return to_json_line(stream.trace().events(Rank{rank})[0], stream.names());
  };
  EXPECT_EQ(
      line(0),
      R"({"rank":0,"i":0,"t":0,"at":[0,-1,-1,-1,0,0],"kind":"end","outcome":"ok","detail":""})");
  EXPECT_NE(line(1).find(R"("outcome":"stuck","detail":"","reason":"livelock"})"),
            std::string::npos);
}

TEST(JsonlTest, ReadsWhyARankWasKilledWhateverItsDetailSays) {
  const EndEvent end = read_end(R"("outcome":"stuck","detail":"spun","reason":"livelock")");
  EXPECT_EQ(end.outcome, EndOutcome::kStuck);
  EXPECT_EQ(end.reason, EndReason::kLivelock);
  const EndEvent killed =
      read_end(R"("outcome":"killed","detail":"livelock: reworded","reason":"other-failed")");
  EXPECT_EQ(killed.reason, EndReason::kOtherFailed);
}

TEST(JsonlTest, SaysThatALineIsAboutSomethingMissedOnlyWhereItIs) {
  EventStream stream(1);
  stream.add(0, LogEvent{.text = stream.name("x")});
  stream.add(0, LogEvent{.text = stream.name("x"), .kind = LogKind::kMissed});
  const std::span<const Event> events = stream.trace().events(Rank{0});
  EXPECT_TRUE(to_json_line(events[0], stream.names()).ends_with(R"("text":"x"})"));
  EXPECT_TRUE(to_json_line(events[1], stream.names()).ends_with(R"("text":"x","about":"missed"})"));
}

TEST(JsonlTest, OlderFilesTellWhyByHowTheDetailBegins) {
  EXPECT_EQ(read_end(R"("outcome":"stuck","detail":"livelock: the budget ran out")").reason,
            EndReason::kLivelock);
  EXPECT_EQ(read_end(R"("outcome":"killed","detail":"rank 2 failed: out of memory")").reason,
            EndReason::kOtherFailed);
}

TEST(JsonlTest, ARankThatEndedByItselfHasNoReason) {
  EXPECT_EQ(read_end(R"("outcome":"exception","detail":"rank 2 failed: says the script")").reason,
            EndReason::kNone);
  EXPECT_EQ(read_end(R"("outcome":"exception","detail":"livelock in my own loop")").reason,
            EndReason::kNone);
  EXPECT_EQ(read_end(R"("outcome":"killed","detail":"SIGKILL")").reason, EndReason::kNone);
}

TEST(JsonlTest, NamesThePlaceOfEveryKindOfMistake) {
  const std::string file = "a000.rank-00000.jsonl:2:";
  const std::string start = R"({"rank":0,"i":0,"t":0,"at":[0,0,0,0,0,0],)";
  EXPECT_EQ(error_of("{"), file + "2: not valid JSON");
  EXPECT_EQ(error_of("[1]"), file + "1: a line must be a JSON object");
  EXPECT_EQ(error_of(start + R"("kind":"lunch"})"), file + "42: unknown kind of event 'lunch'");
  EXPECT_EQ(error_of(start + R"("kind":"lu\n\u001bnch"})"),
            file + "42: unknown kind of event 'lu\\n\\x1bnch'");
  EXPECT_EQ(error_of(R"({"rank":1,"i":0,"at":[0,0,0,0,0,0],"kind":"log"})"),
            file + "2: an event of a rank that this file is not about");
  EXPECT_EQ(error_of(R"({"rank":0,"i":0,"at":[0,0],"kind":"log"})"),
            file + "17: 'at' is [attempt, wrapper, sync, micro, opt, epoch]");
  EXPECT_EQ(error_of(start + R"("kind":"backward","reduced":1})"),
            file + "60: 'reduced' must be true or false");
  EXPECT_EQ(error_of(start + R"("kind":"param","names":["w"],"digests":[]})"),
            file + "71: 'digests' must have one entry per name");
  EXPECT_EQ(error_of(start + R"("kind":"param","names":["w"],"digests":["xyz"]})"),
            file + "71: 'digests' must hold hex digits in a string");
  EXPECT_EQ(error_of(start + R"("kind":"collective","op":"all_rduce"})"),
            file + "62: unknown op 'all_rduce'; did you mean 'all_reduce'?");
  EXPECT_EQ(error_of(start + R"("kind":"end","outcome":"stuk"})"),
            file + "55: unknown outcome 'stuk'; did you mean 'stuck'?");
  EXPECT_EQ(error_of(start + R"("kind":"end","outcome":"stuck","reason":"livelok"})"),
            file + "73: unknown reason 'livelok'; did you mean 'livelock'?");
  EXPECT_EQ(error_of(start + R"("kind":"grad","point":""})"), file + "56: unknown point ''");
  EXPECT_EQ(error_of(start + R"("kind":"decision","value":1.5})"),
            file + "60: 'value' must be an integer that fits");
  EXPECT_EQ(error_of(start + R"("kind":"log","text":7})"), file + "55: 'text' must be a string");
}

TEST(JsonlTest, APositionPastTheLastTensorIsRefused) {
  const std::string grad =
      R"({"rank":0,"i":0,"at":[0,0,0,0,0,0],"kind":"grad","names":["a","b","c","d","e","f","g","h"],)";
  EXPECT_EQ(error_of(grad + R"("undefined":[8]})").substr(0, 24), "a000.rank-00000.jsonl:2:");
  EXPECT_NE(error_of(grad + R"("undefined":[8]})").find("no tensor 8 in this event"),
            std::string::npos);
}

TEST(JsonlTest, TwoEventsOfOneNumberAreRefused) {
  const std::string line = R"({"rank":0,"i":0,"at":[0,0,0,0,0,0],"kind":"log"})";
  EXPECT_NE(error_of(line + "\n" + line).find("'i' must grow from line to line"),
            std::string::npos);
}

TEST(JsonlTest, FilesOfWorldsOfTwoSizesAreRefused) {
  const TempFolder folder;
  write_file(folder.path() + "/a000.rank-00000.jsonl", kHeader);
  std::string other = kHeader;
  other.replace(other.find("\"ranks\":2"), 9, "\"ranks\":3");
  other.replace(other.find("\"rank\":0"), 8, "\"rank\":1");
  write_file(folder.path() + "/a000.rank-00001.jsonl", other);

  EXPECT_EQ(read_jsonl(folder.path()).error().message,
            "this file is of another run than the first one");
}

TEST(JsonlTest, RefusesFoldersThatAreNotTraces) {
  const TempFolder folder;
  EXPECT_EQ(read_jsonl(folder.path() + "/none").error().where, folder.path() + "/none");
  EXPECT_EQ(read_jsonl(folder.path()).error().message, "no trace files (*.jsonl) in this folder");

  write_file(folder.path() + "/a000.rank-00000.jsonl", kHeader);
  std::string other = kHeader;
  other.replace(other.find("r1"), 2, "r2");
  other.replace(other.find("\"rank\":0"), 8, "\"rank\":1");
  write_file(folder.path() + "/a000.rank-00001.jsonl", other);
  EXPECT_EQ(read_jsonl(folder.path()).error().message,
            "this file is of another run than the first one");
}

TEST(JsonlTest, LeavesOutALastLineThatAKillCutShort) {
  const TempFolder folder;
  const std::string good =
      R"({"rank":0,"i":0,"t":5,"at":[0,-1,-1,-1,0,0],"kind":"log","text":"x"})";
  write_file(folder.path() + "/a000.rank-00000.jsonl", kHeader + good + "\n" + good.substr(0, 30));

  const Result<LoadedTrace> loaded = read_jsonl(folder.path());

  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  EXPECT_EQ(loaded.value().trace->events(Rank{0}).size(), 1U);
  EXPECT_EQ(loaded.value().trace->n_ranks(), 2);
  ASSERT_EQ(loaded.value().notes.size(), 1U);
  EXPECT_NE(loaded.value().notes[0].find("a000.rank-00000.jsonl:3: cut short"), std::string::npos);
}

TEST(JsonlTest, WritesOneFilePerRankAndAttemptAndNoTemporaryOnes) {
  EventStream stream(2);
  stream.add(0, LogEvent{});
  stream.at(0).attempt = 1;
  stream.add(0, LogEvent{});
  const TempFolder folder;

  ASSERT_TRUE(write_jsonl(stream.trace(), {.run_id = "r"}, folder.path() + "/new").ok());

  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/new")) {
    files.push_back(entry.path().filename().string());
  }
  std::sort(files.begin(), files.end());
  EXPECT_EQ(files,
            (std::vector<std::string>{
                "a000.rank-00000.jsonl", "a000.rank-00001.jsonl", "a001.rank-00000.jsonl"}));
}

TEST(JsonlTest, ARestartMayCountItsEventsFromZeroAgain) {
  const auto write = [](std::int32_t number, const std::string& folder) {
    EventStream stream(1);
    stream.at(0).attempt = number;
    stream.add(0, LogEvent{});
    stream.add(0, LogEvent{});
    return write_jsonl(stream.trace(), {.run_id = "r"}, folder).ok();
  };
  const TempFolder folder;
  const std::string whole = folder.path() + "/whole";
  ASSERT_TRUE(write(0, whole) && write(1, folder.path() + "/second"));
  std::filesystem::copy_file(folder.path() + "/second/a001.rank-00000.jsonl",
                             whole + "/a001.rank-00000.jsonl");

  const auto loaded = read_jsonl(whole);

  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  std::vector<std::uint64_t> indices;
  std::vector<std::int32_t> attempts;
  for (const Event& event : loaded.value().trace->events(Rank{0})) {
    indices.push_back(event.index);
    attempts.push_back(event.at.attempt);
  }
  EXPECT_EQ(indices, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(attempts, (std::vector<std::int32_t>{0, 0, 1, 1}));
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(JsonlTest, ATraceTakesThePlaceOfALargerOneAndLeavesOtherFilesAlone) {
  const TempFolder folder;
  const std::vector<std::string> others = {
      "a000.rank-0.jsonl", "a1.rank-00001.jsonl.bak", "data.jsonl", "rank-00000.jsonl"};
  for (const std::string& name : others) write_file(folder.path() + "/" + name, "foreign");
  ASSERT_TRUE(write_jsonl(EventStream(3).trace(), {.run_id = "old"}, folder.path()).ok());
  ASSERT_TRUE(write_jsonl(EventStream(1).trace(), {.run_id = "new"}, folder.path()).ok());

  std::vector<std::string> expected = others;
  expected.emplace_back("a000.rank-00000.jsonl");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(folder.path()), expected);
}

TEST(JsonlTest, ATraceThatCannotBeWrittenLeavesTheOldOneWhole) {
  EventStream small(2);
  small.add(0, LogEvent{});
  EventStream large(2);
  for (int i = 0; i < 100; ++i) large.add(1, LogEvent{});
  const TempFolder folder;
  ASSERT_TRUE(write_jsonl(small.trace(), {.run_id = "old"}, folder.path()).ok());
  const std::vector<std::string> before = names_in(folder.path());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit little{.rlim_cur = 2000, .rlim_max = limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &little), 0);

  const Outcome failed = write_jsonl(large.trace(), {.run_id = "new"}, folder.path());

  ::setrlimit(RLIMIT_FSIZE, &limit);
  static_cast<void>(std::signal(SIGXFSZ, handler));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().text(),
            folder.path() + "/a000.rank-00001.jsonl: cannot write this file: File too large");
  EXPECT_EQ(names_in(folder.path()), before);
  const Result<LoadedTrace> kept = read_jsonl(folder.path());
  ASSERT_TRUE(kept.ok()) << kept.error().text();
  EXPECT_EQ(kept.value().header.run_id, "old");
}

TEST(JsonlTest, AHeaderComesBackWhole) {
  const TempFolder folder;
  const TraceHeader written{.run_id = "r1",
                            .backend = "gloo",
                            .scenario = "a.toml",
                            .scenario_digest = "00000000000000ff",
                            .n_ranks = 1,
                            .exact = true,
                            .watched = true,
                            .coverage = 4,
                            .sampled = true,
                            .library = "torch 2.15.0",
                            .clock = "monotonic a"};
  auto file = JsonlStream::open(folder.path(), written, 0, Rank{0});
  ASSERT_TRUE(file.ok() && file.value()->close().ok());
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const TraceHeader& read = loaded.value().header;
  EXPECT_EQ(read.run_id, written.run_id);
  EXPECT_EQ(read.backend, written.backend);
  EXPECT_EQ(read.scenario, written.scenario);
  EXPECT_EQ(read.scenario_digest, written.scenario_digest);
  EXPECT_EQ(read.n_ranks, written.n_ranks);
  EXPECT_EQ(read.exact, written.exact);
  EXPECT_EQ(read.watched, written.watched);
  EXPECT_EQ(read.coverage, written.coverage);
  EXPECT_EQ(read.sampled, written.sampled);
  EXPECT_EQ(read.library, written.library);
  EXPECT_EQ(read.clock, written.clock);
}

/// The clock of a trace whose two ranks name these.
std::string clock_of(const std::string& first, const std::string& second) {
  const TempFolder folder;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    TraceHeader header{.run_id = "r1", .backend = "gloo", .n_ranks = 2};
    header.clock = rank == 0 ? first : second;
    auto file = JsonlStream::open(folder.path(), header, 0, Rank{rank});
    EXPECT_TRUE(file.ok() && file.value()->close().ok());
  }
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());
  return loaded.ok() ? loaded.value().header.clock : loaded.error().text();
}

TEST(JsonlTest, RanksShareAClockOnlyIfAllNameTheSame) {
  EXPECT_EQ(clock_of("monotonic a", "monotonic a"), "monotonic a");
  EXPECT_EQ(clock_of("monotonic a", "monotonic b"), "");
  EXPECT_EQ(clock_of("monotonic a", ""), "");
}

/// A rank's file with its header and its end.
void write_rank(const std::string& folder, const std::string& run, int rank, int attempt = 0) {
  const std::string number = std::to_string(rank);
  const std::string tries = std::to_string(attempt);
  std::filesystem::create_directories(folder);
  write_file(folder + "/a00" + tries + ".rank-0000" + number + ".jsonl",
             R"({"lockstep_trace":1,"run":")" + run + R"(","attempt":)" + tries + R"(,"rank":)" +
                 number + R"(,"ranks":4,"backend":"gloo"})" + "\n" + R"({"rank":)" + number +
                 R"(,"i":)" + tries + R"(,"t":0,"at":[)" + tries +
                 R"(,-1,-1,-1,-1,0],"kind":"end","outcome":"ok","detail":""})" + "\n");
}

TEST(JsonlTest, FoldersOfOneRunWithDifferentRanksAreOneJob) {
  const TempFolder scratch;
  const std::string& root = scratch.path();
  for (const int rank : {0, 1}) write_rank(root + "/a", "r1", rank);
  for (const int rank : {2, 3}) write_rank(root + "/b", "r1", rank);
  write_rank(root + "/other_run", "r2", 2);
  write_rank(root + "/again", "r1", 1);
  write_rank(root + "/no_name", "", 0);
  write_rank(root + "/no_name_either", "", 1);
  std::vector<std::string> folders;
  for (const char* name :
       {"a", "other_run", "b", "again", "missing", "no_name", "no_name_either"}) {
    folders.push_back(root + "/" + name);
  }
  using Jobs = std::vector<std::vector<std::string>>;
  EXPECT_EQ(folders_by_job(folders),
            (Jobs{{folders[0], folders[2]},
                  {folders[1]},
                  {folders[3]},
                  {folders[4]},
                  {folders[5]},
                  {folders[6]}}));
}

TEST(JsonlTest, FoldersOfOneJobAreReadAttemptAfterAttempt) {
  const TempFolder scratch;
  const std::vector<std::string> folders = {scratch.path() + "/a", scratch.path() + "/b"};
  for (const int attempt : {0, 1}) {
    write_rank(folders[0], "r1", 3, attempt);
    write_rank(folders[1], "r1", 1, attempt);
  }
  const Result<LoadedTrace> loaded = read_jsonl(folders);
  ASSERT_TRUE(loaded.ok()) << loaded.error().text();
  const MemoryTrace& trace = *loaded.value().trace;
  EXPECT_EQ(trace.n_ranks(), 4);
  for (const int rank : {0, 1, 2, 3}) {
    EXPECT_EQ(trace.events(Rank{rank}).size(), rank % 2 == 1 ? 2U : 0U) << rank;
  }
  EXPECT_EQ(trace.events(Rank{3})[1].at.attempt, 1);
}

TEST(JsonlTest, OneRanksEventsTwiceAreRefusedWithBothPaths) {
  const TempFolder scratch;
  const std::vector<std::string> folders = {scratch.path() + "/a", scratch.path() + "/b"};
  for (const std::string& folder : folders) write_rank(folder, "r1", 1);
  const Result<LoadedTrace> loaded = read_jsonl(folders);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().where, folders[1] + "/a000.rank-00001.jsonl");
  EXPECT_EQ(loaded.error().message,
            "holds the events that " + folders[0] + "/a000.rank-00001.jsonl holds too");
}

TEST(JsonlTest, SaysWhereItCannotWrite) {
  const TempFolder folder;
  write_file(folder.path() + "/file", "");

  const Outcome outcome = write_jsonl(EventStream(1).trace(), {}, folder.path() + "/file/sub");

  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().where, folder.path() + "/file/sub");
}

}  // namespace
}  // namespace lockstep
