// `lockstep nccl-log`: the orders in which a real run added, for `sim.order`.
#include "lockstep/harness/crosscheck/nccl_log.h"

#include <utility>

#include "lockstep/base/disk_files.h"
#include "lockstep/harness/cli/commands.h"

namespace lockstep::cli {
namespace {

void print_choice(const NcclLog& log, const NcclChoice& choice, Terminal& terminal) {
  terminal.out << choice.function << " of " << choice.bytes << " bytes: " << choice.algorithm
               << ", " << choice.protocol << ", channels " << choice.first_channel << " to "
               << choice.last_channel << ": ";
  const Result<ReductionOrder> order = order_of(log, choice);
  if (order.ok()) {
    terminal.out << "sim.order = \"" << order.value().name() << "\"\n";
  } else {
    terminal.out << "not predicted: " << order.error().text() << "\n";
  }
}

}  // namespace

ExitCode nccl_log(const NcclLogArguments& arguments, Terminal& terminal) {
  std::vector<NcclLogFile> files;
  for (const std::string& path : arguments.files) {
    Result<std::string> text = read_file(path);
    if (!text.ok()) return bad_input(terminal, text.error().text());
    files.push_back({path, std::move(text).value()});
  }
  const Result<NcclLog> log = read_nccl_log(files);
  if (!log.ok()) return bad_input(terminal, log.error().text());
  const NcclLog& read = log.value();
  terminal.out << "NCCL " << (read.version.empty() ? "(version unknown)" : read.version) << ", "
               << read.rings.front().size() << " ranks, " << read.rings.size() << " channels\n";
  for (const NcclChoice& choice : read.choices) print_choice(read, choice, terminal);
  if (read.choices.empty()) {
    terminal.out << "no collective is named: set NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING\n";
  }
  return ExitCode::kOk;
}

}  // namespace lockstep::cli
