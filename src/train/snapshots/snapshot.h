// Snapshots of a training loop, between two optimizer steps: all that it takes to continue
// elsewhere as if nothing had happened.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/rank_context.h"
#include "lockstep/train/job.h"
#include "lockstep/train/snapshots/snapshot_contents.h"
#include "lockstep/train/snapshots/snapshot_files.h"

namespace lockstep {

/// Saves and restores one rank's share of a job's state (snapshot_contents.h).
///
/// What all ranks have in common is written once, by rank 0; what each has alone goes into its
/// own file: with local SGD its parameters too. Both are published before rank 0 publishes the
/// manifest, after a collective that confirms that all files are there: half a snapshot is never
/// visible.
///
/// Not saved: how a wrapper had rebuilt its buckets, which shows only where the order of a
/// reduction depends on the bucket (rings of three ranks or more) and in hooks that remember
/// buckets by number (PowerSGD); generators of persistent loader workers, which live in their
/// own processes.
///
/// With a different number of ranks the epoch in progress starts again, since its division differs;
/// new ranks take over what rank 0 had alone, but for streams of augmentation.
///
/// Requires: all ranks see one folder. Everything given outlives it.
/// Errors: CommError; std::runtime_error when a snapshot that rank 0 found whole cannot be read. A
///     snapshot that cannot be written is a `snapshot` event with "fail": training continues.
class Snapshots {
 public:
  Snapshots(const Job& job,
            RankContext& context,
            const SnapshotSubjects& subjects,
            std::int32_t wrapper);

  bool due(std::int64_t step) const {
    const std::int64_t every = job_.loop.snapshot.every_steps;
    return every > 0 && step % every == 0;
  }

  /// Collective. Takes over the newest whole snapshot and returns where to continue; nothing when
  /// training starts from scratch.
  std::optional<LoopPlace> resume();
  /// Collective. Requires: between two optimizer steps.
  void save(const LoopPlace& place);

 private:
  /// Whether this rank writes what all ranks have in common.
  bool writes_common() const;
  LoopPlace load(std::int64_t step);
  SafeTensors read_part(const SnapshotManifest& manifest, const std::string& part);
  /// The place as this job's snapshots tell it.
  LoopPlace as_saved(LoopPlace place) const;
  /// What rank 0 finds in the folder, broadcast to all: a step, or -1.
  std::int64_t agree_on_newest();
  Result<std::int64_t> find_newest();
  /// Publishes one file of this rank and adds it to `published`.
  Outcome publish(std::int64_t step,
                  const std::string& part,
                  const SafeTensors& contents,
                  std::vector<SnapshotManifest::File>& published);
  /// Shares with all ranks what each has published; nothing when one of them has failed.
  std::optional<std::vector<SnapshotManifest::File>> gather(
      std::int64_t step, std::span<const SnapshotManifest::File> published);
  void record_states(StatePoint point) const;
  void record(SnapshotAction action,
              std::int64_t step,
              const std::string& detail,
              std::uint64_t digest = 0) const;

  const Job& job_;
  RankContext& context_;
  SnapshotContents contents_;
  LoopPlace resumed_;  // Where this process began.
  std::int32_t wrapper_;
  SnapshotFiles files_;  // Those that are written,
  SnapshotFiles found_;  // and those that are looked for.
};

}  // namespace lockstep
