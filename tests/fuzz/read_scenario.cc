// Reads arbitrary bytes as a scenario file, with all variants that it seems to have.
#include "lockstep/harness/format/load.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  static const Folder folder;
  folder.write("scenario.toml", bytes);
  const std::string path = folder.path() + "/scenario.toml";
  const Result<std::vector<std::string>> variants = list_variants(path);
  if (!variants.ok()) return expect_a_sentence(variants.error());
  for (const std::string& variant : variants.value()) {
    const Result<Scenario> scenario = load_scenario(path, variant, {});
    if (!scenario.ok()) expect_a_sentence(scenario.error());
  }
  const Outcome others = check_other_variants(path, "");
  if (!others.ok()) expect_a_sentence(others.error());
}

}  // namespace lockstep::fuzz
