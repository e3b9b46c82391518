// Reads arbitrary bytes as a dump of PyTorch's Flight Recorder: JSON or a pickle.
#include <array>

#include "lockstep/formats/flight_recorder.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  static const Folder folder;
  folder.write("dump_0", bytes);
  const std::array<std::string, 1> files = {folder.path() + "/dump_0"};
  const Result<LoadedTrace> loaded = read_flight_recorder(files);
  if (!loaded.ok()) return expect_a_sentence(loaded.error());
  const auto dumps = render_flight_recorder(*loaded.value().trace, loaded.value().header);
  if (!dumps.ok()) expect_a_sentence(dumps.error());
}

}  // namespace lockstep::fuzz
