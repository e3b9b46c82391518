// The files of snapshots: how they are published, which of them are whole, which may go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/host.h"
#include "lockstep/train/job_words.h"

namespace lockstep {

/// What one snapshot consists of, with what its files must contain.
struct SnapshotManifest {
  struct File {
    std::string name;
    std::int64_t n_bytes = 0;
    std::uint64_t digest = 0;  ///< sm64 of the bytes.
  };

  std::int64_t step = 0;  ///< Optimizer steps it holds.
  std::int32_t n_ranks = 1;
  std::vector<File> files{};
};

/// Lines of text; the last one is a digest of those before it.
std::string render_manifest(const SnapshotManifest& manifest);
/// Errors: anything that render_manifest() would not have written, such as half of it.
Result<SnapshotManifest> parse_manifest(std::string_view text);

/// The size and digest of a file with these bytes.
SnapshotManifest::File describe_file(std::string name, std::string_view bytes);

/// The snapshots in one folder.
///
/// A snapshot is a file for what all ranks have in common, one per rank for what it has alone, and
/// a manifest. The manifest is published last and removed first, so it never names a file that is
/// not there and whole. Other files may share the folder: only names that are exactly those of a
/// snapshot's files, finished or not, are ever removed.
class SnapshotFiles {
 public:
  /// Requires: `files` outlives it.
  SnapshotFiles(FileSystem& files, std::string folder, PublishManner publish);

  /// "rank-00003", the part of what rank 3 has alone.
  static std::string rank_part(std::int32_t rank);
  /// "step-00000010.model.safetensors" of step 10 and part "model".
  static std::string name_of(std::int64_t step, const std::string& part);
  static std::string manifest_name(std::int64_t step);

  std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  Outcome make_folder() { return files_->make_folder(folder_); }

  /// Publishes one file of the folder in the declared way.
  Outcome publish(const std::string& name, std::string_view bytes);
  Outcome publish(const SnapshotManifest& manifest);

  /// A snapshot that is not whole, and why.
  struct Damage {
    std::int64_t step = 0;
    Error reason;
  };

  /// The newest snapshot whose manifest and files are whole. `skipped` is given the newer ones,
  /// which are not.
  /// Errors: the folder cannot be listed.
  Result<std::optional<SnapshotManifest>> newest_whole(std::vector<Damage>* skipped = nullptr);
  Result<SnapshotManifest> manifest(std::int64_t step);
  /// A file's bytes. Errors: it cannot be read, or is not what the manifest says.
  Result<std::string> read(const SnapshotManifest& manifest, const std::string& name);
  /// Removes all but the newest `keep` snapshots up to `step`, and files that no manifest names,
  /// unfinished ones of the snapshots it keeps included.
  /// Requires: the manifest of `step` is published.
  Outcome prune(std::int64_t step, std::int64_t keep);
  /// Errors: there are snapshots, which a run that begins anew would destroy step by step.
  Outcome check_unused();
  /// Removes the manifests of later steps: they are damaged, or an earlier attempt's of this run.
  Outcome drop_after(std::int64_t step);
  /// Names of manifests whose text or files are damaged: none, as long as publication is atomic.
  Result<std::vector<std::string>> damaged();

 private:
  Outcome check(const SnapshotManifest& manifest);
  Result<std::vector<std::int64_t>> manifests_newest_first();
  Outcome remove_orphans(std::int64_t step, const std::vector<std::int64_t>& kept);

  FileSystem* files_;
  std::string folder_;
  PublishManner publish_;
};

}  // namespace lockstep
