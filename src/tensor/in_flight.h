// Which memory a pending transfer owns, so that a touch by anybody else can be reported.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/call_site.h"

namespace lockstep {

/// The byte ranges that pending works of one rank own.
///
/// `lend` when a work is posted, `give_back` when it has been waited for; `touched` tells whether
/// an access now would meet a pending transfer. Linear in the number of pending works, which is
/// small.
class InFlight {
 public:
  struct Loan {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    bool written = false;  ///< The transfer writes the range; otherwise it only reads it.
    std::uint64_t work = 0;
    CallSite site;
  };

  void lend(const Loan& loan) { loans_.push_back(loan); }

  void give_back(std::uint64_t work) {
    std::erase_if(loans_, [work](const Loan& loan) { return loan.work == work; });
  }

  /// The loan an access to [begin, end) would violate, or null. Reading a range that is only read
  /// is fine.
  const Loan* touched(const std::byte* begin, const std::byte* end, bool writes) const {
    for (const Loan& loan : loans_) {
      const bool overlaps = begin < loan.end && loan.begin < end;
      if (overlaps && (writes || loan.written)) return &loan;
    }
    return nullptr;
  }

 private:
  std::vector<Loan> loans_;
};

}  // namespace lockstep
