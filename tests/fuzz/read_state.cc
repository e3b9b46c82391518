// Reads arbitrary bytes as safetensors or as a file of torch.save, and writes what it could read.
#include "lockstep/base/check.h"
#include "lockstep/formats/state_file.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  const Result<StateFile> state = parse_state(bytes, "file");
  if (!state.ok()) return expect_a_sentence(state.error());
  for (const StoredTensor& tensor : state.value().tensors) {
    std::int64_t n = size_of(tensor.type);
    for (const std::int64_t size : tensor.sizes) n *= size;
    LOCKSTEP_CHECK(n == static_cast<std::int64_t>(tensor.bytes.size()),
                   "sizes are those of the bytes");
  }
  (void)render_torch(state.value());
  (void)render_safetensors(state.value());
}

}  // namespace lockstep::fuzz
