// Reads arbitrary bytes as NCCL's log, and looks for the order of each collective that it has.
#include <array>

#include "lockstep/harness/crosscheck/nccl_log.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

void read_one(std::string_view bytes) {
  const std::array files = {NcclLogFile{"nccl.log", std::string(bytes)}};
  const Result<NcclLog> log = read_nccl_log(files);
  if (!log.ok()) return expect_a_sentence(log.error());
  for (const NcclChoice& choice : log.value().choices) {
    const Result<ReductionOrder> order = order_of(log.value(), choice);
    if (!order.ok()) expect_a_sentence(order.error());
  }
}

}  // namespace lockstep::fuzz
