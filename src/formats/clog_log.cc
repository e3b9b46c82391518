#include "lockstep/formats/detail/clog_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::detail {

namespace {

constexpr std::string_view kVersion = "V|";
/// Ranks of all communicators together: a short line can name a million.
constexpr std::int64_t kMostListed = std::int64_t{1} << 24U;
constexpr std::string_view kBatch = "batch_op_issue";

struct TypeWord {
  std::string_view word;
  DType dtype;
};

// Types that only travel are distinguished by their size.
constexpr std::array<TypeWord, 13> kTypes = {{{"f32", DType::kF32},
                                              {"f64", DType::kF64},
                                              {"f16", DType::kF16},
                                              {"bf16", DType::kBF16},
                                              {"i32", DType::kI32},
                                              {"i64", DType::kI64},
                                              {"i16", DType::kF16},
                                              {"i8", DType::kI8},
                                              {"u8", DType::kU8},
                                              {"bool", DType::kBool},
                                              {"fp8e4m3", DType::kU8},
                                              {"fp8e5m2", DType::kU8},
                                              {"other", DType::kU8}}};

struct ReduceWord {
  std::string_view word;
  ReduceOp op;
};

constexpr std::array<ReduceWord, 10> kReduces = {{{"sum", ReduceOp::kSum},
                                                  {"prod", ReduceOp::kProduct},
                                                  {"min", ReduceOp::kMin},
                                                  {"max", ReduceOp::kMax},
                                                  {"band", ReduceOp::kBand},
                                                  {"bor", ReduceOp::kBor},
                                                  {"bxor", ReduceOp::kBxor},
                                                  {"premul_sum", ReduceOp::kPremulSum},
                                                  {"avg", ReduceOp::kAvg},
                                                  {"unknown", ReduceOp::kSum}}};

/// One line, cut at its bars.
struct ClogLine {
  std::string_view text;
  std::size_t begin = 0;  ///< Of the line, in the file.
  std::vector<std::string_view> fields;

  /// Where a part of it lies in the file.
  std::size_t place_of(std::string_view part) const {
    return begin + static_cast<std::size_t>(part.data() - text.data());
  }
};

/// The text of a log, its fields with their types, and the first thing that is wrong.
class ClogFile {
 public:
  ClogFile(std::string_view bytes, std::string path) : bytes_(bytes), path_(std::move(path)) {}

  std::string_view bytes() const { return bytes_; }

  const std::string& path() const { return path_; }

  const std::optional<Error>& error() const { return error_; }

  void fail(std::size_t at, const std::string& what) {
    if (!error_) error_ = Error{what, path_ + ":" + line_and_column(bytes_, at)};
  }

  void fail(const ClogLine& line, std::string_view part, const std::string& what) {
    fail(line.place_of(part), what);
  }

  /// The value of "key=value" from field `from` on; empty and complaining: there is none.
  std::string_view value_of(const ClogLine& line, std::size_t from, std::string_view key) {
    if (const auto value = find_value(line, from, key)) return *value;
    fail(line, line.text, "no '" + std::string(key) + "=' in this line");
    return line.text.substr(0, 0);
  }

  static std::optional<std::string_view> find_value(const ClogLine& line,
                                                    std::size_t from,
                                                    std::string_view key) {
    for (std::size_t i = from; i < line.fields.size(); ++i) {
      const std::string_view field = line.fields[i];
      if (field.size() > key.size() && field.starts_with(key) && field[key.size()] == '=') {
        return field.substr(key.size() + 1);
      }
    }
    return std::nullopt;
  }

  std::int64_t integer(const ClogLine& line, std::string_view text, std::int64_t least) {
    const std::optional<std::int64_t> number = parse_int(text);
    if (number && *number >= least) return *number;
    fail(line,
         text,
         "'" + printable(text) + "' must be a whole number from " + std::to_string(least));
    return least;
  }

  std::int32_t rank_of(const ClogLine& line, std::string_view text) {
    const std::int64_t rank = integer(line, text, 0);
    if (rank < kMostRanks) return static_cast<std::int32_t>(rank);
    fail(line, text, "more ranks than a world can have");
    return 0;
  }

  std::int64_t seconds_as_ns(const ClogLine& line, std::string_view text) {
    const std::optional<double> seconds = parse_double(text);
    if (seconds && *seconds >= 0.0 && *seconds < 4e9) return std::llround(*seconds * 1e9);
    fail(line, text, "'" + printable(text) + "' must be seconds from 0");
    return 0;
  }

  std::int64_t sum_of(const ClogLine& line, std::string_view list) {
    std::int64_t sum = 0;
    for (const std::string_view part : split(list, ',')) {
      if (part.empty()) continue;
      if (__builtin_add_overflow(sum, integer(line, part, 0), &sum)) {
        fail(line, list, "counts must add up to a number that fits");
        return 0;
      }
    }
    return sum;
  }

 private:
  std::string_view bytes_;
  std::string path_;
  std::optional<Error> error_;
};

/// Elements that a call takes in; of a receive and of what a root scatters, those it gives.
std::int64_t count_of(ClogFile& file, const ClogLine& line, std::size_t from, CollectiveOp op) {
  const bool gives = op == CollectiveOp::kRecv || op == CollectiveOp::kScatter;
  for (const std::string_view key :
       gives ? std::array<std::string_view, 3>{"out_count", "out_counts", "out_splits"}
             : std::array<std::string_view, 3>{"in_count", "in_counts", "in_splits"}) {
    if (const auto value = ClogFile::find_value(line, from, key)) return file.sum_of(line, *value);
  }
  return 0;
}

DType type_of(ClogFile& file, const ClogLine& line, std::string_view word) {
  const auto* const known = std::ranges::find(kTypes, word, &TypeWord::word);
  if (known != kTypes.end()) return known->dtype;
  file.fail(line, word, "unknown dtype '" + printable(word) + "'");
  return DType::kU8;
}

ReduceOp reduce_of(ClogFile& file, const ClogLine& line, std::string_view word) {
  const auto* const known = std::ranges::find(kReduces, word, &ReduceWord::word);
  if (known != kReduces.end()) return known->op;
  file.fail(line, word, "unknown red_op '" + printable(word) + "'");
  return ReduceOp::kSum;
}

/// What a signature says, from its operation in field `at` on.
FlightEntry signature_of(ClogFile& file,
                         const ClogLine& line,
                         std::size_t at,
                         const KnownCall& call) {
  FlightEntry entry;
  entry.op = call.op;
  entry.may_be_uneven = call.may_be_uneven;
  entry.on_device = true;
  entry.group = std::string(file.value_of(line, at, "comm"));
  entry.count = count_of(file, line, at, entry.op);
  const auto find = [&](std::string_view key) { return ClogFile::find_value(line, at, key); };
  if (const auto type = find("dtype")) entry.dtype = type_of(file, line, *type);
  if (const auto op = find("red_op")) entry.reduce = reduce_of(file, line, *op);
  if (const auto root = find("root")) entry.root = file.rank_of(line, *root);
  if (const auto peer = find("peer")) entry.peer = file.rank_of(line, *peer);
  return entry;
}

/// Reads one log. The first thing that is wrong ends it.
class ClogReader {
 public:
  ClogReader(std::string_view bytes, std::string path) : file_(bytes, std::move(path)) {
    dump_.source = CallSource::kClog;
    dump_.library = "torchcomms";
  }

  Result<FlightDump> read() {
    std::size_t at = 0;
    while (at < file_.bytes().size() && !file_.error()) {
      const std::size_t end = file_.bytes().find('\n', at);
      if (end == std::string_view::npos) {
        dump_.notes.push_back(file_.path() + ": the last line is cut off and left out");
        break;
      }
      read_line(at, file_.bytes().substr(at, end - at));
      at = end + 1;
    }
    if (!file_.error() && dump_.rank < 0)
      file_.fail(file_.bytes().size(), "no line 'new_comm' says which rank this is");
    if (file_.error()) return *file_.error();
    finish();
    return std::move(dump_);
  }

 private:
  void read_line(std::size_t begin, std::string_view text) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) return;
    ClogLine line{text, begin, split(text, '|')};
    const std::string_view first = line.fields.front();
    if (!began_) return read_version(line);
    if (first == "new_comm") return read_communicator(line);
    if (first == "split") return read_split(line);
    if (first == "WARN") return note_warning(line);
    if (first.starts_with('C')) return read_call(line, 0);
    if (first.starts_with('G')) return read_graph(line);
    file_.fail(line, first, "unknown line '" + printable(first) + "'");
  }

  void read_version(const ClogLine& line) {
    began_ = true;
    if (line.fields.front() != "V" || line.fields.size() < 2 || line.fields[1] != "1") {
      const std::string_view version = line.fields[line.fields.size() > 1 ? 1 : 0];
      return file_.fail(line, version, "not a Clog log of version 1, which begins with 'V|1|'");
    }
    base_ns_ = file_.seconds_as_ns(line, file_.value_of(line, 2, "base_timestamp"));
  }

  void read_communicator(const ClogLine& line) {
    const std::string name(file_.value_of(line, 1, "comm"));
    const std::int32_t rank = file_.rank_of(line, file_.value_of(line, 1, "rank"));
    const std::int32_t size = file_.rank_of(line, file_.value_of(line, 1, "world_size"));
    if (file_.error()) return;
    if (rank >= size) return file_.fail(line, line.text, "its rank is not below its world_size");
    if (dump_.rank < 0) {
      dump_.rank = rank;
      world_ = name;
      world_size_ = size;
    }
    // Another communicator of as many ranks has the same ones.
    if (size != world_size_) return;
    n_listed_ += size;
    if (n_listed_ > kMostListed) return file_.fail(line, line.text, "too many large communicators");
    std::vector<std::int32_t>& ranks = dump_.groups[name];
    for (std::int32_t r = static_cast<std::int32_t>(ranks.size()); r < size; ++r)
      ranks.push_back(r);
  }

  void read_split(const ClogLine& line) {
    std::vector<std::int32_t> ranks;
    for (const std::string_view part : split(file_.value_of(line, 1, "ranks"), ',')) {
      if (!file_.error()) ranks.push_back(file_.rank_of(line, part));
    }
    const std::string child(file_.value_of(line, 1, "child"));
    if (!file_.error()) dump_.groups[child] = std::move(ranks);
  }

  void note_warning(const ClogLine& line) {
    if (n_warnings_++ == 0) dump_.notes.push_back(file_.path() + ": " + printable(line.text));
  }

  /// Lines of a graph: "G42|C1|..." as it is captured, "G42|R1|C1|..." as it is replayed.
  void read_graph(const ClogLine& line) {
    file_.integer(line, line.fields[0].substr(1), 0);
    if (line.fields.size() < 2)
      return file_.fail(line, line.text, "a line of a graph names a call");
    if (line.fields[1].starts_with('R')) {
      ++n_replayed_;
      return;
    }
    read_call(line, 1);
  }

  /// "C1|sig|..." or an event of a call; `at` is the place of "C1".
  void read_call(const ClogLine& line, std::size_t at) {
    const std::string_view name = line.fields[at];
    if (!name.starts_with('C') || line.fields.size() < at + 2) {
      return file_.fail(line, name, "a line of a call reads 'C1|...'");
    }
    const std::int64_t id = file_.integer(line, name.substr(1), 0);
    const std::string_view event = line.fields[at + 1];
    if (file_.error()) return;
    if (event == "sig") return read_signature(line, at + 2, id);
    const auto known = signatures_.find(id);
    if (known == signatures_.end()) {
      return file_.fail(
          line, name, "no signature of '" + std::string(name) + "' comes before this line");
    }
    const std::string_view time = line.fields.back();
    if (!time.starts_with('+'))
      return file_.fail(line, time, "an event ends with its time, '+1.234'");
    const std::int64_t ns = base_ns_ + file_.seconds_as_ns(line, time.substr(1));
    if (file_.error()) return;
    if (event == "Q") return add_call(known->second, id, ns);
    if (event == "E") return end_call(id, ns);
    if (event != "S" && event != "W") {
      return file_.fail(line, event, "unknown event '" + printable(event) + "'");
    }
    has_lives_ = true;
  }

  void add_call(const FlightEntry& signature, std::int64_t id, std::int64_t ns) {
    if (signature.is_marker) return;
    FlightEntry entry = signature;
    entry.seq = n_calls_[entry.group]++;
    entry.created_ns = ns;
    open_[id].push_back(dump_.entries.size());
    dump_.entries.push_back(std::move(entry));
  }

  void end_call(std::int64_t id, std::int64_t ns) {
    has_lives_ = true;
    std::deque<std::size_t>& open = open_[id];
    if (open.empty()) return;  // Of a call before the log began.
    FlightEntry& entry = dump_.entries[open.front()];
    open.pop_front();
    entry.completed = true;
    entry.completed_ns = ns;
  }

  void read_signature(const ClogLine& line, std::size_t at, std::int64_t id) {
    if (line.fields.size() <= at) {
      return file_.fail(line, line.text, "a signature names its operation");
    }
    const std::string_view name = line.fields[at];
    // Its calls have lines of their own.
    const bool is_batch = name == kBatch;
    const KnownCall* const call = find_call(is_batch ? "barrier" : name);
    if (call == nullptr) {
      return file_.fail(line, name, "unknown operation '" + printable(name) + "'");
    }
    FlightEntry entry = signature_of(file_, line, at, *call);
    if (entry.group == world_) entry.description = kWorldGroup;
    entry.is_marker = is_batch;
    if (!file_.error()) signatures_[id] = std::move(entry);
  }

  void finish() {
    dump_.version = "1";
    dump_.ends_unknown = !has_lives_;
    if (n_warnings_ > 1) {
      dump_.notes.push_back(file_.path() + ": " + std::to_string(n_warnings_ - 1) +
                            " more warnings");
    }
    if (n_replayed_ > 0) {
      dump_.notes.push_back(
          file_.path() + ": " + std::to_string(n_replayed_) +
          " events of replayed CUDA graphs are left out: their order is not kept");
    }
  }

  ClogFile file_;
  FlightDump dump_;
  bool began_ = false;
  bool has_lives_ = false;  ///< Some call's start, end or wait was logged.
  std::string world_;
  std::int32_t world_size_ = 0;
  std::int64_t n_listed_ = 0;
  std::int64_t base_ns_ = 0;
  std::int64_t n_warnings_ = 0;
  std::int64_t n_replayed_ = 0;
  std::map<std::int64_t, FlightEntry> signatures_;
  std::map<std::string, std::int64_t> n_calls_;           ///< By communicator.
  std::map<std::int64_t, std::deque<std::size_t>> open_;  ///< Calls of a signature, oldest first.
};

}  // namespace

bool is_clog(std::string_view bytes) { return bytes.starts_with(kVersion); }

Result<FlightDump> read_clog(std::string_view bytes, const std::string& path) {
  return ClogReader(bytes, path).read();
}

void infer_ends(std::span<FlightDump> dumps) {
  std::map<std::pair<std::string, std::int64_t>, std::size_t> n_made;
  std::map<std::string, std::size_t> n_members;  // As far as they are known, or have made a call.
  std::map<std::string, std::size_t> n_callers;
  for (const FlightDump& dump : dumps) {
    std::map<std::string, bool> seen;
    for (const FlightEntry& entry : dump.entries) {
      ++n_made[{entry.group, entry.seq}];
      seen.emplace(entry.group, true);
    }
    for (const auto& [group, there] : seen) ++n_callers[group];
    for (const auto& [group, ranks] : dump.groups) {
      n_members[group] = std::max(n_members[group], ranks.size());
    }
  }
  for (FlightDump& dump : dumps) {
    if (!dump.ends_unknown) continue;
    for (FlightEntry& entry : dump.entries) {
      const std::size_t n = std::max(n_members[entry.group], n_callers[entry.group]);
      entry.completed = n_made[{entry.group, entry.seq}] >= n;
      entry.completed_ns = entry.created_ns;
    }
  }
}

}  // namespace lockstep::detail
