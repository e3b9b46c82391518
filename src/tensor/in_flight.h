// Which memory a pending transfer owns, so that any other access to it can be reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/call_site.h"

namespace lockstep {

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
    CallSite site = {};          ///< Where it was posted.
    std::string_view call = {};  ///< "all_reduce", ... (a literal).
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

  void listen(Listener* listener) { listener_ = listener; }

  bool idle() const { return loans_.empty(); }

  void lend(const Loan& loan) {
    loans_.push_back(loan);
    if (loan.written && loan.wrapper < 0) remember(loan);
  }

  void give_back(std::uint64_t work) {
    std::erase_if(loans_, [work](const Loan& loan) { return loan.work == work; });
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
      if (site_.known()) placed.site = site_;
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
    if (site_.known()) access.site = site_;
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

}  // namespace lockstep
