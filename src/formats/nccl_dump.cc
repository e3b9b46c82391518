#include "lockstep/formats/detail/nccl_dump.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::detail {

namespace {

using NcclJson = nlohmann::json;

/// What NCCL calls its functions.
constexpr std::pair<std::string_view, CollectiveOp> kFunctions[] = {
    {"AllReduce", CollectiveOp::kAllReduce},
    {"Broadcast", CollectiveOp::kBroadcast},
    {"Reduce", CollectiveOp::kReduce},
    {"AllGather", CollectiveOp::kAllGather},
    {"ReduceScatter", CollectiveOp::kReduceScatter},
    {"AlltoAll", CollectiveOp::kAllToAll},
    {"Gather", CollectiveOp::kGather},
    {"Scatter", CollectiveOp::kScatter},
};

std::optional<CollectiveOp> function_of(std::string_view name) {
  for (const auto& [known, op] : kFunctions) {
    if (known == name) return op;
  }
  return std::nullopt;
}

/// An object of a file, whose first wrong member is remembered with its place. `begin` is where the object
/// is looked for in the text.
class Object {
 public:
  Object(const NcclJson& json,
         std::string_view text,
         std::size_t begin,
         std::optional<Error>& error)
      : json_(&json), text_(text), begin_(begin), error_(&error) {}

  const NcclJson* find(const char* key) const {
    if (!json_->is_object()) return nullptr;
    const auto found = json_->find(key);
    return found == json_->end() ? nullptr : &*found;
  }

  /// Requires: an error was found in the member.
  void fail(std::string_view key, const std::string& what) const {
    if (*error_) return;
    const std::size_t at = text_.find("\"" + std::string(key) + "\"", begin_);
    *error_ = Error{what, line_and_column(text_, at == std::string_view::npos ? begin_ : at)};
  }

  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    const NcclJson* const member = find(key);
    const bool is_number =
        member != nullptr && member->is_number_integer() &&
        (!member->is_number_unsigned() || member->get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
    const std::int64_t number = is_number ? member->get<std::int64_t>() : 0;
    if (is_number && number >= least && number <= most) return number;
    fail(key,
         "'" + std::string(key) + "' must be a whole number from " + std::to_string(least) +
             " to " + std::to_string(most));
    return least;
  }

  std::string text(const char* key) const {
    const NcclJson* const member = find(key);
    if (member != nullptr && member->is_string()) return member->get<std::string>();
    fail(key, "'" + std::string(key) + "' must be a text");
    return {};
  }

  bool flag(const char* key) const {
    const NcclJson* const member = find(key);
    return member != nullptr && member->is_boolean() && member->get<bool>();
  }

  /// The objects of a list, or none and a complaint.
  std::vector<Object> list(const char* key) const {
    std::vector<Object> objects;
    const NcclJson* const member = find(key);
    if (member == nullptr || !member->is_array()) {
      fail(key, "'" + std::string(key) + "' must be a list");
      return objects;
    }
    for (const NcclJson& each : *member) objects.emplace_back(each, text_, begin_, *error_);
    return objects;
  }

  Object inner(const char* key) const {
    const NcclJson* const member = find(key);
    if (member == nullptr || !member->is_object()) {
      fail(key, "'" + std::string(key) + "' must be an object");
      return *this;
    }
    return {*member, text_, begin_, *error_};
  }

  const NcclJson& json() const { return *json_; }

 private:
  const NcclJson* json_;
  std::string_view text_;
  std::size_t begin_;
  std::optional<Error>* error_;
};

/// A process's GPU, by which a rank is the same one in several communicators.
using Place = std::tuple<std::string, std::int64_t, std::int64_t>;

Place place_of(const Object& rank) {
  return {rank.text("host"),
          rank.integer("pid", -1, INT64_MAX),
          rank.integer("cuda_dev", -1, INT32_MAX)};
}

/// Makes dumps of a RAS status.
class RasReader {
 public:
  RasReader(const Object& root, std::string path, std::optional<Error>& error)
      : path_(std::move(path)), error_(&error) {
    library_ = "nccl " + root.text("nccl_version");
    for (const Object& communicator : root.list("communicators")) {
      communicators_.push_back(communicator);
    }
  }

  std::vector<FlightDump> read() {
    if (communicators_.empty() || *error_) return {};
    find_world();
    if (*error_) return {};
    for (const auto& [place, rank] : rank_at_) {
      FlightDump& dump = dumps_[rank];
      dump.source = CallSource::kRas;
      dump.rank = rank;
      dump.version = "1";
      dump.library = library_;
    }
    for (std::size_t i = 0; i < communicators_.size() && !*error_; ++i) add(i);
    std::vector<FlightDump> dumps;
    bool all_equal = true;
    for (auto& [rank, dump] : dumps_) {
      all_equal = all_equal && dump.entries.empty();
      dumps.push_back(std::move(dump));
    }
    if (all_equal) {
      notes_.push_back(path_ +
                       ": all ranks have launched equally many operations of each kind; whether "
                       "the last ones have ended, RAS does not say");
    }
    if (!dumps.empty()) dumps.front().notes = std::move(notes_);
    return dumps;
  }

 private:
  /// The ranks of the largest communicator are those of the job.
  void find_world() {
    std::int64_t most = -1;
    for (std::size_t i = 0; i < communicators_.size(); ++i) {
      const std::int64_t size = communicators_[i].integer("size", 1, kMostRanks);
      if (size > most) {
        most = size;
        world_ = i;
      }
    }
    for (const Object& rank : communicators_[world_].list("ranks")) {
      const auto number = static_cast<std::int32_t>(rank.integer("rank", 0, most - 1));
      rank_at_[place_of(rank)] = number;
    }
  }

  void add(std::size_t which) {
    const Object& communicator = communicators_[which];
    const std::string hash = communicator.text("hash");
    const auto size = static_cast<std::int32_t>(communicator.integer("size", 1, kMostRanks));
    std::map<std::int32_t, std::int32_t> world_ranks;  // By rank of the communicator.
    std::map<std::string, std::map<std::int32_t, std::int64_t>> counts;
    for (const Object& rank : communicator.list("ranks")) {
      const auto number = static_cast<std::int32_t>(rank.integer("rank", 0, size - 1));
      const auto known = rank_at_.find(place_of(rank));
      if (known == rank_at_.end()) {
        notes_.push_back("communicator " + hash + ": its rank " + std::to_string(number) +
                         " is in no larger one, and is left out");
        continue;
      }
      world_ranks[number] = known->second;
      note_status(rank, hash, number);
      count(rank.inner("collective_counts"), known->second, counts);
    }
    note_missing(communicator, hash, which == world_, world_ranks);
    if (*error_) return;
    std::vector<std::int32_t> members;
    for (const auto& [number, rank] : world_ranks) members.push_back(rank);
    std::ranges::sort(members);
    for (const auto& [function, of_ranks] : counts) add_calls(hash, function, of_ranks, members);
  }

  static void count(const Object& counts,
                    std::int32_t rank,
                    std::map<std::string, std::map<std::int32_t, std::int64_t>>& into) {
    for (const auto& [function, number] : counts.json().items()) {
      if (!function_of(function)) continue;  // A kind that makes no collective of ours.
      into[function][rank] = counts.integer(function.c_str(), 0, INT64_MAX - kMostRasCalls);
    }
  }

  void note_status(const Object& rank, const std::string& hash, std::int32_t number) {
    const Object status = rank.inner("status");
    std::string what;
    if (status.integer("async_error", 0, INT32_MAX) != 0) {
      what += ", async_error " + std::to_string(status.integer("async_error", 0, INT32_MAX));
    }
    if (status.flag("abort_flag")) what += ", aborted";
    if (status.flag("finalize_called")) what += ", finalized";
    if (what.empty()) return;
    notes_.push_back("communicator " + hash + ": rank " + std::to_string(number) + what);
  }

  /// Ranks that did not answer belong to the communicator all the same.
  void note_missing(const Object& communicator,
                    const std::string& hash,
                    bool is_world,
                    std::map<std::int32_t, std::int32_t>& world_ranks) {
    for (const Object& rank : communicator.list("missing_ranks")) {
      const auto number = static_cast<std::int32_t>(rank.integer("rank", 0, kMostRanks - 1));
      if (is_world) world_ranks[number] = number;
      const Object status = rank.inner("status");
      notes_.push_back("communicator " + hash + ": rank " + std::to_string(number) + " of " +
                       printable(rank.text("host")) + ", process " +
                       std::to_string(rank.integer("pid", -1, INT64_MAX)) +
                       (status.flag("considered_dead") ? ", is dead" : ", did not answer"));
    }
  }

  /// The calls of one kind from the first that some rank has not launched.
  void add_calls(const std::string& hash,
                 const std::string& function,
                 const std::map<std::int32_t, std::int64_t>& counts,
                 const std::vector<std::int32_t>& members) {
    std::string group = hash;
    group.append(" ").append(function);
    std::int64_t least = INT64_MAX;
    for (const auto& [rank, n] : counts) least = std::min(least, n);
    const bool some_missing = counts.size() < members.size();
    for (const auto& [rank, n] : counts) {
      FlightDump& dump = dumps_[rank];
      dump.groups[group] = members;
      if (n == least && !some_missing) {
        // With nothing beyond what all have launched there is nothing to say of this kind.
        const bool any_ahead =
            std::ranges::any_of(counts, [&](const auto& other) { return other.second > least; });
        if (!any_ahead) continue;
      }
      const std::int64_t first = std::max<std::int64_t>(least, 1);
      for (std::int64_t seq = first; seq <= std::min(n, first + kMostRasCalls); ++seq) {
        FlightEntry entry;
        entry.group = group;
        entry.seq = seq;
        entry.op = *function_of(function);
        entry.may_be_uneven = true;
        entry.on_device = true;
        entry.completed = seq == least && !some_missing;  // All have launched it.
        dump.entries.push_back(std::move(entry));
      }
    }
  }

  std::string path_;
  std::optional<Error>* error_;
  std::string library_;
  std::vector<Object> communicators_;
  std::size_t world_ = 0;
  std::map<Place, std::int32_t> rank_at_;
  std::map<std::int32_t, FlightDump> dumps_;
  std::vector<std::string> notes_;
};

/// Where a JSON value that begins at `at` ends, by its brackets; npos: it is cut off.
std::size_t end_of_object(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

struct ParsedJson {
  NcclJson json;
  std::optional<Error> error;
};

/// `begin` is where `part` lies in the file `text`.
ParsedJson parse(std::string_view text, std::size_t begin, std::string_view part) {
  try {
    return {NcclJson::parse(part.begin(), part.end()), std::nullopt};
  } catch (const NcclJson::exception& error) {  // Numbers may overflow, too.
    const auto* const syntax = dynamic_cast<const NcclJson::parse_error*>(&error);
    const std::size_t byte = syntax == nullptr ? 1 : std::max<std::size_t>(syntax->byte, 1);
    return {{}, Error{"not valid JSON", line_and_column(text, begin + byte - 1)}};
  }
}

/// Makes a dump of an Inspector file.
class InspectorReader {
 public:
  explicit InspectorReader(std::string_view text) : text_(text) {
    dump_.source = CallSource::kInspector;
    dump_.version = "4";
    dump_.library = "nccl";
  }

  Result<FlightDump> read() {
    for (std::size_t at = 0; !error_;) {
      at = text_.find_first_not_of(" \t\r\n", at);
      if (at == std::string_view::npos) break;
      if (text_[at] != '{') return Error{"an object must begin here", line_and_column(text_, at)};
      const std::size_t end = end_of_object(text_, at);
      if (end == std::string_view::npos) {
        dump_.notes.emplace_back("the last object is cut off and left out");
        break;
      }
      const ParsedJson parsed = parse(text_, at, text_.substr(at, end - at));
      if (parsed.error) return *parsed.error;
      add(Object(parsed.json, text_, at, error_));
      at = end;
    }
    if (error_) return *error_;
    if (dump_.rank < 0) return Error{"no object of a collective", line_and_column(text_, 0)};
    finish();
    return std::move(dump_);
  }

 private:
  void add(const Object& object) {
    if (object.find("coll_perf") == nullptr) {
      ++n_others_;
      return;
    }
    const Object header = object.inner("header");
    const Object call = object.inner("coll_perf");
    const auto size = static_cast<std::int32_t>(header.integer("n_ranks", 1, kMostRanks));
    const auto rank = static_cast<std::int32_t>(header.integer("rank", 0, size - 1));
    FlightEntry entry;
    entry.group = header.text("id");
    const std::string function = call.text("coll");
    const std::optional<CollectiveOp> op = function_of(function);
    if (!error_ && !op) call.fail("coll", "unknown collective '" + printable(function) + "'");
    entry.seq = call.integer("coll_sn", 0, INT64_MAX);
    entry.count = call.integer("coll_msg_size_bytes", 0, INT64_MAX);
    const std::int64_t micros = call.integer("coll_exec_time_us", 0, INT64_MAX / 1000);
    const Object metadata = object.inner("metadata");
    const std::int64_t end_us = metadata.integer("dump_timestamp_us", 0, INT64_MAX / 1000);
    if (error_) return;
    entry.op = *op;
    entry.on_device = true;
    entry.completed = true;
    entry.completed_ns = end_us * 1000;
    entry.created_ns = std::max<std::int64_t>(end_us - micros, 0) * 1000;
    dump_.entries.push_back(std::move(entry));
    if (size <= world_size_) return;
    world_size_ = size;
    world_ = header.text("id");
    dump_.rank = rank;
  }

  void finish() {
    std::vector<std::int32_t>& world = dump_.groups[world_];
    for (std::int32_t r = 0; r < world_size_; ++r) world.push_back(r);
    for (FlightEntry& entry : dump_.entries) {
      if (entry.group == world_) entry.description = kWorldGroup;
    }
    // A plugin writes as its thread wakes up, not as calls end.
    std::ranges::stable_sort(dump_.entries, [](const FlightEntry& a, const FlightEntry& b) {
      return std::tie(a.group, a.seq) < std::tie(b.group, b.seq);
    });
    if (n_others_ > 0) {
      dump_.notes.push_back(std::to_string(n_others_) +
                            " objects that are not about a collective are left out");
    }
  }

  std::string_view text_;
  std::optional<Error> error_;
  FlightDump dump_;
  std::int64_t n_others_ = 0;
  std::string world_;
  std::int32_t world_size_ = 0;
};

Error in_file(const Error& error, const std::string& path) {
  return {error.message, path + ":" + error.where};
}

bool has_key(std::string_view bytes, std::string_view key) {
  constexpr std::size_t kFirstPart = 4096;
  const std::size_t begin = bytes.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos || bytes[begin] != '{') return false;
  return bytes.substr(begin, kFirstPart).find("\"" + std::string(key) + "\"") !=
         std::string_view::npos;
}

}  // namespace

bool is_nccl_ras(std::string_view bytes) { return has_key(bytes, "communicators"); }

bool is_nccl_inspector(std::string_view bytes) {
  return has_key(bytes, "header") && has_key(bytes, "coll_perf");
}

Result<std::vector<FlightDump>> read_nccl_ras(std::string_view bytes, const std::string& path) {
  const ParsedJson parsed = parse(bytes, 0, bytes);
  if (parsed.error) return in_file(*parsed.error, path);
  std::optional<Error> error;
  std::vector<FlightDump> dumps =
      RasReader(Object(parsed.json, bytes, 0, error), path, error).read();
  if (error) return in_file(*error, path);
  if (dumps.empty()) return Error{"no rank has answered", path + ":1:1"};
  return dumps;
}

Result<FlightDump> read_nccl_inspector(std::string_view bytes, const std::string& path) {
  Result<FlightDump> dump = InspectorReader(bytes).read();
  if (!dump.ok()) return in_file(dump.error(), path);
  for (std::string& note : dump.value().notes) note.insert(0, path + ": ");
  return dump;
}

}  // namespace lockstep::detail
