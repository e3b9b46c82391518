// Reads arbitrary bytes as a folder with one trace file, and judges what it could read.
#include "lockstep/formats/jsonl.h"
#include "lockstep/laws/trace_check.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  static const Folder folder;
  folder.write("a000.rank-00000.jsonl", bytes);
  const Result<LoadedTrace> loaded = read_jsonl(folder.path());
  if (!loaded.ok()) return expect_a_sentence(loaded.error());
  // Worlds larger than this are a matter of time and memory, not of what is in the file.
  constexpr std::int32_t kMostRanks = 64;
  if (loaded.value().header.n_ranks > kMostRanks) return;
  const Result<Report> report = check_trace(loaded.value(), {}, {});
  if (report.ok()) (void)render_json(report.value());
}

}  // namespace lockstep::fuzz
