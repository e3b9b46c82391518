#include "lockstep/harness/crosscheck/collective_cases.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "lockstep/base/check.h"
#include "lockstep/comm/detail/scaled_sum.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

using Data = CollectiveCase::Data;

constexpr std::int32_t kRoot = 0;
constexpr double kFactor = 0.3;  // Of premultiplied sums.

std::uint64_t seed_of(const std::string& name, std::int32_t rank) {
  std::uint64_t hash = 0;
  for (const char c : name) hash = mix64(hash + kGolden64 + static_cast<unsigned char>(c));
  return mix64(hash + kGolden64 + static_cast<std::uint64_t>(rank));
}

double value_of(CollectiveCase::Data data, std::uint64_t hash, std::int32_t rank) {
  switch (data) {
    case Data::kExact:
      return static_cast<double>(1 + hash % 2);  // Also products of eight ranks stay exact.
    case Data::kRough: {
      const double fraction = static_cast<double>(hash >> 11U) * 0x1p-53 - 0.5;
      return std::ldexp(fraction, static_cast<int>(hash % 9) - 4);
    }
    case Data::kProbe: {
      constexpr std::array<double, 3> kValues = {4.0, 1.0, 6.0};
      return kValues[static_cast<std::size_t>(rank % 3)];
    }
  }
  return 0.0;
}

/// What `rank` puts in.
Tensor input_of(Runtime& runtime, const CollectiveCase& one, std::int32_t rank, std::int64_t n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  const std::uint64_t seed = seed_of(one.name, rank);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = value_of(one.data, mix64(seed + kGolden64 + i), rank);
  }
  return Tensor::of(runtime, {n}, one.dtype, values);
}

std::uint64_t digest_of(const Tensor& tensor) {
  return sm64(tensor.raw(), tensor.n_elems(), tensor.dtype());
}

bool takes_parts(CollectiveOp op) {
  return op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllToAll;
}

bool reduces(CollectiveOp op) {
  return op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
         op == CollectiveOp::kReduceScatter;
}

bool scales(ReduceOp op) { return op == ReduceOp::kAvg || op == ReduceOp::kPremulSum; }

void add(std::vector<CollectiveCase>& cases, CollectiveCase one) {
  constexpr std::array<std::string_view, 3> kData = {"exact", "rough", "probe"};
  one.name = std::string(name_of(one.op));
  if (reduces(one.op)) one.name += " " + std::string(name_of(one.reduce));
  one.name += " " + std::string(name_of(one.dtype)) + " " + std::to_string(one.count) + " " +
              std::string(kData[static_cast<std::size_t>(one.data)]);
  cases.push_back(std::move(one));
}

constexpr std::array<DType, 8> kTypes = {DType::kF32,
                                         DType::kF64,
                                         DType::kF16,
                                         DType::kBF16,
                                         DType::kI8,
                                         DType::kU8,
                                         DType::kI32,
                                         DType::kI64};

// Every operation that the type has, with counts around a ring's smallest pieces.
void add_all_reduces_of(DType dtype, std::vector<CollectiveCase>& cases) {
  for (const ReduceOp op : {ReduceOp::kSum,
                            ReduceOp::kProduct,
                            ReduceOp::kMin,
                            ReduceOp::kMax,
                            ReduceOp::kAvg,
                            ReduceOp::kPremulSum}) {
    if (op == ReduceOp::kPremulSum && !is_floating(dtype)) continue;
    const bool rounds = is_floating(dtype) && (op == ReduceOp::kSum || scales(op));
    for (const std::int64_t count : {1, 3, 4097}) {
      add(cases,
          {{}, CollectiveOp::kAllReduce, op, dtype, count, rounds ? Data::kRough : Data::kExact});
    }
  }
}

void add_all_reduces(std::vector<CollectiveCase>& cases) {
  for (const DType dtype : kTypes) add_all_reduces_of(dtype, cases);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    add(cases, {{}, CollectiveOp::kAllReduce, ReduceOp::kAvg, dtype, 1, Data::kProbe});
  }
  // More than one loop of a ring of three.
  constexpr std::int64_t kLong = (std::int64_t{1} << 21) + 1234;
  add(cases, {{}, CollectiveOp::kAllReduce, ReduceOp::kSum, DType::kF32, kLong, Data::kRough});
}

Tensor converted(const Tensor& tensor, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(tensor.n_elems()));
  for (std::int64_t i = 0; i < tensor.n_elems(); ++i) {
    values[static_cast<std::size_t>(i)] = tensor.at(i);
  }
  return Tensor::of(tensor.runtime(), {tensor.n_elems()}, dtype, values);
}

Tensor scaled(const Tensor& tensor, double factor) {
  const double rounded = detail::rounded_factor(factor, tensor.dtype());
  Tensor out = Tensor::zeros(tensor.runtime(), {tensor.n_elems()}, tensor.dtype());
  detail::scale(out.raw(), tensor.raw(), rounded, tensor.n_elems(), tensor.dtype());
  return out;
}

/// What `rank` holds afterwards.
void reduce_into(Tensor& out,
                 const CollectiveCase& one,
                 std::span<const Tensor> inputs,
                 std::int32_t rank,
                 const ReductionOrder& order) {
  const bool scatters = one.op == CollectiveOp::kReduceScatter;
  const std::int64_t offset = scatters ? rank * one.count : 0;
  std::vector<const void*> pointers;
  pointers.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    pointers.push_back(static_cast<const std::byte*>(input.raw()) + offset * size_of(one.dtype));
  }
  RankReduction job;
  void* const result = out.raw();
  job.outputs = std::span<void* const>(&result, 1);
  job.inputs = pointers;
  job.count = one.count;
  job.dtype = one.dtype;
  job.op = one.reduce;
  job.premul = kFactor;
  if (one.op != CollectiveOp::kAllReduce) job.last = scatters ? rank : kRoot;
  if (scatters) {
    job.offset = offset;
    job.total = one.count * static_cast<std::int64_t>(inputs.size());
  }
  reduce_in_order(out.runtime().kernels(), job, order);
}

// Rules that NCCL's own arithmetic is not, by way of it: what they round beforehand or afterwards.
void reduce_by(Tensor& out,
               CollectiveCase one,
               std::vector<Tensor> inputs,
               std::int32_t rank,
               const SummingRule& rule) {
  if (rule.rounding == SummingRule::Rounding::kNotFused && scales(one.reduce)) {
    const double n = static_cast<double>(inputs.size());
    const double factor = one.reduce == ReduceOp::kAvg ? 1.0 / n : kFactor;
    for (Tensor& input : inputs) input = scaled(input, factor);
    one.reduce = ReduceOp::kSum;
  }
  if (rule.rounding != SummingRule::Rounding::kWide) {
    return reduce_into(out, one, inputs, rank, rule.order);
  }
  const DType narrow = one.dtype;
  one.dtype = DType::kF32;
  for (Tensor& input : inputs) input = converted(input, DType::kF32);
  Tensor wide = Tensor::zeros(out.runtime(), {one.count}, DType::kF32);
  reduce_into(wide, one, inputs, rank, rule.order);
  out = converted(wide, narrow);
}

// Whether the rule says anything else than NCCL's own about this case.
bool concerns(const SummingRule& rule, const CollectiveCase& one) {
  const bool narrow = one.dtype == DType::kF16 || one.dtype == DType::kBF16;
  switch (rule.rounding) {
    case SummingRule::Rounding::kNotFused:
      return reduces(one.op) && scales(one.reduce) && is_floating(one.dtype);
    case SummingRule::Rounding::kWide:
      return reduces(one.op) && narrow;
    case SummingRule::Rounding::kNccl:
      return true;
  }
  return true;
}

void copy_part(Tensor& out, std::int64_t to, const Tensor& in, std::int64_t from, std::int64_t n) {
  const auto size = size_of(out.dtype());
  std::memcpy(static_cast<std::byte*>(out.raw()) + to * size,
              static_cast<const std::byte*>(in.raw()) + from * size,
              static_cast<std::size_t>(n * size));
}

}  // namespace

std::vector<CollectiveCase> collective_cases() {
  std::vector<CollectiveCase> cases;
  add_all_reduces(cases);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const CollectiveOp op : {CollectiveOp::kReduce, CollectiveOp::kReduceScatter}) {
      for (const std::int64_t count : {1, 4097}) {
        add(cases, {{}, op, ReduceOp::kSum, dtype, count, Data::kRough});
      }
    }
  }
  for (const CollectiveOp op :
       {CollectiveOp::kBroadcast, CollectiveOp::kAllGather, CollectiveOp::kAllToAll}) {
    for (const std::int64_t count : {0, 1, 4097}) {
      add(cases, {{}, op, ReduceOp::kSum, DType::kF32, count, Data::kRough});
    }
  }
  return cases;
}

std::vector<CollectiveCase> sized_cases() {
  constexpr std::int64_t kOdd = 5;  // No multiple of a chunk, of a rank's part or of 16 bytes.
  std::vector<CollectiveCase> cases;
  for (const int power : {0, 4, 8, 12, 14, 15, 16, 17, 18, 20, 22, 24}) {
    const std::int64_t count = std::int64_t{1} << power;
    add(cases, {{}, CollectiveOp::kAllReduce, ReduceOp::kSum, DType::kF32, count, Data::kRough});
    if (power == 24) continue;
    add(cases,
        {{}, CollectiveOp::kAllReduce, ReduceOp::kSum, DType::kF32, count + kOdd, Data::kRough});
  }
  constexpr std::int64_t kHalves = (std::int64_t{1} << 20) + kOdd;
  add(cases, {{}, CollectiveOp::kAllReduce, ReduceOp::kSum, DType::kF16, kHalves, Data::kRough});
  return cases;
}

std::uint64_t run_case(ProcessGroup& group, const CollectiveCase& one) {
  Runtime& runtime = group.runtime();
  const std::int64_t n_in = one.count * (takes_parts(one.op) ? group.size() : 1);
  const bool spreads = one.op == CollectiveOp::kAllGather || one.op == CollectiveOp::kAllToAll;
  const Tensor in = input_of(runtime, one, group.rank(), n_in);
  const Tensor out = Tensor::zeros(runtime, {one.count * (spreads ? group.size() : 1)}, one.dtype);
  const OpOptions options{.premul = kFactor};
  switch (one.op) {
    case CollectiveOp::kAllReduce:
      group.all_reduce(Memory::of(in), one.reduce, options).wait_or_throw();
      return digest_of(in);
    case CollectiveOp::kReduce:
      group.reduce(Memory::of(in), kRoot, one.reduce, options).wait_or_throw();
      return group.rank() == kRoot ? digest_of(in) : 0;
    case CollectiveOp::kBroadcast:
      group.broadcast(Memory::of(in), kRoot).wait_or_throw();
      return digest_of(in);
    case CollectiveOp::kReduceScatter:
      group.reduce_scatter_tensor(Memory::of(out), Memory::of(in), one.reduce, options)
          .wait_or_throw();
      return digest_of(out);
    case CollectiveOp::kAllGather:
      group.all_gather_into_tensor(Memory::of(out), Memory::of(in)).wait_or_throw();
      return digest_of(out);
    case CollectiveOp::kAllToAll:
      group.all_to_all_single(Memory::of(out), Memory::of(in)).wait_or_throw();
      return digest_of(out);
    default:
      break;
  }
  LOCKSTEP_CHECK(false, "a case is one of these operations");
  return 0;
}

namespace {

/// What all ranks put in.
std::vector<Tensor> inputs_of(Runtime& runtime, const CollectiveCase& one, std::int32_t n_ranks) {
  std::vector<Tensor> inputs;
  inputs.reserve(static_cast<std::size_t>(n_ranks));
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    inputs.push_back(input_of(runtime, one, r, one.count * (takes_parts(one.op) ? n_ranks : 1)));
  }
  return inputs;
}

std::uint64_t digest_after(const CollectiveCase& one,
                           std::vector<Tensor> inputs,
                           std::int32_t rank,
                           const SummingRule& rule) {
  if (one.op == CollectiveOp::kReduce && rank != kRoot) return 0;
  const auto n_ranks = static_cast<std::int32_t>(inputs.size());
  Runtime& runtime = inputs.front().runtime();
  if (one.op == CollectiveOp::kBroadcast) return digest_of(inputs[kRoot]);
  if (reduces(one.op)) {
    Tensor out = Tensor::zeros(runtime, {one.count}, one.dtype);
    reduce_by(out, one, std::move(inputs), rank, rule);
    return digest_of(out);
  }
  Tensor out = Tensor::zeros(runtime, {one.count * n_ranks}, one.dtype);
  const std::int64_t from = one.op == CollectiveOp::kAllToAll ? rank * one.count : 0;
  for (std::int32_t r = 0; r < n_ranks; ++r) {
    copy_part(out, r * one.count, inputs[static_cast<std::size_t>(r)], from, one.count);
  }
  return digest_of(out);
}

}  // namespace

std::uint64_t expected_digest(Runtime& runtime,
                              const CollectiveCase& one,
                              std::int32_t rank,
                              std::int32_t n_ranks,
                              const SummingRule& rule) {
  return digest_after(one, inputs_of(runtime, one, n_ranks), rank, rule);
}

std::string name_of(const SummingRule& rule) {
  std::string name(rule.order.name());
  if (rule.rounding == SummingRule::Rounding::kNotFused) name += ", not fused";
  if (rule.rounding == SummingRule::Rounding::kWide) name += ", f32 sums";
  return name;
}

std::string rule_of_digests(Runtime& runtime,
                            const CollectiveCase& one,
                            std::span<const std::uint64_t> by_rank,
                            std::span<const SummingRule> rules) {
  const auto n_ranks = static_cast<std::int32_t>(by_rank.size());
  // After an all-reduce all ranks hold the same, so one is computed.
  const bool alike = one.op == CollectiveOp::kAllReduce || one.op == CollectiveOp::kBroadcast;
  if (alike && !std::all_of(by_rank.begin(), by_rank.end(), [&](std::uint64_t digest) {
        return digest == by_rank.front();
      })) {
    return {};
  }
  const std::vector<Tensor> inputs = inputs_of(runtime, one, n_ranks);
  for (const SummingRule& rule : rules) {
    if (!concerns(rule, one)) continue;
    bool equal = true;
    for (std::int32_t rank = 0; rank < (alike ? 1 : n_ranks) && equal; ++rank) {
      equal = by_rank[static_cast<std::size_t>(rank)] == digest_after(one, inputs, rank, rule);
    }
    if (equal) return name_of(rule);
  }
  return {};
}

}  // namespace lockstep
