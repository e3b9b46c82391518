#include "lockstep/crosscheck/bit_flip.h"

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

class Flip final : public LoopHook, private GradHook {
 public:
  explicit Flip(BitFlip flip) : flip_(std::move(flip)) {}

  Flip(const Flip&) = delete;
  Flip& operator=(const Flip&) = delete;
  Flip(Flip&&) = delete;
  Flip& operator=(Flip&&) = delete;
  ~Flip() override = default;

  void before(LoopPoint point, LoopState& state) override {
    // A hook that is older than the wrapper's comes before it.
    if (point == LoopPoint::kWrap) watch(*state.model);
    if (point == LoopPoint::kBackward) active_ = state.step == flip_.step && state.micro == 0;
  }

  void after(LoopPoint point, LoopState& /*state*/) override {
    if (point == LoopPoint::kBackward) active_ = false;
  }

 private:
  void watch(nn::Module& model) {
    for (const NamedVariable& named : model.named_parameters()) {
      if (named.name != flip_.tensor) continue;
      named.variable.add_hook(*this, 0);
      return;
    }
    LOCKSTEP_CHECK(false, "the model has no parameter '" + flip_.tensor + "'");
  }

  void on_grad_increment(std::size_t /*index*/, const Tensor& increment) override {
    if (!active_ || !increment.defined() || increment.n_elems() == 0) return;
    auto* lowest = static_cast<std::uint8_t*>(increment.raw());  // Little-endian.
    *lowest = static_cast<std::uint8_t>(*lowest ^ 1U);
    active_ = false;
  }

  void on_grad_ready(std::size_t /*index*/) override {}

  BitFlip flip_;
  bool active_ = false;
};

}  // namespace

Result<BitFlip> parse_bit_flip(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, ':');
  const auto rank = parse_int(parts[0]);
  const auto step = parts.size() == 3 ? parse_int(parts[1]) : std::nullopt;
  if (!rank || !step || parts[2].empty()) {
    return Error{"'" + std::string(text) + "' is no bit; write RANK:STEP:TENSOR", {}};
  }
  return BitFlip{static_cast<std::int32_t>(*rank), *step, std::string(parts[2])};
}

std::unique_ptr<LoopHook> make_bit_flip(const BitFlip& flip) {
  return std::make_unique<Flip>(flip);
}

}  // namespace lockstep
