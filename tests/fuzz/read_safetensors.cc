// Reads arbitrary bytes as the part of a snapshot, and writes what it could read: that reads the same.
#include "lockstep/base/check.h"
#include "lockstep/formats/safetensors.h"

#include "tests/fuzz/fuzz.h"
#include "tests/support/plain_runtime.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  testing::PlainRuntime plain;
  const Result<SafeTensors> contents = parse_safetensors(plain, bytes);
  if (!contents.ok()) return expect_a_sentence(contents.error());
  const std::string text = render_safetensors(contents.value());
  const Result<SafeTensors> again = parse_safetensors(plain, text);
  LOCKSTEP_CHECK(again.ok(), "what was written can be read");
  LOCKSTEP_CHECK(render_safetensors(again.value()) == text, "equal contents give equal bytes");
}

}  // namespace lockstep::fuzz
