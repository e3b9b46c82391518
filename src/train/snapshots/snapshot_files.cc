#include "lockstep/train/snapshots/snapshot_files.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/tensor/digest.h"

namespace lockstep {

namespace {

constexpr std::string_view kTitle = "lockstep-snapshot 1";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kManifest = ".manifest";
constexpr std::string_view kRank = "rank-";
constexpr std::string_view kTensors = ".safetensors";
constexpr std::size_t kDigits = 8;
constexpr std::size_t kRankDigits = 5;

std::uint64_t digest_of(std::string_view bytes) {
  return sm64(bytes.data(), static_cast<std::int64_t>(bytes.size()), DType::kU8);
}

std::string numbered(std::string_view prefix, std::int64_t number, std::size_t n_digits) {
  const std::string digits = std::to_string(number);
  const std::size_t n_zeros = digits.size() < n_digits ? n_digits - digits.size() : 0;
  return std::string(prefix) + std::string(n_zeros, '0') + digits;
}

std::string stem_of(std::int64_t step) { return numbered(kPrefix, step, kDigits); }

std::string rank_stem(std::int64_t rank) { return numbered(kRank, rank, kRankDigits); }

/// The number that `render` makes `word` of, if it is one from 0 on and written in exactly that way.
template <typename Render>
std::optional<std::int64_t> number_named(std::string_view word,
                                         std::string_view prefix,
                                         const Render& render) {
  if (!word.starts_with(prefix)) return std::nullopt;
  const std::optional<std::int64_t> number = parse_int(word.substr(prefix.size()));
  if (!number || *number < 0 || render(*number) != word) return std::nullopt;
  return number;
}

/// What is left of a file's name without the mark of one that was not finished: ".part" alone, or
/// with the twelve hex digits of a file on the disk.
std::string_view finished_name(std::string_view name) {
  constexpr std::string_view kPart = ".part";
  const std::size_t at = name.rfind(kPart);
  if (at == std::string_view::npos) return name;
  const std::string_view mark = name.substr(at + kPart.size());
  const bool marked =
      mark.empty() || (mark.size() == 13 && mark[0] == '-' &&
                       mark.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos);
  return marked ? name.substr(0, at) : name;
}

/// The step of a file's name; nothing for a name that SnapshotFiles would not have given.
std::optional<std::int64_t> step_in(std::string_view name) {
  const std::vector<std::string_view> parts = split(finished_name(name), '.');
  const std::optional<std::int64_t> step = number_named(parts[0], kPrefix, stem_of);
  if (!step || parts.size() < 2) return std::nullopt;
  if (parts.size() == 2) return parts[1] == kManifest.substr(1) ? step : std::nullopt;
  const bool known = parts[1] == "model" || number_named(parts[1], kRank, rank_stem);
  return parts.size() == 3 && known && parts[2] == kTensors.substr(1) ? step : std::nullopt;
}

Error damaged_manifest() { return {"this is not a complete manifest of a snapshot", {}}; }

/// "key value" -> value.
std::optional<std::int64_t> number_of(std::string_view line, std::string_view key) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 2 || words[0] != key) return std::nullopt;
  return parse_int(words[1]);
}

std::optional<SnapshotManifest::File> file_of(std::string_view line) {
  const std::vector<std::string_view> words = split(line, ' ');
  if (words.size() != 4 || words[0] != "file") return std::nullopt;
  const std::optional<std::int64_t> n_bytes = parse_int(words[2]);
  const std::optional<std::uint64_t> digest = parse_hex64(words[3]);
  if (!n_bytes || !digest) return std::nullopt;
  return SnapshotManifest::File{std::string(words[1]), *n_bytes, *digest};
}

}  // namespace

SnapshotManifest::File describe_file(std::string name, std::string_view bytes) {
  return {std::move(name), static_cast<std::int64_t>(bytes.size()), digest_of(bytes)};
}

std::string render_manifest(const SnapshotManifest& manifest) {
  std::string text = std::string(kTitle) + "\nstep " + std::to_string(manifest.step) + "\nranks " +
                     std::to_string(manifest.n_ranks) + "\n";
  for (const SnapshotManifest::File& file : manifest.files) {
    text +=
        "file " + file.name + " " + std::to_string(file.n_bytes) + " " + hex64(file.digest) + "\n";
  }
  return text + "digest " + hex64(digest_of(text)) + "\n";
}

Result<SnapshotManifest> parse_manifest(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, '\n');
  if (lines.size() < 5 || lines[0] != kTitle || !lines.back().empty()) return damaged_manifest();
  const std::string_view last = lines[lines.size() - 2];
  const std::string_view above = text.substr(0, text.size() - last.size() - 1);
  if (last != "digest " + hex64(digest_of(above))) return damaged_manifest();
  const std::optional<std::int64_t> step = number_of(lines[1], "step");
  const std::optional<std::int64_t> n_ranks = number_of(lines[2], "ranks");
  if (!step || !n_ranks || *n_ranks < 1 || *n_ranks > INT32_MAX) return damaged_manifest();
  SnapshotManifest manifest{
      .step = *step, .n_ranks = static_cast<std::int32_t>(*n_ranks), .files = {}};
  for (std::size_t i = 3; i + 2 < lines.size(); ++i) {
    std::optional<SnapshotManifest::File> file = file_of(lines[i]);
    if (!file) return damaged_manifest();
    manifest.files.push_back(std::move(*file));
  }
  return manifest;
}

SnapshotFiles::SnapshotFiles(FileSystem& files, std::string folder, PublishManner publish)
    : files_(&files), folder_(std::move(folder)), publish_(publish) {}

std::string SnapshotFiles::rank_part(std::int32_t rank) { return rank_stem(rank); }

std::string SnapshotFiles::name_of(std::int64_t step, const std::string& part) {
  return stem_of(step) + "." + part + std::string(kTensors);
}

std::string SnapshotFiles::manifest_name(std::int64_t step) {
  return stem_of(step) + std::string(kManifest);
}

Outcome SnapshotFiles::publish(const std::string& name, std::string_view bytes) {
  const std::string path = path_of(name);
  if (publish_ == PublishManner::kInPlace) return files_->write(path, bytes);
  if (publish_ != PublishManner::kUnsynced) return files_->publish(path, bytes);
  Outcome outcome = files_->write(path + ".part", bytes);
  return outcome.ok() ? files_->rename(path + ".part", path) : outcome;
}

Outcome SnapshotFiles::publish(const SnapshotManifest& manifest) {
  return publish(manifest_name(manifest.step), render_manifest(manifest));
}

Result<SnapshotManifest> SnapshotFiles::manifest(std::int64_t step) {
  const std::string name = manifest_name(step);
  const Result<std::string> text = files_->read(path_of(name));
  if (!text.ok()) return text.error();
  Result<SnapshotManifest> manifest = parse_manifest(text.value());
  if (!manifest.ok()) return Error{manifest.error().message, path_of(name)};
  if (manifest.value().step != step) return Error{"the manifest of another step", path_of(name)};
  return manifest;
}

Result<std::string> SnapshotFiles::read(const SnapshotManifest& manifest, const std::string& name) {
  const auto file = std::find_if(
      manifest.files.begin(), manifest.files.end(), [&](const SnapshotManifest::File& candidate) {
        return candidate.name == name;
      });
  if (file == manifest.files.end()) return Error{"the snapshot has no such file", path_of(name)};
  Result<std::string> bytes = files_->read(path_of(name));
  if (!bytes.ok()) return bytes;
  const SnapshotManifest::File found = describe_file(name, bytes.value());
  if (found.n_bytes != file->n_bytes || found.digest != file->digest) {
    return Error{"not what the snapshot's manifest says", path_of(name)};
  }
  return bytes;
}

Outcome SnapshotFiles::check(const SnapshotManifest& manifest) {
  for (const SnapshotManifest::File& file : manifest.files) {
    const Result<std::string> bytes = read(manifest, file.name);
    if (!bytes.ok()) return bytes.error();
  }
  return success();
}

Result<std::vector<std::int64_t>> SnapshotFiles::manifests_newest_first() {
  const Result<std::vector<std::string>> names = files_->list(folder_);
  if (!names.ok()) return names.error();
  std::vector<std::int64_t> steps;
  for (const std::string& name : names.value()) {
    const std::optional<std::int64_t> step = step_in(name);
    if (step && name == manifest_name(*step)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<std::optional<SnapshotManifest>> SnapshotFiles::newest_whole(std::vector<Damage>* skipped) {
  const Result<std::vector<std::int64_t>> steps = manifests_newest_first();
  if (!steps.ok()) return steps.error();
  for (const std::int64_t step : steps.value()) {
    Result<SnapshotManifest> found = manifest(step);
    const Outcome whole = found.ok() ? check(found.value()) : Outcome(found.error());
    if (whole.ok()) return std::optional(std::move(found).value());
    if (skipped != nullptr) skipped->push_back({step, whole.error()});
  }
  return std::optional<SnapshotManifest>();
}

Result<std::vector<std::string>> SnapshotFiles::damaged() {
  const Result<std::vector<std::int64_t>> steps = manifests_newest_first();
  if (!steps.ok()) return steps.error();
  std::vector<std::string> names;
  for (const std::int64_t step : steps.value()) {
    const Result<SnapshotManifest> found = manifest(step);
    if (!found.ok() || !check(found.value()).ok()) names.push_back(manifest_name(step));
  }
  return names;
}

Outcome SnapshotFiles::check_unused() {
  const Result<std::vector<std::int64_t>> steps = manifests_newest_first();
  if (!steps.ok()) return steps.error();
  if (steps.value().empty()) return success();
  return Error{"this folder has snapshots of another run, up to step " +
                   std::to_string(steps.value().front()) +
                   ", which a run that does not resume would write over; name another folder, or "
                   "move them away",
               folder_};
}

Outcome SnapshotFiles::drop_after(std::int64_t step) {
  const Result<std::vector<std::int64_t>> steps = manifests_newest_first();
  if (!steps.ok()) return steps.error();
  bool dropped = false;
  for (const std::int64_t candidate : steps.value()) {
    if (candidate <= step) continue;
    Outcome outcome = files_->remove(path_of(manifest_name(candidate)));
    if (!outcome.ok()) return outcome;
    dropped = true;
  }
  return dropped ? files_->sync(folder_) : success();
}

Outcome SnapshotFiles::prune(std::int64_t step, std::int64_t keep) {
  if (keep <= 0) return success();
  const Result<std::vector<std::int64_t>> steps = manifests_newest_first();
  if (!steps.ok()) return steps.error();
  std::vector<std::int64_t> kept;
  for (const std::int64_t candidate : steps.value()) {
    const bool newest = candidate <= step && static_cast<std::int64_t>(kept.size()) < keep;
    if (newest || candidate > step) {
      kept.push_back(candidate);
    } else if (Outcome outcome = files_->remove(path_of(manifest_name(candidate))); !outcome.ok()) {
      return outcome;
    }
  }
  // The manifests must be gone for good before what they name goes.
  if (Outcome outcome = files_->sync(folder_); !outcome.ok()) return outcome;
  return remove_orphans(step, kept);
}

// What belongs to steps up to this one whose manifests are gone, and unfinished files: this
// step's manifest is published, so only a writer that was killed can have left them.
Outcome SnapshotFiles::remove_orphans(std::int64_t step, const std::vector<std::int64_t>& kept) {
  const Result<std::vector<std::string>> names = files_->list(folder_);
  if (!names.ok()) return names.error();
  for (const std::string& name : names.value()) {
    const std::optional<std::int64_t> owner = step_in(name);
    if (!owner || *owner > step || name == manifest_name(*owner)) continue;
    const bool finished = finished_name(name) == name;
    if (finished && std::find(kept.begin(), kept.end(), *owner) != kept.end()) continue;
    if (Outcome outcome = files_->remove(path_of(name)); !outcome.ok()) return outcome;
  }
  return success();
}

}  // namespace lockstep
