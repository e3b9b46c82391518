#include "lockstep/laws/rules/resumes.h"

#include <algorithm>
#include <utility>

namespace lockstep::laws {

namespace {

constexpr std::size_t kMostFiles = 4096;

}  // namespace

void Resumes::on_event(const Event& event, const NameTable& names) {
  if (std::holds_alternative<StepEvent>(event.body)) {
    attempts_[event.at.attempt].trains = true;
    return;
  }
  if (const auto* epoch = std::get_if<EpochEvent>(&event.body)) {
    if (!epoch->shuffle) return;
    now_[{event.at.attempt, event.rank}][epoch->split] = epoch->generator_key;
    auto& first = attempts_[event.at.attempt].first;
    const auto [known, is_first] = first.try_emplace(epoch->split, epoch->generator_key);
    if (!is_first) known->second = std::min(known->second, epoch->generator_key);
    return;
  }
  const auto* snapshot = std::get_if<SnapshotEvent>(&event.body);
  if (snapshot == nullptr) return;
  Attempt& attempt = attempts_[event.at.attempt];
  File file{.path = std::string(names.text(snapshot->detail)),
            .step = snapshot->step,
            .orders = now_[{event.at.attempt, event.rank}],
            .digest = snapshot->digest};
  switch (snapshot->action) {
    case SnapshotAction::kPart:
      return on_part(attempt, event.at.attempt, std::move(file));
    case SnapshotAction::kRead:
      return on_read(attempt, event.at.attempt, file);
    case SnapshotAction::kLoad:
      if (file.step < 0) {
        attempt.looked_in = file.path;
        return;
      }
      [[fallthrough]];
    case SnapshotAction::kFresh:
      attempt.looked = true;
      return;
    case SnapshotAction::kSave:
    case SnapshotAction::kFail:
    case SnapshotAction::kWrite:
    case SnapshotAction::kOpen:
    case SnapshotAction::kExtend:
      return;
  }
}

void Resumes::on_part(Attempt& attempt, std::int32_t number, File file) {
  if (file.step < 1) return;
  if (!attempt.newest || attempt.newest->step <= file.step) attempt.newest = file;
  auto& known = files_[file.path];
  if (file.digest != 0) {
    const auto [place, is_new] = known.try_emplace(file.digest, number, file);
    const auto& [writer, before] = place->second;
    if (!is_new && writer < number && before.step == file.step) attempt.repeats_bytes = true;
  }
  while (files_.size() > kMostFiles) files_.erase(files_.begin());
}

void Resumes::on_read(Attempt& attempt, std::int32_t number, const File& read) {
  attempt.looked = true;
  const auto written = files_.find(read.path);
  if (written == files_.end()) return;
  const auto found = written->second.find(read.digest);
  if (found == written->second.end() || found->second.first >= number) return;
  const File& file = found->second.second;
  if (!attempt.read || attempt.read->step < file.step) attempt.read = file;
}

const Resumes::File* Resumes::left_before(std::int32_t number) const {
  for (auto at = attempts_.lower_bound(number); at != attempts_.begin();) {
    --at;
    if (at->second.newest) return &*at->second.newest;
  }
  return nullptr;
}

bool Resumes::looked_beside(const Attempt& attempt, const File& file) {
  if (!attempt.looked_in) return false;
  const std::string& folder = *attempt.looked_in;
  return file.path.starts_with(folder) && file.path.substr(folder.size()).starts_with('/');
}

std::uint64_t Resumes::epochs_back(const Attempt& attempt, const File& file) {
  std::uint64_t most = 0;
  for (const auto& [split, order] : file.orders) {
    const auto first = attempt.first.find(split);
    if (first != attempt.first.end() && first->second < order) {
      most = std::max(most, order - first->second);
    }
  }
  return most;
}

namespace {

std::string before_text(std::uint64_t epochs) {
  if (epochs == 0) return "before it";
  return std::to_string(epochs) + (epochs == 1 ? " epoch" : " epochs") + " before it";
}

std::string again_text(const std::string& restart,
                       const std::string& file,
                       const std::string& begins,
                       bool ignored) {
  return restart + (ignored ? " does not read " : " reads ") + file + ", and starts " + begins +
         (ignored ? ": these steps are repeated. Does it look for a different file name?"
                  : ": these epochs are repeated, with the weights that came after them.");
}

}  // namespace

std::optional<Advice> Resumes::advice() const {
  for (const auto& [number, attempt] : attempts_) {
    if (!attempt.trains) continue;
    const File* file = attempt.looked ? nullptr : left_before(number);
    if (file != nullptr && looked_beside(attempt, *file)) file = nullptr;
    const bool ignored = file != nullptr;
    if (attempt.read) file = &*attempt.read;
    if (file == nullptr) continue;
    const std::uint64_t back = epochs_back(attempt, *file);
    if (back == 0 && !(ignored && attempt.repeats_bytes)) continue;
    return Advice{
        "A-steps-again",
        again_text("restart " + std::to_string(number),
                   file->path + ", which contains " + std::to_string(file->step) + " steps",
                   before_text(back),
                   ignored)};
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
