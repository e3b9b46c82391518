#include "lockstep/hooks/generator_state.h"

#include <cstring>
#include <span>
#include <stdexcept>

namespace lockstep {

Tensor state_of(const Generator& generator, Runtime& runtime) {
  const auto bytes = generator.state();
  Tensor state = Tensor::empty(runtime, {std::ssize(bytes)}, DType::kU8);
  std::memcpy(state.write_raw(), bytes.data(), bytes.size());
  return state;
}

void load_state(Generator& generator, const Tensor& state) {
  const std::span bytes(static_cast<const std::uint8_t*>(state.read_raw()),
                        static_cast<std::size_t>(state.n_bytes()));
  if (!generator.set_state(bytes)) {
    throw std::invalid_argument("these bytes are not the state of a generator");
  }
}

}  // namespace lockstep
