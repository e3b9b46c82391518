// The pen of one rank of a PyTorch job: events as plain calls, written to the rank's trace file.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/names.h"
#include "lockstep/formats/jsonl.h"
#include "lockstep/python/native/draft.h"
#include "lockstep/python/native/rank_file.h"
#include "lockstep/trace/detail/last_digests.h"
#include "lockstep/trace/event.h"

namespace lockstep::python {

/// Which gradients of a wrapper are noted one by one while a backward runs.
struct GradNote {
  std::int32_t wrapper = 0;
  GradPoint point = GradPoint::kInc;
};

/// Writes one rank's events. Names and lists of names are interned once; positions are kept by
/// wrapper; digests and sketches are computed where the tensors lie. A device is waited for when an event
/// is written, not when a gradient is noted.
///
/// Not synchronised: a Python interpreter's lock is enough. Events are written out by flush(), after
/// every posted collective and every step, so that a killed rank leaves what it did.
class Pen {
 public:
  /// `lazy`: steps are written out with the next posted collective that is not the wrapper's own.
  Pen(std::unique_ptr<RankFile> file, std::int32_t attempt, Rank rank, bool lazy = false);

  NameId name(std::string_view text) { return names_.intern(text); }

  LayoutId layout(std::span<const NameId> names) { return names_.intern_layout(names); }

  /// Where the wrapper's next events stand; -1 = outside any. Requires: wrapper >= -1.
  void place(std::int32_t wrapper, const Position& at);

  /// Records one event at the wrapper's position.
  void write(const EventBody& body, std::int32_t wrapper);
  /// The same of something that happened earlier, at another position.
  void write_at(const Position& at, const EventBody& body, std::int32_t wrapper);

  // -- gradients, one by one as they become ready, then written as one event
  /// The gradients of `wrapper` will be those of `layout`.
  void track(std::int32_t wrapper, LayoutId layout);
  /// Requires: the wrapper is tracked, index within its layout.
  void note(GradNote where, std::size_t index, const TensorView& grad);
  /// The same as was noted at `from`: nothing has been added in between.
  void note_same(GradNote where, GradPoint from, std::size_t index);
  /// Writes what was noted, if anything, and forgets it.
  void write_noted(GradNote where);
  /// Writes the gradients of a layout as they are now; used ones with sketches if they are not those
  /// that were reduced, bit by bit.
  /// Requires: one view for each name.
  void write_grads(GradNote where, LayoutId layout, std::span<const TensorView> grads);
  void write_states(const StateEvent& state,
                    std::span<const TensorView> tensors,
                    std::int32_t wrapper);
  /// Writes those of the wrapper's parameters that are not what was last recorded of them, if any.
  /// Requires: one view for each name.
  void write_found(LayoutId layout, std::span<const TensorView> parameters, std::int32_t wrapper);

  /// Remembers what these buffers hold before rank 0's are broadcast.
  /// Requires: one view for each name.
  void look_at_buffers(LayoutId layout, std::span<const TensorView> buffers, std::int32_t wrapper);
  /// Writes those of them that hold something else now, as they were, if any.
  /// Requires: the last look at this wrapper's was at this layout.
  void write_replaced(LayoutId layout, std::span<const TensorView> buffers, std::int32_t wrapper);

  /// Parameters of a rank that trains alone. Requires: one view for each name of the layout.
  void write_lone(LonePoint point,
                  LayoutId layout,
                  std::span<const TensorView> parameters,
                  std::int32_t wrapper);

  /// The digest of one tensor, as events have it.
  std::uint64_t digest_of(const TensorView& tensor);

  /// What a rank reads: these tensors together. `source`: as in DataEvent.
  void write_data(DataEvent data, std::span<const TensorView> tensors, std::int32_t wrapper);
  /// What a forward was given: `n_rows` of equally many elements, in the host's memory.
  void write_input(NameId argument,
                   const TensorView& tensor,
                   std::int64_t n_rows,
                   std::int32_t wrapper);

  // -- collectives
  /// Records the call and flushes. Returns: a ticket for complete().
  std::int64_t post(std::int32_t group, const Signature& signature, std::int32_t wrapper);
  /// `deadline_s`: one that has not gone well has timed out if it lasted as long; 0: that is not known.
  void complete(std::int64_t ticket, bool ok, double deadline_s, std::int32_t wrapper);

  /// The last `n` collectives of the group were calls of the wrapper's own, and are left out of the
  /// trace: one event stands for them.
  /// Requires: the wrapper's own call of this group has been posted.
  void leave_out(std::int32_t group, std::int64_t n, std::int32_t wrapper);

  /// The call's number among its group's. Requires: it has not been completed.
  std::int64_t seq_of(std::int64_t ticket) const { return open_.at(ticket).seq; }

  /// Requires: it has not been completed.
  std::int32_t group_of(std::int64_t ticket) const { return open_.at(ticket).group; }

  /// The text of a call site's file, alive as long as the pen.
  const char* keep(std::string_view text) { return names_.text(names_.intern(text)).data(); }

  /// Writes an `end` that is taken back if another event follows: the rank seems stuck.
  void end_for_now(const EndEvent& end);

  Outcome flush();

  /// After a step.
  Outcome step_over() { return lazy_ ? success() : flush(); }

  Outcome close();

 private:
  struct Tracked {
    LayoutId layout = kNoLayout;
    std::size_t size = 0;
    Draft drafts[3];  // base, inc, pre
  };

  /// What a wrapper's last reduction left.
  struct Reduced {
    LayoutId layout = kNoLayout;
    std::vector<std::uint64_t> digests;
  };

  /// What a wrapper's state was when it was last looked at.
  struct LastLook {
    detail::LastDigests parameters;
    std::vector<std::uint64_t> buffers;
  };

  struct OpenCall {
    std::int32_t group = 0;
    std::int64_t seq = 0;
    Signature signature;
    VirtualTime posted;
  };

  /// An event that is not a line yet, and what its spans show.
  struct Waiting {
    Event event;
    std::vector<std::int64_t> ids;
    std::vector<std::uint64_t> digests;
  };

  Position& position(std::int32_t wrapper);
  /// Keeps the event, to make a line of it later.
  void keep_waiting(const Event& event);
  /// Makes lines of the events that wait. One after another they cost a third of what each costs
  /// between a training's own operations, which have swept the caches.
  void write_waiting();
  /// Digests without sketches.
  void digest(std::span<const TensorView> tensors);
  /// Whether the draft's gradients are what `reduced` holds of them.
  bool are_as(const Reduced& reduced, LayoutId layout) const;
  std::int64_t next_number(std::int32_t group, const Signature& signature);

  std::unique_ptr<RankFile> file_;
  std::int32_t attempt_;
  Rank rank_;
  bool lazy_;
  NameTable names_;
  std::uint64_t next_index_ = 0;
  std::vector<Waiting> waiting_;  // In their order; empty unless lazy.
  std::string lines_;             // Of those, while they are made.
  std::vector<Position> positions_;
  std::map<std::int32_t, Tracked> tracked_;
  std::map<std::int32_t, Reduced> reduced_;  // By wrapper, until a step has used it.
  std::map<std::int32_t, LastLook> looks_;   // By wrapper.
  std::set<std::int32_t> unreduced_;  // Wrappers that no reduction has followed a backward of.
  std::map<std::tuple<std::int32_t, CollectiveOp, std::int32_t, std::int32_t>, std::int64_t>
      n_posted_;
  std::map<std::int32_t, Signature> last_own_;  // Of wrappers' own calls, by group.
  std::map<std::int64_t, OpenCall> open_;
  std::int64_t n_tickets_ = 0;
  Fingerprinter fingerprinter_;
  Draft scratch_;
};

}  // namespace lockstep::python
