#include "lockstep/harness/crosscheck/nccl_log.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/nccl_order.h"

namespace lockstep {

/// As NCCL's log has them.
template <>
inline constexpr EnumNames<3> kEnumNames<NcclProtocol> = {"SIMPLE", "LL", "LL128"};

namespace {

constexpr std::int64_t kMaxNcclRanks = 1 << 20;

/// Takes words and numbers off the front of a line.
class Scanner {
 public:
  explicit Scanner(std::string_view rest) : rest_(rest) {}

  bool word(std::string_view expected) {
    skip_blanks();
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  std::optional<std::int64_t> number() {
    skip_blanks();
    std::size_t n = !rest_.empty() && rest_.front() == '-' ? 1 : 0;
    while (n < rest_.size() && rest_[n] >= '0' && rest_[n] <= '9') ++n;
    const auto value = parse_int(rest_.substr(0, n));
    if (value) rest_.remove_prefix(n);
    return value;
  }

  std::string_view name() {
    skip_blanks();
    std::string_view found = rest_.substr(0, rest_.find_first_of(" :{\t"));
    rest_.remove_prefix(found.size());
    return found;
  }

  bool empty() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    const std::size_t n = std::min(rest_.find_first_not_of(" \t\r"), rest_.size());
    rest_.remove_prefix(n);
  }

  std::string_view rest_;
};

/// One log, line by line.
class LogReader {
 public:
  void file(const NcclLogFile& file) {
    path_ = &file.path;
    n_lines_ = 0;
    for (const std::string_view text : split(file.text, '\n')) line(text);
  }

  Result<NcclLog> finish(const std::string& place) {
    if (problem_) return *problem_;
    if (log_.rings.empty()) {
      return Error{
          "no line such as 'NCCL INFO Channel 00/02 : 0 1 2': is it rank 0's log, made with "
          "NCCL_DEBUG=INFO?",
          place};
    }
    for (const std::vector<std::int32_t>& ring : log_.rings) {
      if (ring.empty()) return Error{"the ring of a channel is missing", place};
      if (ring.size() == log_.rings.front().size()) continue;
      return Error{"one channel's ring has " + std::to_string(log_.rings.front().size()) +
                       " ranks and another's " + std::to_string(ring.size()) +
                       ": give the log of one communicator",
                   place};
    }
    return std::move(log_);
  }

 private:
  void line(std::string_view text) {
    ++n_lines_;
    constexpr std::string_view kInfo = "NCCL INFO ";
    constexpr std::string_view kVersion = "NCCL version ";
    if (const auto at = text.find(kVersion); at != std::string_view::npos && log_.version.empty()) {
      log_.version = std::string(trim(text.substr(at + kVersion.size())));
    }
    const auto at = text.find(kInfo);
    if (at == std::string_view::npos) return;
    const Scanner said(text.substr(at + kInfo.size()));
    if (Scanner ring = said; ring.word("Channel")) return read_ring(ring);
    if (Scanner trees = said; trees.word("Trees")) return read_trees(trees);
    read_choice(said);
  }

  void complain(const std::string& text) {
    if (!problem_) problem_ = Error{text, *path_ + ":" + std::to_string(n_lines_)};
  }

  static std::string too_far(const std::string& what, std::int64_t channel) {
    return what + " on channel " + std::to_string(channel) + ": NCCL has at most " +
           std::to_string(kMaxChannels);
  }

  // "Channel 00/02 : 0 1 2". "Channel 00/0 : 2[0] -> 0[0] [receive] via ..." is something else.
  void read_ring(Scanner line) {
    const auto channel = line.number();
    if (!channel || !line.word("/")) return;
    const auto n_channels = line.number();
    if (!n_channels || !line.word(":")) return;
    std::vector<std::int32_t> ring;
    while (!line.empty()) {
      const auto rank = line.number();
      if (!rank || *rank < 0 || *rank > kMaxNcclRanks || line.word("[")) return;
      ring.push_back(static_cast<std::int32_t>(*rank));
    }
    add_ring(*channel, *n_channels, std::move(ring));
  }

  void add_ring(std::int64_t channel, std::int64_t n_channels, std::vector<std::int32_t> ring) {
    if (channel < 0 || channel >= n_channels || n_channels > kMaxChannels) {
      return complain("channel " + std::to_string(channel) + " of " + std::to_string(n_channels));
    }
    std::vector<std::int32_t> sorted = ring;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (sorted[i] != static_cast<std::int32_t>(i)) {
        return complain("a ring names each of its ranks once, 0 to " +
                        std::to_string(sorted.size() - 1));
      }
    }
    const auto n = static_cast<std::size_t>(n_channels);
    if (log_.rings.empty()) log_.rings.resize(n);
    std::vector<std::int32_t>& known =
        log_.rings[static_cast<std::size_t>(channel) % log_.rings.size()];
    if (log_.rings.size() != n || (!known.empty() && known != ring)) {
      return complain("another communicator's rings: give the log of one communicator");
    }
    known = std::move(ring);
  }

  // False, and a complaint: no tree has this place.
  bool is_place(std::int64_t channel, std::int64_t rank) {
    if (channel < 0 || rank < 0) {
      complain("a tree's channel and rank are numbers from 0, not " + std::to_string(channel) +
               " and " + std::to_string(rank));
    } else if (channel >= kMaxChannels) {
      complain(too_far("a tree", channel));
    } else {
      return true;
    }
    return false;
  }

  // "Trees [0] 1/-1/-1->2->0 [1] ...": children, the rank, its parent.
  void read_trees(Scanner line) {
    while (line.word("[")) {
      NcclTreePlace place;
      const auto channel = line.number();
      if (!channel || !line.word("]")) return;
      std::array<std::int64_t, 5> ranks{};
      constexpr std::array<std::string_view, 5> kBetween = {"/", "/", "->", "->", ""};
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto rank = line.number();
        if (!rank || *rank < -1 || *rank > kMaxNcclRanks || !line.word(kBetween[i])) return;
        ranks[i] = *rank;
      }
      place.channel = static_cast<std::int32_t>(*channel);
      for (std::size_t i = 0; i < place.children.size(); ++i) {
        place.children[i] = static_cast<std::int32_t>(ranks[i]);
      }
      if (!is_place(*channel, ranks[3])) return;
      place.rank = static_cast<std::int32_t>(ranks[3]);
      place.parent = static_cast<std::int32_t>(ranks[4]);
      log_.trees.push_back(place);
    }
  }

  // "AllReduce: 400 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..1}". Older versions number
  // algorithms: "Algo 1 proto 2 time ...", which is skipped.
  void read_choice(Scanner line) {
    NcclChoice choice;
    choice.function = line.name();
    if (!line.word(":")) return;
    const auto bytes = line.number();
    if (!bytes || !line.word("Bytes -> Algo")) return;
    choice.bytes = *bytes;
    choice.algorithm = line.name();
    if (!line.word("proto")) return;
    choice.protocol = line.name();
    if (!line.word("channel{Lo..Hi}={")) return;
    const auto first = line.number();
    if (!first || !line.word("..")) return;
    const auto last = line.number();
    if (!last || *first < 0 || *last < *first) return;
    if (*last >= kMaxChannels) return complain(too_far("a call", *last));
    choice.first_channel = static_cast<std::int32_t>(*first);
    choice.last_channel = static_cast<std::int32_t>(*last);
    const auto known = std::find(log_.choices.begin(), log_.choices.end(), choice);
    if (known == log_.choices.end()) log_.choices.push_back(std::move(choice));
  }

  static constexpr std::int64_t kMaxChannels = 64;  // MAXCHANNELS of NCCL, once 32.

  const std::string* path_ = nullptr;
  std::int64_t n_lines_ = 0;
  NcclLog log_;
  std::optional<Error> problem_;
};

std::optional<NcclProtocol> protocol_of(const NcclChoice& choice) {
  return parse_enum<NcclProtocol>(choice.protocol);
}

// Whether the trees of this machine are those that NCCL builds where each rank is its own node, repeated as
// the cuts say.
bool has_plain_trees(const NcclLog& log, const NcclCuts& cuts) {
  const ReductionOrder order(ReductionOrder::kNcclTree, cuts);
  const auto n_ranks = static_cast<std::int32_t>(log.rings.front().size());
  for (const NcclTreePlace& place : log.trees) {
    if (place.channel >= cuts.n_channels || place.rank >= n_ranks) return false;
    const detail::Tree tree = detail::make_nccl_tree(n_ranks, order.has_second_tree(place.channel));
    std::vector<std::int32_t> children;
    for (const std::int32_t child : place.children) {
      if (child >= 0) children.push_back(child);
    }
    if (tree.children[static_cast<std::size_t>(place.rank)] != children) return false;
    if ((place.parent < 0) != (tree.root == place.rank)) return false;
  }
  return true;
}

Result<ReductionOrder> tree_order(const NcclLog& log, const NcclChoice& choice) {
  if (choice.first_channel != 0) {
    return Error{"a tree that begins with channel " + std::to_string(choice.first_channel) +
                     " is not modelled",
                 {}};
  }
  if (log.trees.empty()) return Error{"no line 'NCCL INFO Trees ...' describes the trees", {}};
  const auto n_channels = static_cast<std::int32_t>(log.rings.size());
  constexpr std::int32_t kLongest = 64;
  for (std::int32_t period = 2; period <= std::min(2 * n_channels, kLongest); period += 2) {
    if (!has_plain_trees(log, {.n_channels = n_channels, .tree_period = period})) continue;
    return ReductionOrder(ReductionOrder::kNcclTree,
                          {.n_channels = choice.last_channel + 1,
                           .protocol = *protocol_of(choice),
                           .tree_period = period});
  }
  return Error{"its trees are not those of one rank per node", {}};
}

}  // namespace

Result<NcclLog> read_nccl_log(std::span<const NcclLogFile> files) {
  LogReader reader;
  for (const NcclLogFile& file : files) reader.file(file);
  return reader.finish(files.empty() ? "" : files.front().path);
}

Result<ReductionOrder> order_of(const NcclLog& log, const NcclChoice& choice) {
  const auto adds = {"AllReduce", "ReduceScatter", "Reduce"};
  if (std::find(adds.begin(), adds.end(), choice.function) == adds.end()) {
    return Error{choice.function + " adds nothing", {}};
  }
  if (!protocol_of(choice)) {
    return Error{
        "protocol " + choice.protocol + " is not modelled; NCCL_PROTO=Simple, LL and LL128 are",
        {}};
  }
  if (choice.last_channel >= static_cast<std::int32_t>(log.rings.size())) {
    return Error{"the log does not show the rings of all its channels", {}};
  }
  if (choice.algorithm == "TREE") return tree_order(log, choice);
  if (choice.algorithm != "RING") {
    return Error{"algorithm " + choice.algorithm + " is not modelled; NCCL_ALGO=Ring or Tree are",
                 {}};
  }
  return ReductionOrder(
      std::vector<std::vector<std::int32_t>>(log.rings.begin() + choice.first_channel,
                                             log.rings.begin() + choice.last_channel + 1),
      *protocol_of(choice));
}

}  // namespace lockstep
