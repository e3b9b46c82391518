// Traces as dumps of PyTorch's Flight Recorder, for the viewers that read those.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "lockstep/base/text.h"
#include "lockstep/formats/detail/plain_pickle.h"
#include "lockstep/formats/flight_recorder.h"

namespace lockstep {

namespace {

using detail::PlainPickle;

bool is_message(CollectiveOp op) { return op == CollectiveOp::kSend || op == CollectiveOp::kRecv; }

/// As dumps call element types.
std::string_view type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "Float";
    case DType::kF64:
      return "Double";
    case DType::kF16:
      return "Half";
    case DType::kBF16:
      return "BFloat16";
    case DType::kI8:
      return "Char";
    case DType::kU8:
      return "Byte";
    case DType::kI32:
      return "Int";
    case DType::kI64:
      return "Long";
    case DType::kBool:
      return "Bool";
  }
  return "Byte";
}

/// A call with how it ended.
struct Call {
  CollectiveEvent posted;
  std::int64_t created_ns = 0;
  std::optional<std::int64_t> completed_ns = {};
  std::int64_t n_collectives = 0;  ///< Of its group, this one included unless it is a message.
  std::int64_t n_messages = 0;
};

using Members = std::map<std::int32_t, std::vector<std::int32_t>>;

std::string list_of(std::span<const std::int32_t> ranks) { return "[" + join(ranks) + "]"; }

/// All ranks, and the text that each of the dumps has of them.
struct World {
  explicit World(std::int32_t n_ranks) : ranks(static_cast<std::size_t>(n_ranks)) {
    std::iota(ranks.begin(), ranks.end(), 0);
    text = list_of(ranks);
  }

  std::vector<std::int32_t> ranks;
  std::string text;
};

/// One rank's calls, in the order in which they were made.
class RankCalls {
 public:
  explicit RankCalls(std::span<const Event> events, const World& world) {
    members_[0] = world.ranks;
    for (const Event& event : events) {
      if (const auto* group = std::get_if<GroupEvent>(&event.body)) {
        members_[group->group].assign(group->members.begin(), group->members.end());
      } else if (const auto* call = std::get_if<CollectiveEvent>(&event.body)) {
        note(event, *call);
      }
    }
  }

  const std::vector<Call>& all() const { return calls_; }

  const Members& members() const { return members_; }

  /// The rank's own number in a group.
  std::int64_t own(std::int32_t group, std::int32_t rank) const {
    const auto known = members_.find(group);
    if (known == members_.end()) return rank;
    const auto at = std::find(known->second.begin(), known->second.end(), rank);
    return at == known->second.end() ? rank : at - known->second.begin();
  }

  std::int64_t size_of_group(std::int32_t group) const {
    const auto known = members_.find(group);
    return known == members_.end() ? 1 : static_cast<std::int64_t>(known->second.size());
  }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, CollectiveOp, std::int32_t, std::int64_t>;

  static Key key_of(const Event& event, const CollectiveEvent& call) {
    const bool message = is_message(call.signature.op);
    return {event.at.attempt,
            call.group,
            message ? call.signature.op : CollectiveOp::kBarrier,
            message ? call.signature.peer : -1,
            call.seq};
  }

  void note(const Event& event, const CollectiveEvent& call) {
    if (call.phase == CollectivePhase::kPosted) {
      std::int64_t& n = n_collectives_[call.group];
      const bool message = is_message(call.signature.op);
      (message ? n_messages_ : n) += 1;
      open_[key_of(event, call)] = calls_.size();
      calls_.push_back({call, event.time.ns, {}, n, n_messages_});
    } else if (call.phase == CollectivePhase::kCompleted) {
      const auto known = open_.find(key_of(event, call));
      if (known != open_.end()) calls_[known->second].completed_ns = event.time.ns;
    }
  }

  std::vector<Call> calls_;
  Members members_;
  std::map<Key, std::size_t> open_;
  std::map<std::int32_t, std::int64_t> n_collectives_;
  std::int64_t n_messages_ = 0;
};

/// Writes the dump of one rank.
class DumpText {
 public:
  DumpText(const RankCalls& calls, const World& world, std::int32_t rank, std::string library)
      : calls_(&calls), world_(&world), rank_(rank), library_(std::move(library)) {}

  std::string render() {
    out_.open_dict().text("version").text("2.10");
    out_.text("comm_lib_version").text(library_);
    write_groups();
    out_.text("entries").open_list();
    std::int64_t n = 0;
    for (const Call& call : calls_->all()) write_call(call, n++);
    out_.close_list().close_dict();
    return out_.finish();
  }

 private:
  void write_groups() {
    out_.text("pg_config").open_dict();
    for (const auto& [group, members] : calls_->members()) {
      const std::string name = std::to_string(group);
      out_.text(name).open_dict().text("name").text(name).text("desc").text(description(group));
      out_.text("ranks").text(members == world_->ranks ? world_->text : list_of(members));
      out_.close_dict();
    }
    out_.close_dict().text("pg_status").open_dict().close_dict();
  }

  static std::string_view description(std::int32_t group) {
    return group == 0 ? "default_pg" : "undefined";
  }

  void write_call(const Call& call, std::int64_t n) {
    const CollectiveEvent& event = call.posted;
    const bool message = is_message(event.signature.op);
    out_.open_dict();
    out_.text("record_id").integer(n).text("pg_id").integer(event.group);
    out_.text("process_group").open_list().text(std::to_string(event.group));
    out_.text(description(event.group)).close_list();
    out_.text("collective_seq_id").integer(call.n_collectives);
    out_.text("p2p_seq_id").integer(call.n_messages);
    out_.text("op_id").integer(n + 1).text("profiling_name").text(profiling_name(event));
    write_shapes(event);
    write_times(call);
    out_.text("timeout_ms").integer(0).text("is_p2p").flag(message);
    write_frames(event.signature.site);
    out_.close_dict();
  }

  std::string profiling_name(const CollectiveEvent& event) const {
    const Signature& signature = event.signature;
    std::string name = signature.device == Device::kCuda ? "nccl:" : "gloo:";
    name += name_of(signature.op);
    if (!is_message(signature.op)) return name;
    name += " " + std::to_string(calls_->own(event.group, rank_));
    name += signature.op == CollectiveOp::kSend ? "->" : "<-";
    return name + (signature.peer < 0 ? "?" : std::to_string(signature.peer));
  }

  /// Ranks trace how many elements a call has, not their shape.
  void write_shapes(const CollectiveEvent& event) {
    const Signature& signature = event.signature;
    const std::int64_t n = calls_->size_of_group(event.group);
    std::int64_t outputs = signature.count;
    if (signature.op == CollectiveOp::kAllGather) outputs *= n;
    if (signature.op == CollectiveOp::kReduceScatter) outputs /= std::max<std::int64_t>(n, 1);
    const auto write = [&](const char* sizes, const char* types, std::int64_t count) {
      const bool any = signature.op != CollectiveOp::kBarrier;
      out_.text(sizes).open_list();
      if (any) out_.open_list().integer(count).close_list();
      out_.close_list().text(types).open_list();
      if (any) out_.text(type_of(signature.dtype));
      out_.close_list();
    };
    write("input_sizes", "input_dtypes", signature.count);
    write("output_sizes", "output_dtypes", outputs);
  }

  void write_times(const Call& call) {
    const bool done = call.completed_ns.has_value();
    out_.text("time_created_ns").integer(call.created_ns);
    out_.text("state").text(done ? "completed" : "scheduled");
    out_.text("time_discovered_started_ns").none().text("time_discovered_completed_ns");
    if (done) {
      out_.integer(*call.completed_ns);
    } else {
      out_.none();
    }
    out_.text("retired").flag(done);
  }

  void write_frames(const CallSite& site) {
    out_.text("frames").open_list();
    if (site.file != nullptr && *site.file != '\0') {
      out_.open_dict().text("name").text("").text("filename").text(site.file);
      out_.text("line").integer(site.line).close_dict();
    }
    out_.close_list();
  }

  const RankCalls* calls_;
  const World* world_;
  std::int32_t rank_;
  std::string library_;
  PlainPickle out_;
};

}  // namespace

Result<std::vector<FlightFile>> render_flight_recorder(const MemoryTrace& trace,
                                                       const TraceHeader& header) {
  constexpr std::int32_t kMostRanks = 4096;
  if (header.n_ranks > kMostRanks) {
    return Error{"dumps of " + std::to_string(header.n_ranks) +
                     " ranks, each of which names all ranks, would be too large; the most are " +
                     std::to_string(kMostRanks),
                 {}};
  }
  const World world(header.n_ranks);
  std::vector<FlightFile> files;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    const RankCalls calls(trace.events(Rank{rank}), world);
    files.push_back({"trace_rank_" + std::to_string(rank),
                     DumpText(calls, world, rank, header.library).render()});
  }
  return files;
}

}  // namespace lockstep
