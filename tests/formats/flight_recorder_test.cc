// Dumps of PyTorch's Flight Recorder, as its sources of version 2.15 describe them, written by hand.
#include "lockstep/formats/flight_recorder.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/calls.h"
#include "tests/support/temp_folder.h"

namespace lockstep {
namespace {

using testing::TempFolder;

/// One rank's dump of a world of two: its last call ended, as the backend says of the group.
struct Dump {
  std::string rank;
  std::vector<std::string> calls;  ///< "gloo:all_reduce", "nccl:send 0->1".
  std::int64_t n_overwritten = 0;
  std::int64_t last_completed = -1;
};

std::string entry(const Dump& dump, std::size_t i) {
  const std::string& call = dump.calls[i];
  const bool is_message = call.find("send") != std::string::npos ||  //
                          call.find("recv") != std::string::npos;
  return fmt::format(
      R"({{"record_id": {}, "pg_id": 0, "process_group": ["0", "default_pg"],
          "collective_seq_id": {}, "profiling_name": "{}", "time_created_ns": {},
          "input_sizes": [[4]], "input_dtypes": ["Float"],
          "output_sizes": [[4]], "output_dtypes": ["Float"],
          "state": "scheduled", "retired": false, "is_p2p": {}}})",
      dump.n_overwritten + static_cast<std::int64_t>(i),
      i + 1,
      call,
      1000 * (i + 1),
      is_message);
}

std::string json(const Dump& dump) {
  std::string entries;
  for (std::size_t i = 0; i < dump.calls.size(); ++i) {
    entries += (i == 0 ? "" : ",\n") + entry(dump, i);
  }
  return fmt::format(
      R"({{"version": "2.15", "comm_lib_version": "2.28.9",
          "pg_config": {{"0": {{"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}}},
          "pg_status": {{"0": {{"last_completed_collective": {}}}}},
          "entries": [{}]}})",
      dump.last_completed,
      entries);
}

LoadedTrace loaded(const std::vector<Dump>& dumps) {
  const TempFolder folder;
  std::vector<std::string> files;
  for (const Dump& dump : dumps) {
    files.push_back(folder.path() + "/dump_" + dump.rank);
    std::ofstream(files.back()) << json(dump);
  }
  Result<LoadedTrace> trace = read_flight_recorder(files);
  EXPECT_TRUE(trace.ok()) << trace.error().text();
  return std::move(trace).value();
}

EndOutcome end_of(const LoadedTrace& loaded, std::int32_t rank) {
  return std::get<EndEvent>(loaded.trace->events(Rank{rank}).back().body).outcome;
}

std::size_t n_messages(const LoadedTrace& loaded) {
  std::size_t n = 0;
  for (const std::int32_t rank : {0, 1}) {
    for (const Event& event : loaded.trace->events(Rank{rank})) {
      const auto* call = std::get_if<CollectiveEvent>(&event.body);
      n += call != nullptr && (call->signature.op == CollectiveOp::kSend ||
                               call->signature.op == CollectiveOp::kRecv)
               ? 1U
               : 0U;
    }
  }
  return n;
}

// Gloo times no call: all of them stay "scheduled", and only the group's status says what ended.
TEST(FlightRecorderTest, CallsUpToTheLastCompletedOneHaveEnded) {
  const std::vector<std::string> two = {"gloo:all_reduce", "gloo:all_reduce"};
  for (const std::int64_t last : {1, 2}) {
    const LoadedTrace trace = loaded({{"0", two, 0, last}, {"1", two, 0, last}});
    const EndOutcome expected = last == 2 ? EndOutcome::kOk : EndOutcome::kStuck;
    EXPECT_EQ(end_of(trace, 0), expected) << last;
    EXPECT_EQ(end_of(trace, 1), expected) << last;
  }
}

// Both ranks post two calls; of the second one no rank sees the end, or each sees it fail, or succeed.
TEST(FlightRecorderTest, OnlyCallsThatSucceededAreExportedAsCompleted) {
  enum class Last { kOpen, kFailed, kOk };
  for (const Last last : {Last::kOpen, Last::kFailed, Last::kOk}) {
    testing::Calls calls(2);
    for (const std::int32_t rank : {0, 1}) {
      CollectiveEvent event = calls.make(CollectiveOp::kAllReduce, 40);
      calls.post(rank, event);
      calls.post(rank, event, last == Last::kOk);
      event.seq = 1;
      event.phase = CollectivePhase::kFailed;
      event.status = CallStatus::kTimedOut;
      if (last == Last::kFailed) calls.stream.add(rank, event);
    }
    const TempFolder folder;
    std::vector<std::string> files;
    const auto rendered = render_flight_recorder(calls.stream.trace(), {.n_ranks = 2});
    for (const FlightFile& file : rendered.value()) {
      files.push_back(folder.path() + "/" + file.name);
      std::ofstream(files.back()) << file.bytes;
    }
    const Result<LoadedTrace> read = read_flight_recorder(files);
    ASSERT_TRUE(read.ok()) << read.error().text();
    const EndOutcome expected = last == Last::kOk ? EndOutcome::kOk : EndOutcome::kStuck;
    for (const std::int32_t rank : {0, 1}) EXPECT_EQ(end_of(read.value(), rank), expected);
  }
}

// Their size grows with the square of the world, which a trace of one line may call as large as it likes.
TEST(FlightRecorderTest, DumpsOfMoreRanksThanTheirFilesCanNameAreNotExported) {
  testing::Calls calls(1);
  calls.post(0, calls.make(CollectiveOp::kAllReduce, 40));
  const MemoryTrace& trace = calls.stream.trace();
  EXPECT_EQ(render_flight_recorder(trace, {.n_ranks = 4096}).value().size(), 1U);
  EXPECT_EQ(
      render_flight_recorder(trace, {.n_ranks = 4097}).error().text(),
      "dumps of 4097 ranks, each of which names all ranks, would be too large; the most are 4096");
}

TEST(FlightRecorderTest, ARefusalThatQuotesTheDumpIsOneLineAPersonCanRead) {
  const TempFolder folder;
  const std::vector<std::string> files{folder.path() + "/dump_0"};
  std::ofstream(files[0]) << R"({"version": "3\n\u001b]0;x", "entries": []})";
  const Result<LoadedTrace> trace = read_flight_recorder(files);
  ASSERT_FALSE(trace.ok());
  EXPECT_EQ(trace.error().text(), files[0] + ":1:2: unknown version '3\\n\\x1b]0;x', not 2.x");
}

TEST(FlightRecorderTest, MessagesAreLeftOutWhereOlderCallsWereOverwritten) {
  for (const std::int64_t n_overwritten : {0, 3}) {
    const LoadedTrace trace =
        loaded({{"0", {"nccl:send 0->1"}, n_overwritten, -1}, {"1", {"nccl:recv 1<-0"}, 0, -1}});
    EXPECT_EQ(n_messages(trace) > 0, n_overwritten == 0);
    const bool is_noted = std::ranges::any_of(trace.notes, [](const std::string& note) {
      return note.find("messages are left out") != std::string::npos;
    });
    EXPECT_EQ(is_noted, n_overwritten > 0);
  }
}

}  // namespace
}  // namespace lockstep
