#include "lockstep/real/group/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <type_traits>

#include "lockstep/comm/signature.h"

namespace lockstep::peers {

namespace {

constexpr std::size_t kSiteLength = 120;

// The fixed part of a declaration. Copied as bytes between processes of one build.
struct Declared {
  CollectiveOp op;
  ReduceOp reduce;
  DType dtype;
  Device device;
  std::int32_t root;
  std::int64_t count;
  double premul;
  std::uint64_t splits;
  std::uint64_t layout;
  std::array<char, kSiteLength> site;
};

static_assert(std::is_trivially_copyable_v<Declared>);

constexpr std::size_t kListOffset = sizeof(Declared);

Signature signature_of(const Declared& declared) {
  Signature signature;
  signature.op = declared.op;
  signature.reduce = declared.reduce;
  signature.dtype = declared.dtype;
  signature.device = declared.device;
  signature.root = declared.root;
  signature.count = declared.count;
  signature.premul = declared.premul;
  signature.splits = declared.splits;
  signature.layout = declared.layout;
  return signature;
}

Declared read_fixed(std::span<const std::byte> one) {
  Declared declared{};
  std::memcpy(&declared, one.data(), sizeof declared);
  return declared;
}

std::int64_t read_count(std::span<const std::byte> one, std::size_t i) {
  std::int64_t count = 0;
  std::memcpy(&count, one.data() + kListOffset + i * sizeof count, sizeof count);
  return count;
}

std::string side(std::int32_t rank, const std::string& value, const Declared& declared) {
  std::string text = "rank " + std::to_string(rank) + " " + value;
  const std::string site(declared.site.data());
  return site.empty() ? text : text + " (" + site + ")";
}

std::string crossed_splits(std::span<const std::byte> all,
                           std::size_t length,
                           std::span<const std::int32_t> world_ranks) {
  const std::size_t n_ranks = world_ranks.size();
  for (std::size_t from = 0; from < n_ranks; ++from) {
    for (std::size_t to = 0; to < n_ranks; ++to) {
      const std::int64_t sent = read_count(all.subspan(from * length, length), to);
      const std::int64_t expected = read_count(all.subspan(to * length, length), n_ranks + from);
      if (sent == expected) continue;
      return "splits differ: rank " + std::to_string(world_ranks[from]) + " sends " +
             std::to_string(sent) + ", rank " + std::to_string(world_ranks[to]) + " expects " +
             std::to_string(expected);
    }
  }
  return {};
}

}  // namespace

std::vector<std::byte> encode_signature(const Signature& signature,
                                        std::span<const Memory> inputs,
                                        std::span<const Memory> outputs,
                                        std::size_t n_ranks) {
  Declared declared{};
  declared.op = signature.op;
  declared.reduce = signature.reduce;
  declared.dtype = signature.dtype;
  declared.device = signature.device;
  declared.root = signature.root;
  declared.count = signature.count;
  declared.premul = signature.premul;
  declared.splits = signature.splits;
  declared.layout = signature.layout;
  const std::string site = describe(signature.site);
  // The end of a path says more than its start.
  const std::size_t skipped = site.size() < kSiteLength ? 0 : site.size() - kSiteLength + 1;
  std::copy(site.begin() + static_cast<std::ptrdiff_t>(skipped), site.end(), declared.site.begin());

  std::vector<std::byte> bytes(kListOffset + 2 * n_ranks * sizeof(std::int64_t));
  std::memcpy(bytes.data(), &declared, sizeof declared);
  if (signature.op != CollectiveOp::kAllToAll) return bytes;
  for (std::size_t i = 0; i < 2 * n_ranks; ++i) {
    const std::int64_t count = i < n_ranks ? inputs[i].count : outputs[i - n_ranks].count;
    std::memcpy(bytes.data() + kListOffset + i * sizeof count, &count, sizeof count);
  }
  return bytes;
}

std::string find_mismatch(std::span<const std::byte> all,
                          std::span<const std::int32_t> world_ranks) {
  const std::size_t length = all.size() / world_ranks.size();
  const Declared first = read_fixed(all.subspan(0, length));
  for (std::size_t r = 1; r < world_ranks.size(); ++r) {
    const Declared other = read_fixed(all.subspan(r * length, length));
    const std::optional<Difference> difference =
        first_difference(signature_of(first), signature_of(other));
    if (!difference) continue;
    return std::string(difference->field) +
           " differs: " + side(world_ranks.front(), difference->left, first) + ", " +
           side(world_ranks[r], difference->right, other);
  }
  return first.op == CollectiveOp::kAllToAll ? crossed_splits(all, length, world_ranks)
                                             : std::string();
}

}  // namespace lockstep::peers
