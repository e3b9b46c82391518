// What a program does with memory that it has handed to collectives: while a transfer owns it
// (InFlight), and with what a loss gets back from it (ExchangeWatch).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"
#include "lockstep/base/enum_names.h"
#include "lockstep/tensor/kernels.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

class Node;  // autograd/node.h

/// Operations a group offers.
enum class CollectiveOp : std::uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  kSend,
  kRecv,
};
template <>
inline constexpr EnumNames<11> kEnumNames<CollectiveOp> = {"all_reduce",
                                                           "broadcast",
                                                           "reduce",
                                                           "all_gather",
                                                           "reduce_scatter",
                                                           "gather",
                                                           "scatter",
                                                           "all_to_all",
                                                           "barrier",
                                                           "send",
                                                           "recv"};

/// The byte ranges that pending works of one rank own, and what is notified of accesses to them.
///
/// Programs also touch memory past any function of the library. What they read too early is found by
/// its value (tensor/poison.h) and reported by `read_early`; a handle that was dropped without a
/// wait, by `abandoned`.
///
/// `lend` when a work is posted, `give_back` when it has been waited for: whether the transfer has
/// happened to end in between is up to the schedule, and no excuse. Linear in the number of pending
/// works, which is small.
class InFlight {
 public:
  struct Loan {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool written = false;  ///< The transfer writes the range; otherwise it only reads it.
    std::uint64_t work = 0;
    CallSite site = {};  ///< Where it was posted.
    CollectiveOp call = CollectiveOp::kAllReduce;
    std::int32_t group = 0;
    std::int64_t seq = 0;
    std::int32_t wrapper = -1;
    bool reported_read = false;  ///< One reading and one writing access of a loan are reported.
    bool reported_write = false;
  };

  /// How a loan was violated.
  enum class Manner : std::uint8_t {
    kNone,       ///< By an operation on the memory.
    kValue,      ///< A value was found elsewhere that the memory held while the transfer owned it.
    kAbandoned,  ///< The handle was dropped without a wait: what it wrote must not be used.
  };

  /// What the rank does to memory.
  struct Access {
    std::string_view operation = {};  ///< "element", "add_scaled", ... (a literal).
    bool writes = false;
    CallSite site = {};
    Manner manner = Manner::kNone;
  };

  /// Notified of each access that violates a loan.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_touch(const Loan& loan, const Access& access) = 0;
  };

  InFlight() = default;

  /// Lets `runtime` know how many loans there are. Requires: it outlives this object's use.
  explicit InFlight(Runtime& runtime) : runtime_(&runtime) {
    constexpr std::size_t kUsualLoans = 8;
    loans_.reserve(kUsualLoans);
  }

  void listen(Listener* listener) { listener_ = listener; }

  bool idle() const { return loans_.empty(); }

  void lend(const Loan& loan) {
    loans_.push_back(loan);
    if (runtime_ != nullptr) runtime_->add_watched(1);
    if (loan.written && loan.wrapper < 0) remember(loan);
  }

  void give_back(std::uint64_t work) {
    const std::size_t n_returned =
        std::erase_if(loans_, [work](const Loan& loan) { return loan.work == work; });
    if (runtime_ != nullptr) runtime_->add_watched(-static_cast<std::int64_t>(n_returned));
  }

  /// The loan an access to [begin, end) would violate, or null. Reading a range that is only read
  /// is fine.
  const Loan* touched(const std::byte* begin, const std::byte* end, bool writes) const {
    for (const Loan& loan : loans_) {
      if (violates(loan, begin, end, writes)) return &loan;
    }
    return nullptr;
  }

  /// Notifies the listener of every loan that this access violates. An access without its own site
  /// happens at the current one (AccessSite).
  void access(const std::byte* begin, const std::byte* end, const Access& access) {
    if (listener_ == nullptr) return;
    for (Loan& loan : loans_) {
      bool& reported = access.writes ? loan.reported_write : loan.reported_read;
      if (reported || !violates(loan, begin, end, access.writes)) continue;
      reported = true;
      Access placed = access;
      placed.site = place_of(access);
      listener_->on_touch(loan, placed);
    }
  }

  /// A value turned up that memory of transfer `number` (of which the lower 16 bits count; 0: not
  /// known, the last one) held before it had ended. Transfers of long ago are not known any more.
  void read_early(std::uint16_t number, Access access) {
    access.manner = Manner::kValue;
    for (Loan& loan : loans_) {
      if (loan.written && is_number(loan, number)) return tell(loan, access);
    }
    for (Loan& loan : past_) {
      if (is_number(loan, number)) return tell(loan, access);
    }
  }

  /// The last handle of `work` is gone, and it was not waited for.
  void abandoned(std::uint64_t work) {
    for (Loan& loan : loans_) {
      if (loan.work == work && loan.written) {
        return tell(loan, {.manner = Manner::kAbandoned});
      }
    }
  }

 private:
  friend class AccessSite;

  /// The current place, the access's own, or that of the call which the program makes.
  CallSite place_of(const Access& access) const {
    if (site_.known()) return site_;
    if (access.site.known() || runtime_ == nullptr) return access.site;
    return runtime_->call_site_or({});
  }

  static bool is_number(const Loan& loan, std::uint16_t number) {
    return number == 0 || (loan.work & 0xFFFFU) == number;
  }

  void remember(const Loan& loan) {
    if (past_.size() < kRemembered) {
      past_.push_back(loan);
    } else {
      past_[n_remembered_ % kRemembered] = loan;
    }
    ++n_remembered_;
  }

  void tell(Loan& loan, Access access) {
    if (listener_ == nullptr || loan.reported_read) return;
    loan.reported_read = true;
    access.site = place_of(access);
    listener_->on_touch(loan, access);
  }

  static bool violates(const Loan& loan,
                       const std::byte* begin,
                       const std::byte* end,
                       bool writes) {
    return begin < loan.end && loan.begin < end && (writes || loan.written);
  }

  std::vector<Loan> loans_;
  static constexpr std::size_t kRemembered = 32;
  std::vector<Loan> past_;  // The last that the program's own transfers wrote, given back or not.
  std::size_t n_remembered_ = 0;
  Listener* listener_ = nullptr;
  Runtime* runtime_ = nullptr;
  CallSite site_;
};

/// For as long as it lives, accesses are reported at `site`: what an interpreter of programs knows
/// and the library below it does not.
class AccessSite {
 public:
  /// Requires: `in_flight` (null: memory is not watched) outlives it.
  AccessSite(InFlight* in_flight, const CallSite& site) : in_flight_(in_flight) {
    if (in_flight_ == nullptr) return;
    before_ = in_flight_->site_;
    in_flight_->site_ = site;
  }

  ~AccessSite() {
    if (in_flight_ != nullptr) in_flight_->site_ = before_;
  }

  AccessSite(const AccessSite&) = delete;
  AccessSite& operator=(const AccessSite&) = delete;
  AccessSite(AccessSite&&) = delete;
  AccessSite& operator=(AccessSite&&) = delete;

 private:
  InFlight* in_flight_;
  CallSite before_;
};

/// Collectives that send what a graph has computed, and whether what they return takes part in the
/// backward that follows.
///
/// The mean over ranks of the gradients is the gradient of the mean loss only if the gradient of
/// each rank's result reaches what every other rank sent: the backward has to make a collective, too.
/// Storages carry one bit for each exchange that is watched (Origin), operations pass them on.
class ExchangeWatch {
 public:
  /// How the result joined the graph, as in ExchangeJoin (trace/event.h).
  enum class Join : std::uint8_t { kConstant, kInPlace, kFunction };

  struct Exchange {
    CollectiveOp call = CollectiveOp::kAllReduce;
    ReduceOp reduce = ReduceOp::kSum;
    std::int32_t group = 0;
    std::int64_t seq = 0;
    std::int32_t n_ranks = 1;
    CallSite site = {};
    std::int32_t step = 0;  ///< Filled in by the listener.
    bool grad = true;
    Join join = Join::kConstant;
    bool dropped = false;
    bool answered = false;
    bool scaled = false;
    std::uint64_t arrived = 0;
  };

  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void on_call(Exchange& exchange) = 0;
    /// It entered the loss of a backward that has ended, or it was dropped.
    virtual void on_exchange(const Exchange& exchange) = 0;
  };

  ExchangeWatch() = default;

  /// Lets `runtime` know how many exchanges are open. Requires: it outlives this object's use.
  explicit ExchangeWatch(Runtime& runtime) : runtime_(&runtime) {}

  void listen(Listener* listener) { listener_ = listener; }

  /// Whether nothing has to be passed on.
  bool idle() const { return n_open_ == 0; }

  /// The memory of a call.
  struct Ends {
    std::span<Storage* const> results;
    const Storage* place = nullptr;  ///< The graph's own storage, if that is overwritten.
    const Storage* sent = nullptr;   ///< The graph's own storage that was sent, or null.
  };

  /// A collective begins.
  void begin(const Exchange& exchange, const Ends& ends);
  /// A call was made during a backward: it answers the last exchange of its group that none has
  /// answered yet.
  void answer(std::int32_t group);
  /// Values of this origin were looked at.
  void on_read(std::uint32_t origin);
  /// A result's storage ends.
  void on_gone(const Storage& storage);
  /// `node`, a differentiable function, returned values of this origin, which are new to the graph.
  void on_function(std::uint32_t origin, const Node& node);
  /// `producer` takes the gradient of `storage`, which carries exchanges or was sent.
  void on_edge(const Storage& storage, const Node& producer);

  /// Whether `origin` carries an exchange whose constant has met what was sent in no operation yet.
  bool may_meet(std::uint32_t origin) const;
  /// Who takes the gradient of what exchange `slot` has sent; null: not known, or not asked for.
  const Node* sender(std::uint32_t slot, std::uint32_t origin) const;
  /// `node` computed values of this `digest` from the constant of exchange `slot` and from what was sent.
  void on_meeting(std::uint32_t slot, const Node& node, std::uint64_t digest);

  /// A backward begins that nothing surrounds, from a loss of this origin.
  void begin_backward(std::uint32_t origin);
  void end_backward();

  /// The exchanges that values of this origin were computed from, or are: what an operation passes on
  /// from what it reads.
  std::uint32_t carried(std::uint32_t origin) const {
    return direct(origin) | (is_current(origin) ? Origin::derived(origin) : 0U);
  }

  /// The origin of what an operation has written: `carried` is what it has read. `whole`: all of the
  /// storage.
  std::uint32_t written(std::uint32_t origin, std::uint32_t carried, bool whole) const;

  /// Whether gradients of the backward that runs are asked for.
  bool in_loss() const { return n_in_loss_ > 0; }

  /// Whether the gradient that arrives at `node` is asked for.
  bool wants(const Node& node) const;
  void on_arrival(const Node& node, std::uint64_t digest);

  /// A gradient of one element.
  struct Slope {
    const Node* node = nullptr;
    double value = 0.0;
  };

  void on_slope(const Slope& slope) { slopes_.push_back(slope); }

  std::span<const Slope> slopes() const { return slopes_; }

  /// After a backward and before its end: sets `scaled` of the exchanges in its loss that it has not
  /// answered to is_scaled(node that takes the result's gradient, number of ranks).
  template <typename IsScaled>
  void note_scaled(const IsScaled& is_scaled) {
    for (Slot& slot : slots_) {
      if (!slot.open || !slot.in_loss || slot.exchange.answered || slot.producer == nullptr)
        continue;
      slot.exchange.scaled = is_scaled(*slot.producer, slot.exchange.n_ranks);
    }
  }

 private:
  struct Slot {
    Exchange exchange;
    const Storage* result = nullptr;
    const Storage* place = nullptr;
    const Storage* sent = nullptr;
    const Node* producer = nullptr;  // Lives as long as the graph.
    const Node* sender = nullptr;
    std::uint64_t met = 0;         // Of what `producer` computed from a constant.
    std::int32_t n_backwards = 0;  // That it took no part in.
    bool open = false;
    bool read = false;
    bool in_loss = false;
  };

  /// Bits of other windows say nothing: their exchanges are closed.
  bool is_current(std::uint32_t origin) const { return Origin::window(origin) == window_; }

  std::uint32_t direct(std::uint32_t origin) const {
    return is_current(origin) ? Origin::direct(origin) : 0U;
  }

  void close(Slot& slot);
  void report(Slot& slot);

  std::array<Slot, Origin::kSlots> slots_{};
  std::uint32_t window_ = 1;  // Ends when no exchange is open; 0 is that of new storages.
  std::uint32_t next_ = 0;    // Slots are not used again within one window.
  std::uint32_t n_open_ = 0;
  std::uint32_t n_in_loss_ = 0;
  std::vector<Slope> slopes_;  // Of the backward that runs.
  bool in_backward_ = false;
  Listener* listener_ = nullptr;
  Runtime* runtime_ = nullptr;
};

}  // namespace lockstep
