#include "lockstep/random/generator.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::size_t kShift = 397;  // The paper's m: distance of the word mixed in.

std::uint32_t twisted(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7fffffffU);
  return (mixed >> 1U) ^ ((0U - (low & 1U)) & 0x9908b0dfU);
}

// Byte offsets of PyTorch's CPUGeneratorImplState. Its words are stored as 64-bit integers for the
// sake of files older than the present engine.
constexpr std::size_t kSeedAt = 0;
constexpr std::size_t kLeftAt = 8;
constexpr std::size_t kSeededAt = 12;
constexpr std::size_t kNextAt = 16;
constexpr std::size_t kWordsAt = 24;
constexpr std::size_t kNormalAt = 5024;
constexpr std::size_t kNormalValidAt = 5040;

template <typename T>
T load(std::span<const std::uint8_t> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void store(std::span<std::uint8_t> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

void Generator::manual_seed(std::uint64_t seed) {
  seed_ = seed;
  left_ = 1;
  next_ = 0;
  cached_normal_.reset();
  state_[0] = static_cast<std::uint32_t>(seed & 0xffffffffU);
  for (std::uint32_t j = 1; j < kWords; ++j) {
    state_[j] = 1812433253U * (state_[j - 1] ^ (state_[j - 1] >> 30U)) + j;
  }
}

// Three loops without a modulo in them: in each, a word depends on words at least 227 places away,
// so the compiler may take eight at a time.
void Generator::twist() {
  std::uint32_t* const s = state_.data();
  constexpr std::size_t kWrap = kWords - kShift;
  for (std::size_t j = 0; j < kWrap; ++j) s[j] = s[j + kShift] ^ twisted(s[j], s[j + 1]);
  for (std::size_t j = kWrap; j < kWords - 1; ++j) s[j] = s[j - kWrap] ^ twisted(s[j], s[j + 1]);
  s[kWords - 1] = s[kShift - 1] ^ twisted(s[kWords - 1], s[0]);
  left_ = kWords;
  next_ = 0;
}

void Generator::fill(std::span<std::uint32_t> out) {
  while (!out.empty()) {
    if (left_ == 1) {
      twist();
      ++left_;  // twist() counts the draw that called it; here none was taken yet.
    }
    const std::size_t n = std::min<std::size_t>(out.size(), left_ - 1);
    const std::uint32_t* const words = state_.data() + next_;
    for (std::size_t j = 0; j < n; ++j) out[j] = tempered(words[j]);
    next_ += static_cast<std::uint32_t>(n);
    left_ -= static_cast<std::uint32_t>(n);
    out = out.subspan(n);
  }
}

std::array<std::uint8_t, Generator::kStateBytes> Generator::state() const {
  std::array<std::uint8_t, kStateBytes> bytes{};
  store(bytes, kSeedAt, seed_);
  store(bytes, kLeftAt, left_);
  store(bytes, kSeededAt, std::int32_t{1});
  store(bytes, kNextAt, std::uint64_t{next_});
  for (std::size_t j = 0; j < kWords; ++j) {
    store(bytes, kWordsAt + 8 * j, std::uint64_t{state_[j]});
  }
  store(bytes, kNormalAt, cached_normal_.value_or(0.0));
  store(bytes, kNormalValidAt, std::int32_t{cached_normal_ ? 1 : 0});
  return bytes;
}

bool Generator::set_state(std::span<const std::uint8_t> bytes) {
  if (bytes.size() != kStateBytes) return false;
  const auto left = load<std::uint32_t>(bytes, kLeftAt);
  const auto next = load<std::uint64_t>(bytes, kNextAt);
  const bool fresh = left == 1 && next == 0;
  const bool running = left >= 1 && left <= kWords && next == kWords + 1 - left;
  if (load<std::int32_t>(bytes, kSeededAt) != 1 || !(fresh || running)) return false;

  seed_ = load<std::uint64_t>(bytes, kSeedAt);
  left_ = left;
  next_ = static_cast<std::uint32_t>(next);
  for (std::size_t j = 0; j < kWords; ++j) {
    state_[j] = static_cast<std::uint32_t>(load<std::uint64_t>(bytes, kWordsAt + 8 * j));
  }
  cached_normal_.reset();
  if (load<std::int32_t>(bytes, kNormalValidAt) != 0) {
    cached_normal_ = load<double>(bytes, kNormalAt);
  }
  return true;
}

}  // namespace lockstep
