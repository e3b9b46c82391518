#include "lockstep/formats/flight_recorder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/detail/clog_log.h"
#include "lockstep/formats/detail/flight_dump.h"
#include "lockstep/formats/detail/jsonl_lines.h"
#include "lockstep/formats/detail/nccl_dump.h"

namespace lockstep {

namespace {

using detail::FlightDump;
using detail::FlightEntry;
using detail::kWorldGroup;

/// A process group: its name, and its members, since disjoint groups may share a name.
struct FlightGroup {
  std::string name;
  std::vector<std::int32_t> ranks;  // Empty: unknown.
  friend auto operator<=>(const FlightGroup&, const FlightGroup&) = default;
};

bool is_message(const FlightEntry& entry) {
  return entry.op == CollectiveOp::kSend || entry.op == CollectiveOp::kRecv;
}

/// What a file calls the number of a call.
std::string_view number_of(CallSource source) {
  switch (source) {
    case CallSource::kFlightRecorder:
      return "collective_seq_id";
    case CallSource::kClog:
      return "the log's call";
    case CallSource::kInspector:
      return "coll_sn";
    case CallSource::kRas:
      return "operation";
  }
  return "";
}

/// Where calls of a group begin that every dump has.
struct GroupCalls {
  std::int32_t number = 0;
  std::int64_t first = 0;
  bool cut = false;
  bool is_default = false;
};

/// The groups of one dump.
using GroupsByName = std::map<std::string, GroupCalls*>;

/// Makes one trace of the dumps of all ranks.
class FlightTrace {
 public:
  explicit FlightTrace(std::vector<FlightDump> dumps)
      : dumps_(std::move(dumps)), names_(std::make_shared<NameTable>()) {}

  Result<LoadedTrace> make() {
    LoadedTrace loaded{{}, std::make_shared<MemoryTrace>(names_), {}};
    survey();
    const std::int64_t most = detail::most_ranks(dumps_.size());
    if (n_ranks_ > most) {
      return Error{"these dumps name rank " + std::to_string(n_ranks_ - 1) + "; " +
                       std::to_string(dumps_.size()) + " of them can be of a world of " +
                       std::to_string(most) + " ranks at most",
                   ""};
    }
    number_groups();
    loaded.header.n_ranks = n_ranks_;
    loaded.header.run_id = name_of(dumps_.front().source);
    loaded.header.backend = library_.starts_with("gloo") ? "gloo" : "nccl";
    loaded.header.library = library_.empty() ? "PyTorch" : library_;
    loaded.trace->ensure_ranks(n_ranks_);
    for (std::size_t i = 0; i < dumps_.size(); ++i) {
      add_rank(dumps_[i], by_name_[i], *loaded.trace);
    }
    loaded.notes = notes();
    return loaded;
  }

 private:
  /// An event with its time: posts and completions of one rank in their order.
  struct Timed {
    std::int64_t ns = 0;
    CollectiveEvent event;
  };

  FlightGroup group_of(const FlightDump& dump, const FlightEntry& entry) const {
    const auto known = dump.groups.find(entry.group);
    if (known != dump.groups.end()) return {entry.group, known->second};
    return {entry.group, entry.description == kWorldGroup ? world() : std::vector<std::int32_t>()};
  }

  std::vector<std::int32_t> world() const {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(n_ranks_));
    for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<std::int32_t>(r);
    return ranks;
  }

  void survey() {
    for (const FlightDump& dump : dumps_) {
      n_ranks_ = std::max(n_ranks_, dump.rank + 1);
      if (library_.empty()) library_ = dump.library;
      any_cut_ = any_cut_ || dump.cut;
      for (const auto& [name, ranks] : dump.groups) {
        for (const std::int32_t rank : ranks) n_ranks_ = std::max(n_ranks_, rank + 1);
      }
      for (const FlightEntry& entry : dump.entries) survey(entry);
    }
  }

  void survey(const FlightEntry& entry) {
    first_ns_ = first_ns_ ? std::min(*first_ns_, entry.created_ns) : entry.created_ns;
    if (!entry.completed && !entry.is_marker) stuck_ = true;
    if (library_.empty() && !entry.on_device) library_ = "gloo";
  }

  /// The world is group 0; of every group, the first call that all ranks still know is call 0.
  void number_groups() {
    for (const FlightDump& dump : dumps_) note_groups(dump, by_name_.emplace_back());
    std::int32_t next = 1;
    for (auto& [group, calls] : groups_) calls.number = calls.is_default ? 0 : next++;
  }

  void note_groups(const FlightDump& dump, GroupsByName& by_name) {
    std::set<const GroupCalls*> begun;
    for (const FlightEntry& entry : dump.entries) {
      GroupCalls*& calls = by_name[entry.group];
      if (calls == nullptr) calls = &groups_[group_of(dump, entry)];
      if (entry.description == kWorldGroup) calls->is_default = true;
      if (is_message(entry) || entry.is_marker || !begun.insert(calls).second) continue;
      calls->first = std::max(calls->first, entry.seq);
      calls->cut = calls->cut || dump.cut;
    }
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    notes.reserve(groups_.size() + 1);
    for (const auto& [group, calls] : groups_) {
      std::string note =
          "group " + std::to_string(calls.number) + " is process group '" + group.name + "'";
      if (!group.ranks.empty()) note += " of ranks " + join(group.ranks);
      note += "; its call 0 is ";
      note += number_of(dumps_.front().source);
      note += " " + std::to_string(calls.first);
      if (calls.cut) note += ", the first one that every dump still holds";
      notes.push_back(std::move(note));
    }
    for (const FlightDump& dump : dumps_) {
      notes.insert(notes.end(), dump.notes.begin(), dump.notes.end());
    }
    note_short_files(notes);
    if (any_cut_) notes.emplace_back("messages are left out: older calls were overwritten");
    return notes;
  }

  /// Files that list only what has ended: one that stops earlier is all that shows of a rank that hangs.
  void note_short_files(std::vector<std::string>& notes) const {
    if (dumps_.front().source != CallSource::kInspector) return;
    std::map<std::string, std::int64_t> last;
    for (const FlightDump& dump : dumps_) {
      for (const FlightEntry& entry : dump.entries) {
        std::int64_t& most = last.try_emplace(entry.group, entry.seq).first->second;
        most = std::max(most, entry.seq);
      }
    }
    for (const FlightDump& dump : dumps_) {
      std::map<std::string, std::int64_t> own;
      for (const FlightEntry& entry : dump.entries) own[entry.group] = entry.seq;
      for (const auto& [group, seq] : own) {
        if (seq == last.at(group)) continue;
        notes.push_back("rank " + std::to_string(dump.rank) + " has logged up to coll_sn " +
                        std::to_string(seq) + " of process group '" + group + "', others up to " +
                        std::to_string(last.at(group)) +
                        ": the rest has not ended there, or was not written yet");
      }
    }
  }

  void add_rank(const FlightDump& dump, const GroupsByName& by_name, MemoryTrace& trace) {
    rank_ = Rank{dump.rank};
    index_ = 0;
    for (const auto& [group, calls] : groups_) {
      const bool is_member =
          std::find(group.ranks.begin(), group.ranks.end(), dump.rank) != group.ranks.end();
      if (calls.number == 0 || !is_member) continue;
      add(trace, 0, GroupEvent{.group = calls.number, .members = group.ranks});
    }
    std::int64_t last_ns = 0;
    for (const Timed& timed : events_of(dump, by_name)) {
      last_ns = std::max(last_ns, timed.ns);
      add(trace, timed.ns, timed.event);
    }
    add(trace, last_ns, EndEvent{.outcome = stuck_ ? EndOutcome::kStuck : EndOutcome::kOk});
  }

  void add(MemoryTrace& trace, std::int64_t ns, const EventBody& body) {
    Event event;
    event.rank = rank_;
    event.index = index_++;
    event.time.ns = ns;
    event.at.opt = -1;
    event.body = body;
    trace.on_event(event, *names_);
  }

  std::vector<Timed> events_of(const FlightDump& dump, const GroupsByName& by_name) {
    std::vector<Timed> events;
    std::map<std::int32_t, std::int64_t> n_calls;
    std::map<std::tuple<std::int32_t, CollectiveOp, std::int32_t>, std::int64_t> n_messages;
    for (const FlightEntry& entry : dump.entries) {
      if (entry.is_marker) continue;
      const GroupCalls& calls = *by_name.at(entry.group);
      CollectiveEvent event;
      event.group = calls.number;
      if (is_message(entry)) {
        if (any_cut_ || entry.peer < 0) continue;
        event.seq = n_messages[{calls.number, entry.op, entry.peer}]++;
      } else {
        // Calls that are coalesced share a number; on every rank they come in the same order.
        if (entry.seq < calls.first) continue;
        event.seq = n_calls[calls.number]++;
      }
      event.signature = signature_of(entry);
      const std::int64_t posted = entry.created_ns - *first_ns_;
      events.push_back({posted, event});
      if (!entry.completed) continue;
      event.phase = CollectivePhase::kCompleted;
      event.status = CallStatus::kOk;
      events.push_back({std::max(posted, entry.completed_ns - *first_ns_), event});
    }
    std::stable_sort(
        events.begin(), events.end(), [](const Timed& a, const Timed& b) { return a.ns < b.ns; });
    return events;
  }

  Signature signature_of(const FlightEntry& entry) {
    Signature signature;
    signature.op = entry.op;
    signature.dtype = entry.dtype;
    signature.device = entry.on_device ? Device::kCuda : Device::kCpu;
    signature.async = true;
    signature.peer = entry.peer;
    signature.root = entry.root;
    signature.reduce = entry.reduce;
    signature.count = entry.count;
    signature.splits = entry.may_be_uneven ? 1 : 0;
    if (!entry.file.empty()) {
      signature.site = {names_->text(names_->intern(entry.file)).data(), entry.line, ""};
    }
    return signature;
  }

  std::vector<FlightDump> dumps_;
  std::shared_ptr<NameTable> names_;
  std::map<FlightGroup, GroupCalls> groups_;
  std::vector<GroupsByName> by_name_;  // Of each dump, into groups_.
  std::string library_;
  std::optional<std::int64_t> first_ns_;
  std::int32_t n_ranks_ = 0;
  bool stuck_ = false;
  bool any_cut_ = false;
  Rank rank_{};
  std::uint64_t index_ = 0;
};

/// The dumps of one file: what it is shows in its first bytes.
Result<std::vector<FlightDump>> dumps_in(std::string_view bytes, const std::string& file) {
  if (detail::is_nccl_ras(bytes)) return detail::read_nccl_ras(bytes, file);
  Result<FlightDump> dump = detail::is_clog(bytes) ? detail::read_clog(bytes, file)
                            : detail::is_nccl_inspector(bytes)
                                ? detail::read_nccl_inspector(bytes, file)
                                : detail::read_flight_dump(bytes, file);
  if (!dump.ok()) return dump.error();
  std::vector<FlightDump> dumps;
  dumps.push_back(std::move(dump).value());
  return dumps;
}

/// Adds what one file holds. Errors: a rank that has a dump already; a file of another kind.
Outcome add_dumps(std::vector<FlightDump> more,
                  const std::string& file,
                  std::map<std::int32_t, std::string>& file_of_rank,
                  std::vector<FlightDump>& dumps) {
  for (FlightDump& dump : more) {
    const auto [known, is_new] = file_of_rank.try_emplace(dump.rank, file);
    if (!is_new) {
      return Error{"rank " + std::to_string(known->first) + " has a dump already: " + known->second,
                   file};
    }
    if (!dumps.empty() && dumps.front().source != dump.source) {
      return Error{"is a file of another kind than the first one: check them one by one", file};
    }
    dumps.push_back(std::move(dump));
  }
  return success();
}

}  // namespace

Result<LoadedTrace> read_flight_recorder(std::span<const std::string> files) {
  if (files.empty()) return Error{"no dumps", ""};
  std::vector<FlightDump> dumps;
  std::map<std::int32_t, std::string> file_of_rank;
  for (const std::string& file : files) {
    const Result<std::string> bytes = read_file(file);
    if (!bytes.ok()) return bytes.error();
    Result<std::vector<FlightDump>> read = dumps_in(bytes.value(), file);
    if (!read.ok()) return read.error();
    const Outcome added = add_dumps(std::move(read).value(), file, file_of_rank, dumps);
    if (!added.ok()) return added.error();
  }
  detail::infer_ends(dumps);
  std::sort(dumps.begin(), dumps.end(), [](const FlightDump& a, const FlightDump& b) {
    return a.rank < b.rank;
  });
  Result<LoadedTrace> made = FlightTrace(std::move(dumps)).make();
  if (!made.ok()) return Error{made.error().message, files.front()};
  return made;
}

}  // namespace lockstep
