// `lockstep merge`: the parts that shards left, as if one process had done it all.
#include <filesystem>

#include "lockstep/base/disk_files.h"
#include "lockstep/harness/cli/commands.h"
#include "lockstep/harness/cli/explore_report.h"
#include "lockstep/harness/cli/zoo.h"

namespace lockstep::cli {

std::string library_name() { return "lockstep " LOCKSTEP_VERSION; }

Result<explore::Shard> shard_of(const std::string& shard, const std::string& part) {
  Result<explore::Shard> read = explore::parse_shard(shard);
  if (!read.ok()) return Error{read.error().message, "--shard"};
  const auto folder = std::filesystem::absolute(part).parent_path();
  std::error_code failed;
  if (std::filesystem::is_directory(folder, failed)) return read;
  return Error{"there is no folder " + folder.string(), "--part"};
}

ExitCode write_part(const std::string& path,
                    const explore::PartHeader& header,
                    const std::vector<std::string>& lines,
                    const ShardVerdict& verdict,
                    Terminal& terminal) {
  DiskFiles files;
  const Outcome written = files.publish(path, explore::render_part(header, lines));
  if (!written.ok()) return bad_input(terminal, written.error().text());
  terminal.out << "shard " << text_of(header.shard) << ": " << verdict.text << "\nwrote " << path
               << "\n";
  return verdict.all_well ? ExitCode::kOk : ExitCode::kFindings;
}

ExitCode merge(const MergeArguments& arguments, Terminal& terminal) {
  const auto parts = explore::read_parts(arguments.parts);
  if (!parts.ok()) return bad_input(terminal, parts.error().text());
  switch (parts.value().front().header().work) {
    case explore::SharedWork::kRuns:
      return merge_runs(parts.value(), arguments, terminal);
    case explore::SharedWork::kJobs:
      return merge_jobs(parts.value(), arguments, terminal);
    case explore::SharedWork::kScenarios:
      return merge_zoo(parts.value(), arguments, terminal);
  }
  return ExitCode::kInternal;
}

}  // namespace lockstep::cli
