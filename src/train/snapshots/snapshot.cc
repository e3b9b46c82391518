#include "lockstep/train/snapshots/snapshot.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/comm/comm_status.h"
#include "lockstep/trace/recorder.h"

namespace lockstep {

namespace {

constexpr std::int64_t kUnreadable = -2;  ///< Rank 0 cannot look into the folder, or use it.
constexpr std::size_t kNumbersPerRank =
    6;  ///< What gather() says of a rank: two files, three each.

void wait_for(const Work& work) {
  const CommStatus status = work.wait();
  if (status != CommStatus::kOk) throw CommError(status, work.signature(), work.detail());
}

const std::string& looked_in(const SnapshotSpec& spec) {
  return spec.looks_in.empty() ? spec.path : spec.looks_in;
}

}  // namespace

Snapshots::Snapshots(const Job& job,
                     RankContext& context,
                     const SnapshotSubjects& subjects,
                     std::int32_t wrapper)
    : job_(job),
      context_(context),
      contents_(job, context, subjects),
      wrapper_(wrapper),
      files_(context.host().files(), job.loop.snapshot.path, job.loop.snapshot.publish),
      found_(context.host().files(), looked_in(job.loop.snapshot), job.loop.snapshot.publish) {}

bool Snapshots::writes_common() const {
  if (job_.loop.snapshot.writer == SnapshotWriter::kRank0) return context_.rank() == 0;
  return parse_int(context_.host().environment("LOCAL_RANK").value_or("0")) == 0;
}

SafeTensors Snapshots::read_part(const SnapshotManifest& manifest, const std::string& part) {
  const std::string name = SnapshotFiles::name_of(manifest.step, part);
  const Result<std::string> bytes = found_.read(manifest, name);
  if (!bytes.ok()) throw std::runtime_error(bytes.error().text());
  record(SnapshotAction::kRead,
         manifest.step,
         found_.path_of(name),
         describe_file(name, bytes.value()).digest);
  Result<SafeTensors> contents = parse_safetensors(context_.runtime(), bytes.value());
  if (!contents.ok()) throw std::runtime_error(name + ": " + contents.error().text());
  return std::move(contents).value();
}

LoopPlace Snapshots::load(std::int64_t step) {
  const Result<SnapshotManifest> manifest = found_.manifest(step);
  if (!manifest.ok()) throw std::runtime_error(manifest.error().text());
  const std::int32_t n_ranks = manifest.value().n_ranks;
  contents_.load_parameters(read_part(manifest.value(), "model"));
  const bool had_own = context_.rank() < n_ranks;
  const std::int32_t owner = had_own ? context_.rank() : 0;
  const SafeTensors own = read_part(manifest.value(), SnapshotFiles::rank_part(owner));
  contents_.load_parameters(own);
  contents_.load_own(own);
  if (contents_.takes(SnapshotPart::kRng)) {
    const bool shares = job_.loop.snapshot.rng == SnapshotRng::kRank0;
    contents_.load_generators(
        shares ? read_part(manifest.value(), SnapshotFiles::rank_part(0)) : own, shares || had_own);
  }
  LoopPlace place = SnapshotContents::place_of(own);
  if (job_.loop.snapshot.epoch == SnapshotEpoch::kFirst) place.epoch = place.batch = 0;
  const bool keeps_count = job_.loop.snapshot.resize == SnapshotResize::kKeepBatches;
  const bool same_share = (n_ranks == context_.world_size() || keeps_count) &&
                          contents_.includes(SnapshotPart::kSampler) &&
                          contents_.takes(SnapshotPart::kSampler);
  if (!same_share && place.batch != LoopPlace::kEndOfEpoch) place.batch = 0;
  return place;
}

Result<std::int64_t> Snapshots::find_newest() {
  const bool elsewhere = !job_.loop.snapshot.looks_in.empty();
  if (Outcome outcome = files_.make_folder(); !outcome.ok()) return outcome.error();
  if (Outcome outcome = elsewhere ? found_.make_folder() : success(); !outcome.ok())
    return outcome.error();
  std::int64_t step = -1;
  if (job_.loop.snapshot.resume) {
    std::vector<SnapshotFiles::Damage> skipped;
    const Result<std::optional<SnapshotManifest>> newest = found_.newest_whole(&skipped);
    if (!newest.ok()) return newest.error();
    for (const SnapshotFiles::Damage& damage : skipped) {
      record(SnapshotAction::kFail, damage.step, damage.reason.text());
    }
    if (newest.value()) step = newest.value()->step;
  } else if (parse_int(context_.host().environment("TORCHELASTIC_RESTART_COUNT").value_or("0")) ==
             0) {
    if (Outcome outcome = files_.check_unused(); !outcome.ok()) return outcome.error();
  }
  if (elsewhere) return step;  // What lies there is not this run's.
  if (Outcome outcome = files_.drop_after(step); !outcome.ok()) return outcome.error();
  return step;
}

std::int64_t Snapshots::agree_on_newest() {
  std::int64_t step = -1;
  std::string trouble = "rank 0 cannot begin with the folder of snapshots";
  if (context_.rank() == 0) {
    const Result<std::int64_t> found = find_newest();
    step = found.ok() ? found.value() : kUnreadable;
    if (!found.ok()) trouble = found.error().text();
  }
  wait_for(context_.world().broadcast({&step, 1, DType::kI64}, 0));
  if (step == kUnreadable) throw std::runtime_error(trouble);
  return step;
}

std::optional<LoopPlace> Snapshots::resume() {
  // Each rank may have a folder of its own, or one on another disk. Without it its part cannot be
  // written, and that is recorded.
  if (context_.rank() != 0) (void)files_.make_folder();
  const std::int64_t step = agree_on_newest();
  std::optional<LoopPlace> place;
  if (step >= 0) resumed_ = place.emplace(load(step));
  Recorder* recorder = context_.runtime().recorder();
  if (recorder != nullptr && place) {
    recorder->position(wrapper_).opt = static_cast<std::int32_t>(place->step);
    record_states(StatePoint::kLoad);
  }
  const bool resumes = job_.loop.snapshot.resume;
  record(resumes ? SnapshotAction::kLoad : SnapshotAction::kFresh,
         step,
         looked_in(job_.loop.snapshot));
  return place;
}

LoopPlace Snapshots::as_saved(LoopPlace place) const {
  const bool ended = place.batch == LoopPlace::kEndOfEpoch;
  const bool since_resume = job_.loop.snapshot.batches == BatchCount::kSinceResume;
  if (since_resume && !ended && place.epoch == resumed_.epoch && resumed_.batch > 0) {
    place.batch -= resumed_.batch;
  }
  return place;
}

Outcome Snapshots::publish(std::int64_t step,
                           const std::string& part,
                           const SafeTensors& contents,
                           std::vector<SnapshotManifest::File>& published) {
  const std::string name = SnapshotFiles::name_of(step, part);
  const std::string bytes = render_safetensors(contents);
  Outcome outcome = files_.publish(name, bytes);
  if (!outcome.ok()) return outcome;
  published.push_back(describe_file(name, bytes));
  record(SnapshotAction::kPart, step, files_.path_of(name), published.back().digest);
  return outcome;
}

std::optional<std::vector<SnapshotManifest::File>> Snapshots::gather(
    std::int64_t step, std::span<const SnapshotManifest::File> published) {
  const auto n_ranks = static_cast<std::size_t>(context_.world_size());
  std::array<std::int64_t, kNumbersPerRank> own{};
  for (std::size_t i = 0; i < published.size(); ++i) {
    own[3 * i] = 1;
    own[3 * i + 1] = published[i].n_bytes;
    own[3 * i + 2] = static_cast<std::int64_t>(published[i].digest);
  }
  std::vector<std::int64_t> words(n_ranks * kNumbersPerRank);
  std::vector<Memory> outputs;
  for (std::size_t r = 0; r < n_ranks; ++r) {
    outputs.push_back({&words[r * kNumbersPerRank], kNumbersPerRank, DType::kI64});
  }
  wait_for(context_.world().all_gather(outputs, {own.data(), kNumbersPerRank, DType::kI64}));
  std::vector<SnapshotManifest::File> files;
  for (std::size_t r = 0; r < n_ranks; ++r) {
    const std::size_t n_files = r == 0 ? 2 : 1;
    for (std::size_t i = 0; i < n_files; ++i) {
      const std::int64_t* at = &words[r * kNumbersPerRank + 3 * i];
      if (at[0] == 0) return std::nullopt;
      const std::string part =
          i == 0 ? SnapshotFiles::rank_part(static_cast<std::int32_t>(r)) : "model";
      files.push_back(
          {SnapshotFiles::name_of(step, part), at[1], static_cast<std::uint64_t>(at[2])});
    }
  }
  return files;
}

void Snapshots::save(const LoopPlace& place) {
  context_.annotate().phase(PhaseKind::kSave);
  record_states(StatePoint::kSave);
  std::vector<SnapshotManifest::File> published;
  Outcome outcome = publish(place.step,
                            SnapshotFiles::rank_part(context_.rank()),
                            contents_.own_part(as_saved(place)),
                            published);
  if (outcome.ok() && writes_common()) {
    outcome = publish(place.step, "model", contents_.common_part(), published);
  }
  std::string trouble = outcome.ok() ? "another rank could not write" : outcome.error().text();
  auto files = gather(place.step, published);
  if (files && context_.rank() == 0) {
    outcome = files_.publish(
        {.step = place.step, .n_ranks = context_.world_size(), .files = std::move(*files)});
    if (outcome.ok()) {
      record(SnapshotAction::kSave, place.step, job_.loop.snapshot.path);
      outcome = files_.prune(place.step, job_.loop.snapshot.keep);
    }
    if (!outcome.ok()) record(SnapshotAction::kFail, place.step, outcome.error().text());
  } else if (!files) {
    record(SnapshotAction::kFail, place.step, trouble);
  }
  context_.annotate().phase(PhaseKind::kTrain);
}

void Snapshots::record_states(StatePoint point) const {
  Recorder* const recorder = context_.runtime().recorder();
  StateSource* const source = recorder == nullptr ? nullptr : recorder->source(wrapper_);
  // Each rank's own parameters are meant to differ.
  const bool differs = job_.ddp.wrap && contents_.trains_alone();
  if (source != nullptr && !differs) source->record_state(point);
}

void Snapshots::record(SnapshotAction action,
                       std::int64_t step,
                       const std::string& detail,
                       std::uint64_t digest) const {
  context_.annotate().snapshot(action, step, detail, digest);
}

}  // namespace lockstep
