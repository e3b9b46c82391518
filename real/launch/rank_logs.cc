#include "lockstep/real/launch/rank_logs.h"

#include <filesystem>
#include <unistd.h>
#include <utility>

namespace lockstep::launch {

namespace {

constexpr std::array<const char*, 2> kStreams = {"stdout", "stderr"};

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

}  // namespace

std::string render_prefix(const LaunchOptions& options, std::int32_t local_rank) {
  const std::int32_t rank = options.node_rank * options.n_per_node + local_rank;
  const std::array<std::pair<std::string, std::string>, 4> macros = {
      {{"${role_name}", options.role},
       {"${local_rank}", std::to_string(local_rank)},
       {"${rank}", std::to_string(rank)},
       {"${hostname}", host_name()}}};
  std::string text = options.prefix;
  for (const auto& [macro, value] : macros) {
    for (std::size_t at = text.find(macro); at != std::string::npos;
         at = text.find(macro, at + value.size())) {
      text.replace(at, macro.size(), value);
    }
  }
  return text;
}

RankLogs::RankLogs(const LaunchOptions& options, const RunFolders& folders, std::int32_t attempt)
    : options_(options), folders_(folders), attempt_(attempt) {}

Outcome RankLogs::add(std::int32_t local_rank) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const std::string folder = rank_folder(folders_, attempt_, local_rank);
  fs::create_directories(folder, failed);
  if (failed) return Error{"cannot make the folder: " + failed.message(), folder};
  for (std::size_t stream = 0; stream < kStreams.size(); ++stream) {
    if (options_.duplicates[stream].empty() || duplicates_[stream]) continue;
    const fs::path path =
        fs::path(folder).parent_path() / (std::string("filtered_") + kStreams[stream] + ".log");
    duplicates_[stream] = std::make_shared<Duplicates>();
    duplicates_[stream]->texts = options_.duplicates[stream];
    duplicates_[stream]->file.open(path, std::ios::binary);
    if (!duplicates_[stream]->file) return Error{"cannot write this file", path.string()};
  }
  return success();
}

std::string RankLogs::file_of(std::int32_t local_rank, std::int32_t stream) const {
  return rank_folder(folders_, attempt_, local_rank) + "/" +
         kStreams[static_cast<std::size_t>(stream)] + ".log";
}

std::array<std::string, 2> RankLogs::files(std::int32_t local_rank) const {
  std::array<std::string, 2> files;
  for (const std::int32_t stream : {0, 1}) {
    const bool redirected = options_.redirects.contains(local_rank, stream);
    if (!redirected || options_.tee.contains(local_rank, stream)) continue;
    files[static_cast<std::size_t>(stream)] = file_of(local_rank, stream);
  }
  return files;
}

WorkerOutput RankLogs::output(std::int32_t local_rank,
                              std::int32_t stream,
                              std::ostream& terminal) const {
  const bool copied = options_.tee.contains(local_rank, stream);
  const bool shown = !options_.shown || options_.shown->contains(local_rank);
  return WorkerOutput(render_prefix(options_, local_rank),
                      shown ? &terminal : nullptr,
                      copied ? file_of(local_rank, stream) : "",
                      copied ? duplicates_[static_cast<std::size_t>(stream)] : nullptr);
}

std::array<WorkerOutput, 2> RankLogs::outputs(std::int32_t local_rank,
                                              std::ostream& out,
                                              std::ostream& err) const {
  return {output(local_rank, 0, out), output(local_rank, 1, err)};
}

}  // namespace lockstep::launch
