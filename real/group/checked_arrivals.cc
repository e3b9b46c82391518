#include "lockstep/real/group/checked_arrivals.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <span>
#include <utility>

#include "lockstep/base/half.h"
#include "lockstep/real/group/detail/arrival_words.h"
#include "lockstep/real/group/detail/checked_message.h"

namespace lockstep::peers {

namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::int64_t kSliceBytes = 1 << 20;  // Of contributions, from each rank at a time.

std::uint64_t bits_at(const Memory& memory, std::int64_t element) {
  std::uint64_t bits = 0;
  const auto size = static_cast<std::size_t>(size_of(memory.dtype));
  std::memcpy(&bits,
              static_cast<const std::byte*>(memory.data) + static_cast<std::size_t>(element) * size,
              size);
  return bits;
}

/// What an operation is given, as it was when the operation began: it may overwrite it.
class Contributions {
 public:
  /// `memories` are joined: parts of one buffer lie one after another.
  explicit Contributions(std::span<const Memory> memories) {
    std::size_t total = 0;
    for (const Memory& memory : memories) total += bytes_of(memory);
    bytes_.resize(total);
    std::size_t offset = 0;
    for (const Memory& memory : memories) {
      Memory copy = memory;
      copy.data = bytes_.data() + offset;
      if (memory.count > 0) std::memcpy(copy.data, memory.data, bytes_of(memory));
      offset += bytes_of(memory);
      parts_.push_back(copy);
    }
  }

  const std::vector<Memory>& parts() const { return parts_; }

  Memory joined() const {
    Memory all = parts_.front();
    for (std::size_t i = 1; i < parts_.size(); ++i) all.count += parts_[i].count;
    return all;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<Memory> parts_;
};

/// Elements [begin, end) of a buffer.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }

  Range operator&(const Range& other) const {
    const std::int64_t first = std::max(begin, other.begin);
    return {first, std::max(first, std::min(end, other.end))};
  }
};

/// What one rank holds of a comparison. Where nothing is to be compared both sides are empty.
struct Pieces {
  explicit Pieces(std::size_t n_ranks, DType dtype) : sent(n_ranks), got(n_ranks), at(n_ranks) {
    for (Memory& memory : sent) memory.dtype = dtype;
    for (Memory& memory : got) memory.dtype = dtype;
  }

  std::vector<Memory> sent;      ///< By receiver.
  std::vector<Memory> got;       ///< By sender.
  std::vector<std::int64_t> at;  ///< By sender: where `got` begins in the receiver's buffer.
  bool reduced = false;          ///< `sent` was computed from all contributions.
};

/// One reduction of one buffer: what this rank gave, what it has, and who should have which part.
struct ReducedBuffer {
  Memory input;
  Memory result;  ///< The part that is this rank's.
  std::vector<Range> wanted;
};

/// What a receiver found when it compared element by element.
enum class Looked : std::uint8_t { kAltered, kOtherNaN, kNoDifference };

struct Verdict {
  Looked looked = Looked::kNoDifference;
  std::int64_t element = 0;
  std::uint64_t sent = 0;
  std::uint64_t got = 0;
};

bool is_nan(std::uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::isnan(std::bit_cast<double>(bits));
    case DType::kF32:
      return std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::kF16:
      return std::isnan(from_f16(static_cast<std::uint16_t>(bits)));
    case DType::kBF16:
      return std::isnan(from_bf16(static_cast<std::uint16_t>(bits)));
    default:
      return false;
  }
}

/// Whether an operation that only copies brings something from `sender` to `receiver`.
bool moves(const Signature& signature, std::size_t sender, std::size_t receiver) {
  const auto root = static_cast<std::size_t>(std::max(signature.root, 0));
  switch (signature.op) {
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kScatter:
      return sender == root;
    case CollectiveOp::kGather:
      return receiver == root;
    default:
      return true;
  }
}

/// That of `rank`, or the one that serves all.
const Memory& buffer_of(const std::vector<Memory>& buffers, std::size_t rank) {
  return buffers.size() == 1 ? buffers.front() : buffers[rank];
}

/// The first element in which `got` is not `sent`.
Verdict look(const Memory& sent, const Memory& got, bool reduced) {
  Verdict verdict;
  for (std::int64_t i = 0; i < got.count; ++i) {
    const std::uint64_t a = bits_at(sent, i);
    const std::uint64_t b = bits_at(got, i);
    if (a == b) continue;
    if (!reduced || !is_nan(a, got.dtype) || !is_nan(b, got.dtype)) {
      return {Looked::kAltered, i, a, b};
    }
    verdict.looked = Looked::kOtherNaN;
  }
  return verdict;
}

class CheckedArrivals final : public Connection {
 public:
  CheckedArrivals(std::shared_ptr<Connection> inner,
                  std::shared_ptr<Connection> line,
                  Membership member,
                  const ArrivalCheck& check)
      : inner_(std::move(inner)),
        line_(std::move(line)),
        member_(std::move(member)),
        check_(check),
        kernels_(check.make_kernels()) {}

  std::string refusal(const Signature& signature) const override {
    return inner_->refusal(signature);
  }

  std::shared_ptr<Token> mark() override { return inner_->mark(); }

  Completion run(const Operation& operation) override {
    const Contributions kept(operation.inputs);
    Completion completion = inner_->run(operation);
    if (completion.status != CommStatus::kOk) return completion;
    timeout_ = operation.timeout;
    return compare_arrivals(operation, kept);
  }

  std::unique_ptr<Message> start(const Operation& operation) override {
    return start_checked_message(*inner_, operation, member_);
  }

  Result<std::int64_t> all_reduce_max(std::int64_t number, std::uint32_t tag) override {
    return inner_->all_reduce_max(number, tag);
  }

  Result<std::shared_ptr<Connection>> split(const Membership& member) override {
    Result<std::shared_ptr<Connection>> part = inner_->split(member);
    if (!part.ok()) return part;
    return with_line(*inner_, std::move(part).value(), member, check_);
  }

  /// `part` with a connection of its own for comparing, made by `parent`.
  static Result<std::shared_ptr<Connection>> with_line(Connection& parent,
                                                       std::shared_ptr<Connection> part,
                                                       const Membership& member,
                                                       const ArrivalCheck& check) {
    Membership second = member;
    second.name += "-arrivals";
    second.check_signatures = false;  // What is compared follows from the operation alone.
    Result<std::shared_ptr<Connection>> line = parent.split(second);
    if (!line.ok() || line.value() == nullptr) return line;
    return std::shared_ptr<Connection>(
        std::make_shared<CheckedArrivals>(std::move(part), std::move(line).value(), member, check));
  }

 private:
  std::size_t n_ranks() const { return static_cast<std::size_t>(member_.size); }

  std::size_t self() const { return static_cast<std::size_t>(member_.rank); }

  Completion compare_arrivals(const Operation& operation, const Contributions& kept);
  Completion compare_copies(const Operation& operation, const Contributions& kept);
  Completion compare_reduction(const Operation& operation, const ReducedBuffer& buffer);
  Completion compare_slice(const Operation& operation, const ReducedBuffer& buffer, Range slice);
  Completion compare_pieces(const Operation& operation, const Pieces& pieces);
  Completion settle(const Operation& operation,
                    const Pieces& pieces,
                    std::size_t sender,
                    std::size_t receiver);
  Completion trade(std::vector<Memory> sends, std::vector<Memory> recvs);
  Completion all_gather(Words& own, Words& all);
  Completion run_line(CollectiveOp op, std::vector<Memory> inputs, std::vector<Memory> outputs);

  std::shared_ptr<Connection> inner_;
  std::shared_ptr<Connection> line_;
  Membership member_;
  ArrivalCheck check_;
  std::unique_ptr<Kernels> kernels_;
  std::uint32_t n_lined_ = 0;  // Operations on the line: the same number on all members.
  std::chrono::milliseconds timeout_{0};
};

Completion CheckedArrivals::run_line(CollectiveOp op,
                                     std::vector<Memory> inputs,
                                     std::vector<Memory> outputs) {
  Operation operation{.signature = {},
                      .inputs = std::move(inputs),
                      .outputs = std::move(outputs),
                      .tag = n_lined_++,
                      .timeout = timeout_,
                      .token = line_->mark()};
  operation.signature.op = op;
  Completion completion = line_->run(operation);
  if (completion.status != CommStatus::kOk) {
    completion.detail = "comparing what arrived: " + completion.detail;
  }
  return completion;
}

Completion CheckedArrivals::trade(std::vector<Memory> sends, std::vector<Memory> recvs) {
  return run_line(CollectiveOp::kAllToAll, std::move(sends), std::move(recvs));
}

Completion CheckedArrivals::all_gather(Words& own, Words& all) {
  all.resize(own.size() * n_ranks());
  const auto words = [&](std::uint64_t* first) {
    return Memory{first, static_cast<std::int64_t>(own.size()), DType::kI64};
  };
  std::vector<Memory> parts;
  for (std::size_t r = 0; r < n_ranks(); ++r) parts.push_back(words(&all[r * own.size()]));
  return run_line(CollectiveOp::kAllGather, {words(own.data())}, std::move(parts));
}

Completion CheckedArrivals::compare_arrivals(const Operation& operation,
                                             const Contributions& kept) {
  const Range all = {0, kept.parts().empty() ? 0 : kept.joined().count};
  std::vector<Range> wanted(n_ranks());
  switch (operation.signature.op) {
    case CollectiveOp::kAllReduce:
      for (std::size_t i = 0; i < operation.outputs.size(); ++i) {
        wanted.assign(n_ranks(), {0, operation.outputs[i].count});
        Completion completion =
            compare_reduction(operation, {kept.parts()[i], operation.outputs[i], wanted});
        if (completion.status != CommStatus::kOk) return completion;
      }
      return {};
    case CollectiveOp::kReduce: {
      const auto root = static_cast<std::size_t>(operation.signature.root);
      wanted[root] = all;
      const Memory result = self() == root ? operation.outputs.front() : Memory{};
      return compare_reduction(operation, {kept.joined(), result, wanted});
    }
    case CollectiveOp::kReduceScatter: {
      std::int64_t begin = 0;
      for (std::size_t r = 0; r < n_ranks(); ++r) {
        wanted[r] = {begin, begin + kept.parts()[r].count};
        begin = wanted[r].end;
      }
      return compare_reduction(operation, {kept.joined(), operation.outputs.front(), wanted});
    }
    case CollectiveOp::kBarrier:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return {};
    default:
      return compare_copies(operation, kept);
  }
}

Completion CheckedArrivals::compare_copies(const Operation& operation, const Contributions& kept) {
  Pieces pieces(n_ranks(), operation.signature.dtype);
  for (std::size_t r = 0; r < n_ranks(); ++r) {
    if (moves(operation.signature, self(), r)) pieces.sent[r] = buffer_of(kept.parts(), r);
    if (moves(operation.signature, r, self())) pieces.got[r] = buffer_of(operation.outputs, r);
  }
  return compare_pieces(operation, pieces);
}

Completion CheckedArrivals::compare_reduction(const Operation& operation,
                                              const ReducedBuffer& buffer) {
  const std::int64_t share = std::max<std::int64_t>(kSliceBytes / size_of(buffer.input.dtype), 1);
  const std::int64_t step = share * member_.size;
  for (std::int64_t begin = 0; begin < buffer.input.count; begin += step) {
    const Range slice = {begin, std::min(begin + step, buffer.input.count)};
    Completion completion = compare_slice(operation, buffer, slice);
    if (completion.status != CommStatus::kOk) return completion;
  }
  return {};
}

// Every rank computes one part of the slice again, for all.
Completion CheckedArrivals::compare_slice(const Operation& operation,
                                          const ReducedBuffer& buffer,
                                          Range slice) {
  const DType dtype = buffer.input.dtype;
  const std::int64_t share = (slice.count() + member_.size - 1) / member_.size;
  const auto part_of = [&](std::size_t rank) {
    const std::int64_t begin =
        std::min(slice.begin + share * static_cast<std::int64_t>(rank), slice.end);
    return Range{begin, begin + share} & slice;
  };
  const Range own = part_of(self());
  const auto bytes = static_cast<std::size_t>(own.count() * size_of(dtype));
  std::vector<std::byte> scratch(bytes * (n_ranks() + 1));
  std::vector<Memory> sends;
  std::vector<Memory> recvs;
  std::vector<const void*> inputs;
  for (std::size_t r = 0; r < n_ranks(); ++r) {
    sends.push_back(buffer.input.slice(part_of(r).begin, part_of(r).count()));
    recvs.push_back({scratch.data() + r * bytes, own.count(), dtype});
    inputs.push_back(recvs.back().data);
  }
  Completion completion = trade(std::move(sends), recvs);
  if (completion.status != CommStatus::kOk) return completion;
  const Memory computed{scratch.data() + n_ranks() * bytes, own.count(), dtype};
  const std::array<void*, 1> outputs = {computed.data};
  reduce_in_order(*kernels_,
                  {.outputs = outputs,
                   .inputs = inputs,
                   .count = own.count(),
                   .dtype = dtype,
                   .op = operation.signature.reduce,
                   .premul = operation.signature.premul,
                   .offset = own.begin,
                   .total = buffer.input.count},
                  check_.order);
  Pieces pieces(n_ranks(), dtype);
  pieces.reduced = true;
  const Range mine = buffer.wanted[self()];
  for (std::size_t r = 0; r < n_ranks(); ++r) {
    const Range sent = own & buffer.wanted[r];
    if (sent.count() > 0) pieces.sent[r] = computed.slice(sent.begin - own.begin, sent.count());
    const Range got = part_of(r) & mine;
    if (got.count() > 0) pieces.got[r] = buffer.result.slice(got.begin - mine.begin, got.count());
    pieces.at[r] = got.begin - mine.begin;
  }
  return compare_pieces(operation, pieces);
}

Completion CheckedArrivals::compare_pieces(const Operation& operation, const Pieces& pieces) {
  const std::size_t n = n_ranks();
  Words own;
  for (const Memory& memory : pieces.sent) own.push_back(digest_of(memory));
  for (const Memory& memory : pieces.got) own.push_back(digest_of(memory));
  Words all;
  Completion completion = all_gather(own, all);
  for (std::size_t sender = 0; sender < n; ++sender) {
    for (std::size_t receiver = 0; receiver < n; ++receiver) {
      if (completion.status != CommStatus::kOk) return completion;
      const std::uint64_t sent = all[sender * 2 * n + receiver];
      const std::uint64_t got = all[receiver * 2 * n + n + sender];
      if (sent != got) completion = settle(operation, pieces, sender, receiver);
    }
  }
  return completion;
}

// All know that these two differ; the receiver gets the piece again and says where.
Completion CheckedArrivals::settle(const Operation& operation,
                                   const Pieces& pieces,
                                   std::size_t sender,
                                   std::size_t receiver) {
  std::vector<Memory> sends(n_ranks());
  std::vector<Memory> recvs(n_ranks());
  Memory again = pieces.got[sender];
  std::vector<std::byte> scratch(self() == receiver ? bytes_of(again) : 0);
  again.data = scratch.data();
  if (self() == sender) sends[receiver] = pieces.sent[receiver];
  if (self() == receiver) recvs[sender] = again;
  Completion completion = trade(std::move(sends), std::move(recvs));
  if (completion.status != CommStatus::kOk) return completion;
  Verdict verdict;
  if (self() == receiver) verdict = look(again, pieces.got[sender], pieces.reduced);
  Words own = {static_cast<std::uint64_t>(verdict.looked),
               static_cast<std::uint64_t>(verdict.element + pieces.at[sender]),
               verdict.sent,
               verdict.got};
  Words all;
  completion = all_gather(own, all);
  if (completion.status != CommStatus::kOk) return completion;
  const std::span<const std::uint64_t> said(&all[receiver * own.size()], own.size());
  if (said[0] == static_cast<std::uint64_t>(Looked::kOtherNaN)) return {};
  if (said[0] == static_cast<std::uint64_t>(Looked::kNoDifference)) {
    return {CommStatus::kMismatch,
            fmt::format("the digests by which {} was compared were altered on their way: {} has "
                        "what {} says it sent",
                        call_words(operation, member_),
                        rank_words(static_cast<std::int32_t>(receiver), member_),
                        rank_words(static_cast<std::int32_t>(sender), member_))};
  }
  const AlteredElement altered = {.sender = static_cast<std::int32_t>(sender),
                                  .receiver = static_cast<std::int32_t>(receiver),
                                  .reduced = pieces.reduced,
                                  .element = static_cast<std::int64_t>(said[1]),
                                  .sent = said[2],
                                  .got = said[3]};
  const DType dtype = pieces.got[sender].dtype;
  return {CommStatus::kMismatch, altered_words(altered, dtype, operation, member_)};
}

}  // namespace

Result<std::shared_ptr<Connection>> check_arrivals(std::shared_ptr<Connection> connection,
                                                   const Membership& member,
                                                   const ArrivalCheck& check) {
  Connection& parent = *connection;
  return CheckedArrivals::with_line(parent, std::move(connection), member, check);
}

}  // namespace lockstep::peers
