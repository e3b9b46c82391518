#include "lockstep/formats/detail/flight_dump.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "lockstep/base/text.h"
#include "lockstep/formats/detail/pickle_text.h"

namespace lockstep::detail {

namespace {

using FlightJson = nlohmann::json;

// The names that process groups give their calls. Those of one row move the same data.
constexpr KnownCall kKnownCalls[] = {
    {"all_reduce", CollectiveOp::kAllReduce},
    {"allreduce_coalesced", CollectiveOp::kAllReduce},
    {"broadcast", CollectiveOp::kBroadcast},
    {"_broadcast_oop", CollectiveOp::kBroadcast},
    {"reduce", CollectiveOp::kReduce},
    {"_reduce_oop", CollectiveOp::kReduce},
    {"all_gather", CollectiveOp::kAllGather},
    {"_all_gather_base", CollectiveOp::kAllGather},
    {"all_gather_single", CollectiveOp::kAllGather},
    {"all_gather_v", CollectiveOp::kAllGather, true},
    {"all_gather_into_tensor_coalesced", CollectiveOp::kAllGather},
    {"allgather_coalesced", CollectiveOp::kAllGather},
    {"ALLGATHER_coalesced", CollectiveOp::kAllGather},
    {"reduce_scatter", CollectiveOp::kReduceScatter},
    {"_reduce_scatter_base", CollectiveOp::kReduceScatter},
    {"reduce_scatter_single", CollectiveOp::kReduceScatter},
    {"reduce_scatter_v", CollectiveOp::kReduceScatter, true},
    {"reduce_scatter_tensor_coalesced", CollectiveOp::kReduceScatter},
    {"REDUCE_SCATTER_coalesced", CollectiveOp::kReduceScatter},
    {"gather", CollectiveOp::kGather},
    {"gather_single", CollectiveOp::kGather},
    {"scatter", CollectiveOp::kScatter},
    {"all_to_all", CollectiveOp::kAllToAll, true},
    {"all_to_all_single", CollectiveOp::kAllToAll, true},
    {"all_to_all_v_single", CollectiveOp::kAllToAll, true},
    {"barrier", CollectiveOp::kBarrier},
    {"all_reduce_barrier", CollectiveOp::kBarrier},
    {"split", CollectiveOp::kBarrier},
    {"new_window", CollectiveOp::kBarrier},
    {"send", CollectiveOp::kSend},
    {"recv", CollectiveOp::kRecv},
};

struct KnownType {
  std::string_view name;
  DType dtype;
};

// Types that only travel are distinguished by their size.
constexpr KnownType kKnownTypes[] = {
    {"Float", DType::kF32},
    {"Double", DType::kF64},
    {"Half", DType::kF16},
    {"BFloat16", DType::kBF16},
    {"Char", DType::kI8},
    {"Byte", DType::kU8},
    {"Int", DType::kI32},
    {"Long", DType::kI64},
    {"Bool", DType::kBool},
    {"Short", DType::kF16},
    {"ComplexFloat", DType::kI64},
    {"UInt32", DType::kI32},
    {"UInt64", DType::kI64},
    {"UInt16", DType::kF16},
};

/// Where the text that begins at `begin` ends: its closing quotation mark.
std::size_t end_of_text(std::string_view json, std::size_t begin) {
  std::size_t end = begin + 1;
  while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2U : 1U;
  return end;
}

/// Where the objects in the list "entries" begin, so that an error can say where it is.
std::vector<std::size_t> places_of_entries(std::string_view json) {
  constexpr std::string_view kEntries = "\"entries\"";
  constexpr std::string_view kOpening = "{[";
  constexpr std::string_view kClosing = "}]";
  std::vector<std::size_t> places;
  std::size_t depth = 0;
  bool inside = false;  // Of the list.
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '"') {
      inside = inside || (depth == 1 && json.substr(i).starts_with(kEntries));
      i = end_of_text(json, i);
    } else if (kOpening.find(json[i]) != std::string_view::npos) {
      if (inside && depth == 2) places.push_back(i);
      ++depth;
    } else if (kClosing.find(json[i]) != std::string_view::npos) {
      --depth;
      inside = inside && depth >= 2;
    }
  }
  return places;
}

/// The last number in a file's name.
std::optional<std::int32_t> rank_in_name(const std::string& path) {
  const std::string name = std::filesystem::path(path).stem().string();
  const std::size_t last = name.find_last_of("0123456789");
  if (last == std::string::npos) return std::nullopt;
  std::size_t first = last;
  while (first > 0 && name[first - 1] >= '0' && name[first - 1] <= '9') --first;
  std::int32_t rank = -1;
  const auto read = std::from_chars(name.data() + first, name.data() + last + 1, rank);
  if (read.ec != std::errc() || rank >= kMostRanks) return std::nullopt;
  return rank;
}

/// Reads the members of one object; the first wrong one is remembered.
class Members {
 public:
  Members(const FlightJson& object, std::string& wrong, std::string& key)
      : object_(&object), wrong_(&wrong), wrong_key_(&key) {}

  const FlightJson* find(const char* key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }

  /// `what` may quote the dump.
  void fail(const char* key, const std::string& what) {
    if (!wrong_->empty()) return;
    *wrong_ = printable(what);
    *wrong_key_ = key;
  }

  std::int64_t integer(const char* key, bool required = true) {
    const FlightJson* const member = find(key);
    if (member != nullptr && member->is_number_integer()) return member->get<std::int64_t>();
    if (member != nullptr || required) fail(key, "'" + std::string(key) + "' must be a number");
    return 0;
  }

  /// Nanoseconds since some beginning: differences of two of them fit.
  std::int64_t time(const char* key, bool required = true) {
    const std::int64_t ns = integer(key, required);
    if (ns < 0) fail(key, "'" + std::string(key) + "' must be 0 or more");
    return ns;
  }

  std::string text(const char* key) {
    const FlightJson* const member = find(key);
    if (member != nullptr && member->is_string()) return member->get<std::string>();
    fail(key, "'" + std::string(key) + "' must be a text");
    return {};
  }

  bool flag(const char* key) {
    const FlightJson* const member = find(key);
    if (member == nullptr) return false;
    if (!member->is_boolean()) fail(key, "'" + std::string(key) + "' must be true or false");
    return member->is_boolean() && member->get<bool>();
  }

  /// Elements of a list of shapes.
  std::int64_t elements(const char* key) {
    const FlightJson* const shapes = find(key);
    if (shapes == nullptr || !shapes->is_array()) {
      fail(key, "'" + std::string(key) + "' must be a list of shapes");
      return 0;
    }
    std::int64_t sum = 0;
    for (const FlightJson& shape : *shapes) {
      std::int64_t product = shape.is_array() ? 1 : 0;
      for (const FlightJson& size : shape) {
        if (!size.is_number_integer() ||
            __builtin_mul_overflow(product, size.get<std::int64_t>(), &product)) {
          fail(key, "a size must be a number");
          return 0;
        }
      }
      if (product < 0 || __builtin_add_overflow(sum, product, &sum)) {
        fail(key, "sizes must be numbers from 0 that fit");
        return 0;
      }
    }
    return sum;
  }

  DType first_type(const char* key, DType otherwise) {
    const FlightJson* const types = find(key);
    if (types == nullptr || !types->is_array() || types->empty()) return otherwise;
    const FlightJson& first = types->front();
    const std::string name = first.is_string() ? first.get<std::string>() : "";
    for (const KnownType& type : kKnownTypes) {
      if (type.name == name) return type.dtype;
    }
    if (name.starts_with("Float8") || name.starts_with("Q")) return DType::kU8;
    fail(key, "unknown type '" + name + "'");
    return otherwise;
  }

 private:
  const FlightJson* object_;
  std::string* wrong_;
  std::string* wrong_key_;
};

bool is_of_pytorch(std::string_view file) {
  return file.find("/torch/") != std::string_view::npos || file.starts_with("torch/") ||
         file.find("<frozen ") != std::string_view::npos;
}

/// The innermost frame outside of PyTorch, by its file's own name.
void read_frames(const FlightJson* frames, FlightEntry& entry) {
  if (frames == nullptr || !frames->is_array()) return;
  for (const FlightJson& frame : *frames) {
    if (!frame.is_object()) continue;
    const auto name = frame.find("filename");
    const auto line = frame.find("line");
    if (name == frame.end() || !name->is_string()) continue;
    if (line == frame.end() || !line->is_number_integer()) continue;
    const auto file = name->get<std::string>();
    if (file.empty() || is_of_pytorch(file)) continue;
    entry.file = std::filesystem::path(file).filename().string();
    entry.line = line->get<std::int32_t>();
    return;
  }
}

/// Turns one file into a dump.
class DumpReader {
 public:
  DumpReader(std::string_view text, std::string path, bool has_places)
      : text_(text), path_(std::move(path)), has_places_(has_places) {}

  Result<FlightDump> read() {
    FlightJson json;
    try {
      json = FlightJson::parse(text_.begin(), text_.end());
    } catch (const FlightJson::exception& error) {  // Numbers may overflow, too.
      const auto* const syntax = dynamic_cast<const FlightJson::parse_error*>(&error);
      const std::size_t byte = syntax == nullptr ? 1 : std::max<std::size_t>(syntax->byte, 1);
      return Error{"neither valid JSON nor a pickle",
                   path_ + ":" + line_and_column(text_, byte - 1)};
    }
    if (!json.is_object()) return Error{"a dump is one object", path_ + ":1:1"};
    read_header(json);
    if (wrong_.empty()) read_groups(json);
    const auto entries = json.find("entries");  // Left out by PyTorch where there are none.
    if (wrong_.empty() && entries != json.end()) read_entries(*entries, json);
    if (wrong_.empty()) return std::move(dump_);
    return Error{prefix_ + wrong_, place()};
  }

 private:
  std::string place() const {
    if (!has_places_) return path_;
    std::size_t at = text_.find("\"" + wrong_key_ + "\"", entry_at_);
    if (at == std::string_view::npos) at = entry_at_;
    return path_ + ":" + line_and_column(text_, at);
  }

  void read_header(const FlightJson& json) {
    Members members(json, wrong_, wrong_key_);
    const std::optional<std::int32_t> rank = rank_in_name(path_);
    if (!rank) return members.fail("", "the file's name must end with its rank, as in dump_3.json");
    dump_.rank = *rank;
    if (members.find("version") == nullptr) {
      return members.fail("", "no Flight Recorder dump: it has no member 'version'");
    }
    dump_.version = members.text("version");
    if (wrong_.empty() && !dump_.version.starts_with("2.")) {
      return members.fail("version", "unknown version '" + dump_.version + "', not 2.x");
    }
    for (const char* key : {"comm_lib_version", "nccl_version"}) {
      if (members.find(key) != nullptr) dump_.library = members.text(key);
    }
  }

  /// The numbers of "[0, 1]".
  static void read_ranks(const std::string& list,
                         Members& members,
                         std::vector<std::int32_t>& ranks) {
    const char* next = list.data();
    const char* const end = next + list.size();
    while (next != end) {
      std::int32_t rank = -1;
      const auto read = std::from_chars(next, end, rank);
      next = read.ec == std::errc() ? read.ptr : next + 1;
      if (rank >= kMostRanks) return members.fail("ranks", "more ranks than a world can have");
      if (rank >= 0) ranks.push_back(rank);
    }
  }

  /// "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
  void read_groups(const FlightJson& json) {
    const auto groups = json.find("pg_config");
    if (groups == json.end() || !groups->is_object()) return;
    for (const auto& [name, group] : groups->items()) {
      if (!group.is_object()) continue;
      Members members(group, wrong_, wrong_key_);
      const std::string list = members.find("ranks") == nullptr ? "" : members.text("ranks");
      std::vector<std::int32_t>& ranks = dump_.groups[name];
      read_ranks(list, members, ranks);
    }
  }

  void read_entries(const FlightJson& entries, const FlightJson& json) {
    if (!entries.is_array()) {
      wrong_key_ = "entries";
      wrong_ = "'entries' must be a list";
      return;
    }
    const std::vector<std::size_t> places =
        has_places_ ? places_of_entries(text_) : std::vector<std::size_t>();
    dump_.entries.reserve(entries.size());
    for (std::size_t i = 0; i < entries.size() && wrong_.empty(); ++i) {
      if (i < places.size()) entry_at_ = places[i];
      if (!has_places_) prefix_ = "entry " + std::to_string(i) + ": ";
      if (!entries[i].is_object()) {
        wrong_ = "an entry must be an object";
        return;
      }
      dump_.entries.push_back(entry_of(entries[i], json));
      if (i == 0) {
        dump_.cut = Members(entries[i], wrong_, wrong_key_).integer("record_id", false) > 0;
      }
    }
  }

  FlightEntry entry_of(const FlightJson& object, const FlightJson& json) {
    Members members(object, wrong_, wrong_key_);
    FlightEntry entry;
    read_group_of(members, entry);
    entry.seq = members.find("collective_seq_id") == nullptr ? members.integer("seq_id")
                                                             : members.integer("collective_seq_id");
    read_call(members, entry);
    const bool receives = entry.op == CollectiveOp::kRecv;
    entry.count = members.elements(receives ? "output_sizes" : "input_sizes");
    entry.dtype = members.first_type("output_dtypes", entry.dtype);
    entry.dtype = members.first_type("input_dtypes", entry.dtype);
    entry.created_ns = members.time("time_created_ns");
    entry.completed_ns = members.time("time_discovered_completed_ns", false);
    read_state(members, json, entry);
    read_frames(members.find("frames"), entry);
    return entry;
  }

  /// "process_group": ["0", "default_pg"]; older dumps have a name alone.
  static void read_group_of(Members& members, FlightEntry& entry) {
    entry.group_number = members.integer("pg_id", false);
    if (members.find("process_group") == nullptr) {
      entry.group = members.text("pg_name");
      return;
    }
    const FlightJson& group = *members.find("process_group");
    if (!group.is_array() || group.size() != 2 || !group[0].is_string() || !group[1].is_string()) {
      return members.fail("process_group", "'process_group' must be [name, description]");
    }
    entry.group = group[0].get<std::string>();
    entry.description = group[1].get<std::string>();
  }

  /// "nccl:all_reduce", "nccl:send 0->1", "nccl:recv 1<-0".
  static void read_call(Members& members, FlightEntry& entry) {
    constexpr const char* kKey = "profiling_name";
    const std::string full = members.text(kKey);
    const std::size_t colon = full.rfind(':');
    if (colon == std::string::npos) {
      return members.fail(kKey, "'" + full + "' is not LIBRARY:OPERATION");
    }
    entry.on_device = full.substr(0, colon) != "gloo";
    const std::size_t space = full.find(' ', colon);
    const std::string name = full.substr(colon + 1, space - colon - 1);
    entry.is_marker = name == "coalesced";
    const KnownCall* const known = find_call(name);
    if (known == nullptr) {
      if (!entry.is_marker) members.fail(kKey, "unknown operation '" + name + "'");
      return;
    }
    entry.op = known->op;
    entry.may_be_uneven = known->may_be_uneven;
    if (entry.op != CollectiveOp::kSend && entry.op != CollectiveOp::kRecv) return;
    const std::size_t arrow = full.find_first_of("<-", colon);
    if (arrow == std::string::npos || full.size() <= arrow + 2) {
      return members.fail(kKey, "a message must name its peer");
    }
    const char* const peer = full.data() + arrow + 2;
    if (*peer == '?') return;
    const auto read = std::from_chars(peer, full.data() + full.size(), entry.peer);
    if (read.ec != std::errc()) members.fail(kKey, "a message must name its peer");
  }

  void read_state(Members& members, const FlightJson& json, FlightEntry& entry) const {
    const std::string state = members.text("state");
    if (state != "scheduled" && state != "started" && state != "completed") {
      return members.fail("state", "unknown state '" + state + "'");
    }
    // A backend that does not time its calls leaves them "scheduled" and retires those that ended.
    entry.completed = state == "completed" || members.flag("retired") ||
                      (!members.flag("is_p2p") && entry.seq <= last_completed(json, entry));
  }

  /// "pg_status": {"0": {"last_completed_collective": "4", ...}}, numbers or text.
  static std::int64_t last_completed(const FlightJson& json, const FlightEntry& entry) {
    const auto status = json.find("pg_status");
    if (status == json.end() || !status->is_object()) return -1;
    const auto group = status->find(std::to_string(entry.group_number));
    if (group == status->end() || !group->is_object()) return -1;
    const auto last = group->find("last_completed_collective");
    if (last == group->end()) return -1;
    if (last->is_number_integer()) return last->get<std::int64_t>();
    const std::string text = last->is_string() ? last->get<std::string>() : "";
    std::int64_t number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  std::string_view text_;
  std::string path_;
  bool has_places_;
  std::size_t entry_at_ = 0;
  std::string wrong_;
  std::string wrong_key_;
  std::string prefix_;
  FlightDump dump_;
};

}  // namespace

const KnownCall* find_call(std::string_view name) {
  const auto* const known = std::find_if(std::begin(kKnownCalls),
                                         std::end(kKnownCalls),
                                         [&](const KnownCall& call) { return call.name == name; });
  return known == std::end(kKnownCalls) ? nullptr : known;
}

std::string line_and_column(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return std::to_string(line) + ":" + std::to_string(before.size() - start + 1);
}

Result<FlightDump> read_flight_dump(std::string_view bytes, const std::string& path) {
  if (!is_pickle(bytes)) return DumpReader(bytes, path, true).read();
  const Result<std::string> text = pickle_to_json(bytes);
  if (!text.ok()) {
    return Error{"a pickle that is not a dump: " + text.error().message,
                 path + ": " + text.error().where};
  }
  return DumpReader(text.value(), path, false).read();
}

}  // namespace lockstep::detail
