// Reads arbitrary bytes as a reproduction, and writes its table again where it could be read.
#include "lockstep/base/check.h"
#include "lockstep/harness/format/load.h"
#include "lockstep/harness/format/replay.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  static const Folder folder;
  folder.write("repro.toml", bytes);
  const std::string path = folder.path() + "/repro.toml";
  const Result<Replay> replay = load_replay(path);
  if (!replay.ok()) return expect_a_sentence(replay.error());
  const Result<Scenario> scenario = load_scenario(path, replay.value().variant, {});
  if (!scenario.ok()) expect_a_sentence(scenario.error());

  folder.write("again.toml", with_replay("format = 1\n", replay.value()));
  const Result<Replay> again = load_replay(folder.path() + "/again.toml");
  LOCKSTEP_CHECK(again.ok(), "what was written can be read");
  LOCKSTEP_CHECK(again.value().schedule == replay.value().schedule &&
                     again.value().settings == replay.value().settings &&
                     again.value().trace_digest == replay.value().trace_digest,
                 "what was written is what was read");
}

}  // namespace lockstep::fuzz
