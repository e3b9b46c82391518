#include "tests/gpu/nccl/emulation/ring_steps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "lockstep/base/half.h"

namespace lockstep::testing {

namespace {

using nccl::RedOp;
using nccl::Type;

// `value` with `precision` significant bits, ties to even, subnormals in units of 2^smallest.
long double rounded(long double value, int precision, int smallest) {
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const int unit = std::max(exponent - precision, smallest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

/// An element type: how it is stored, and arithmetic that rounds once.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;

  static Value load(Stored stored) { return stored; }

  static Stored store(Value value) { return value; }

  static Value scaled(Value x, double factor) { return static_cast<T>(x * static_cast<T>(factor)); }

  static Value fused(Value x, double factor, Value sum) {
    return static_cast<T>(std::fma(x, static_cast<T>(factor), sum));
  }

  static Value sum(Value a, Value b) {
    if constexpr (std::is_floating_point_v<T>) return a + b;
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  static Value product(Value a, Value b) {
    if constexpr (std::is_floating_point_v<T>) return a * b;
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
};

/// f16 and bf16: every operation exactly, then rounded.
template <int kPrecision, int kSmallest, bool kBrain>
struct Narrow {
  using Stored = std::uint16_t;
  using Value = long double;

  static Value load(Stored stored) { return kBrain ? from_bf16(stored) : from_f16(stored); }

  static Stored store(Value value) {
    const auto narrow = static_cast<float>(rounded(value, kPrecision, kSmallest));
    return kBrain ? to_bf16(narrow) : to_f16(narrow);
  }

  static Value back(Value value) { return load(store(value)); }

  static Value scaled(Value x, double factor) { return back(x * back(static_cast<float>(factor))); }

  static Value fused(Value x, double factor, Value sum) {
    return back(x * back(static_cast<float>(factor)) + sum);
  }

  static Value sum(Value a, Value b) { return back(a + b); }

  static Value product(Value a, Value b) { return back(a * b); }
};

using Half = Narrow<11, -24, false>;
using Brain = Narrow<8, -133, true>;

template <typename Element>
class Steps {
 public:
  using Stored = typename Element::Stored;
  using Value = typename Element::Value;
  using Chunk = std::vector<Stored>;

  explicit Steps(const RingJob& job) : job_(&job), n_(job.ranks.size()), mail_(n_), place_(n_) {
    for (std::size_t at = 0; at < n_; ++at) place_[static_cast<std::size_t>(job.ring[at])] = at;
  }

  // In every loop, each place sends a chunk around the ring twice: n - 1 hops add, n - 1 copy.
  void all_reduce() {
    const std::size_t largest = (std::size_t{2} << 20) / sizeof(Stored);
    std::size_t begin = 0;
    while (begin < job_->count) {
      const std::size_t left = job_->count - begin;
      const std::size_t grain = 16 / sizeof(Stored);
      const std::size_t share = ((left + n_ - 1) / n_ + grain - 1) / grain * grain;
      const std::size_t chunk = std::min(largest, share);
      loop(begin, chunk);
      begin += n_ * chunk;
    }
  }

  void reduce(std::int32_t root) {
    const std::size_t last = place_[static_cast<std::size_t>(root)];
    for (std::size_t k = 1; k <= n_; ++k) {
      const std::size_t at = (last + k) % n_;
      Chunk sum = k == 1 ? first(at, 0, job_->count) : joined(at, 0, job_->count);
      if (k == n_) {
        write(at, 0, finished(at, std::move(sum)));
      } else {
        mail_[(at + 1) % n_] = std::move(sum);
      }
    }
  }

  // ExecutionTarget p's chunk in step j is the part of the rank that stands j places before it.
  void reduce_scatter() {
    for (std::size_t step = 0; step < n_; ++step) {
      std::vector<Chunk> sent(n_);
      for (std::size_t at = 0; at < n_; ++at) {
        const std::size_t owner = (at + 2 * n_ - 1 - step) % n_;
        const std::size_t part = static_cast<std::size_t>(job_->ring[owner]) * job_->count;
        Chunk sum = step == 0 ? first(at, part, job_->count) : joined(at, part, job_->count);
        if (step + 1 == n_) {
          write(at, 0, finished(at, std::move(sum)));
        } else {
          sent[(at + 1) % n_] = std::move(sum);
        }
      }
      mail_ = std::move(sent);
    }
  }

 private:
  void loop(std::size_t begin, std::size_t chunk) {
    const auto range = [&](std::size_t c) {
      const std::size_t start = std::min(begin + c * chunk, job_->count);
      return std::pair(start, std::min(chunk, job_->count - start));
    };
    for (std::size_t step = 0; step + 1 < 2 * n_; ++step) {
      std::vector<Chunk> sent(n_);
      for (std::size_t at = 0; at < n_; ++at) {
        const auto [start, length] = range((at + 2 * n_ - 1 - step) % n_);
        Chunk data;
        if (step == 0) {
          data = first(at, start, length);
        } else if (step < n_) {
          data = joined(at, start, length);
        } else {
          data = std::move(mail_[at]);
        }
        if (step + 1 == n_) data = finished(at, std::move(data));
        if (step + 1 >= n_) write(at, start, data);
        sent[(at + 1) % n_] = std::move(data);
      }
      mail_ = std::move(sent);
    }
  }

  const RingRank& rank_at(std::size_t place) const {
    return job_->ranks[static_cast<std::size_t>(job_->ring[place])];
  }

  std::span<const Stored> input(std::size_t place, std::size_t start, std::size_t length) const {
    return {static_cast<const Stored*>(rank_at(place).send) + start, length};
  }

  bool scales(const RingRank& rank) const {
    constexpr bool kFloating = !std::is_integral_v<Value>;
    return rank.premultiplies || (kFloating && rank.op == RedOp::kAvg);
  }

  double factor_of(const RingRank& rank) const {
    return rank.premultiplies ? rank.factor : 1.0 / static_cast<double>(n_);
  }

  Chunk first(std::size_t place, std::size_t start, std::size_t length) const {
    const RingRank& rank = rank_at(place);
    const auto own = input(place, start, length);
    Chunk chunk(own.begin(), own.end());
    if (!scales(rank)) return chunk;
    for (Stored& x : chunk) {
      x = Element::store(Element::scaled(Element::load(x), factor_of(rank)));
    }
    return chunk;
  }

  // What came in the mail and this place's own, element by element.
  Chunk joined(std::size_t place, std::size_t start, std::size_t length) {
    const RingRank& rank = rank_at(place);
    const auto own = input(place, start, length);
    Chunk sum = std::move(mail_[place]);
    for (std::size_t i = 0; i < length; ++i) {
      sum[i] = Element::store(join(rank, Element::load(own[i]), Element::load(sum[i])));
    }
    return sum;
  }

  Value join(const RingRank& rank, Value own, Value sum) const {
    if (scales(rank)) return Element::fused(own, factor_of(rank), sum);
    switch (rank.op) {
      case RedOp::kProd:
        return Element::product(sum, own);
      case RedOp::kMax:
        return std::max(sum, own);
      case RedOp::kMin:
        return std::min(sum, own);
      default:
        return Element::sum(sum, own);
    }
  }

  // Averages of integers are divided where the sum is whole.
  Chunk finished(std::size_t place, Chunk sum) const {
    if constexpr (std::is_integral_v<Value>) {
      if (rank_at(place).op == RedOp::kAvg && !rank_at(place).premultiplies) {
        for (Stored& x : sum) x = static_cast<Stored>(x / static_cast<Stored>(n_));
      }
    }
    return sum;
  }

  void write(std::size_t place, std::size_t start, const Chunk& data) const {
    if (data.empty()) return;
    std::memcpy(static_cast<Stored*>(rank_at(place).recv) + start,
                data.data(),
                data.size() * sizeof(Stored));
  }

  const RingJob* job_;
  std::size_t n_;
  std::vector<Chunk> mail_;  // By place: what the one before sent.
  std::vector<std::size_t> place_;
};

template <typename Run>
void with_element(Type type, const RingJob& job, const Run& run) {
  switch (type) {
    case Type::kI8:
      return run(Steps<Plain<std::int8_t>>(job));
    case Type::kU8:
      return run(Steps<Plain<std::uint8_t>>(job));
    case Type::kI32:
      return run(Steps<Plain<std::int32_t>>(job));
    case Type::kI64:
      return run(Steps<Plain<std::int64_t>>(job));
    case Type::kF16:
      return run(Steps<Half>(job));
    case Type::kBF16:
      return run(Steps<Brain>(job));
    case Type::kF32:
      return run(Steps<Plain<float>>(job));
    case Type::kF64:
      return run(Steps<Plain<double>>(job));
  }
}

}  // namespace

std::size_t size_of(Type type) {
  switch (type) {
    case Type::kI8:
    case Type::kU8:
      return 1;
    case Type::kF16:
    case Type::kBF16:
      return 2;
    case Type::kI32:
    case Type::kF32:
      return 4;
    case Type::kI64:
    case Type::kF64:
      return 8;
  }
  return 0;
}

void ring_all_reduce(const RingJob& job) {
  with_element(job.type, job, [](auto&& steps) { steps.all_reduce(); });
}

void ring_reduce(const RingJob& job, std::int32_t root) {
  with_element(job.type, job, [root](auto&& steps) { steps.reduce(root); });
}

void ring_reduce_scatter(const RingJob& job) {
  with_element(job.type, job, [](auto&& steps) { steps.reduce_scatter(); });
}

}  // namespace lockstep::testing
