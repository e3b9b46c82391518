// checkpoint-whole: what was published as a checkpoint is all there, and stays there.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "lockstep/base/text.h"
#include "lockstep/laws/detail/alignment.h"
#include "lockstep/laws/rules/checkers.h"
#include "lockstep/laws/rules/detail/checkpoints/continuations.h"
#include "lockstep/laws/rules/detail/checkpoints/file_accesses.h"
#include "lockstep/laws/rules/detail/checkpoints/replaced_files.h"
#include "lockstep/laws/rules/detail/remarks.h"
#include "lockstep/laws/rules/resumes.h"

namespace lockstep::laws {

namespace {

class CheckpointWhole final : public Law {
 public:
  static constexpr std::string_view kId = "checkpoint-whole";

  explicit CheckpointWhole(const LawPolicy& policy) : worlds_(policy.n_ranks) {}

  const LawInfo& info() const override { return *find_law(kId); }

  EventKinds reads() const override {
    return kinds_of<SnapshotEvent,
                    EnvironmentEvent,
                    StepEvent,
                    EpochEvent,
                    CollectiveEvent,
                    LogEvent>();
  }

  void require(RecordOptions& options) const override { options.collectives = true; }

  void on_cohort(const CohortEvent& event, const NameTable& names) override {
    const auto* call = std::get_if<CollectiveEvent>(&event.first->body);
    if (call != nullptr && event.equal())
      return files_.on_call(*event.first, *call, all_ranks(event));
    Law::on_cohort(event, names);
  }

  void on_event(const Event& event, const NameTable& names) override {
    if (const auto* call = std::get_if<CollectiveEvent>(&event.body))
      return files_.on_call(event, *call, one_rank(event));
    worlds_.on_event(event);
    resumes_.on_event(event, names);
    unloaded_.on_event(event, one_rank(event));
    const auto* snapshot = std::get_if<SnapshotEvent>(&event.body);
    if (snapshot == nullptr) return;
    const std::string detail(names.text(snapshot->detail));
    const Key key{event.at.attempt, snapshot->step};
    switch (snapshot->action) {
      case SnapshotAction::kPart:
        savings_[key].parts.push_back({to_int(event.rank), detail, snapshot->digest});
        replaced_.on_write({event.at.attempt, snapshot->step, to_int(event.rank), snapshot->digest},
                           detail);
        if (has_all_calls(*snapshot))
          files_.on_write({event.at.attempt, snapshot->step, to_int(event.rank), detail});
        return judge_left(event.rank, key);
      case SnapshotAction::kSave:
        savings_[key].folder = detail;
        savings_[key].published = true;
        continuations_.on_save(event.at.attempt, snapshot->step, detail);
        return;
      case SnapshotAction::kRead:
        reads_.push_back(
            {event.at.attempt, snapshot->step, to_int(event.rank), detail, snapshot->digest});
        if (has_all_calls(*snapshot))
          files_.on_read({event.at.attempt, snapshot->step, to_int(event.rank), detail});
        return;
      case SnapshotAction::kLoad:
        continuations_.on_load(event.at.attempt, event.rank, snapshot->step, detail);
        return;
      case SnapshotAction::kFresh:
        continuations_.on_fresh(event.at.attempt);
        return;
      case SnapshotAction::kFail:
        return on_fail(key, event.rank, detail);
      case SnapshotAction::kWrite:
        return files_.on_overwrite({event.at.attempt, snapshot->step, to_int(event.rank), detail});
      case SnapshotAction::kExtend:
        return files_.on_write({event.at.attempt, snapshot->step, to_int(event.rank), detail});
      case SnapshotAction::kOpen:
        return files_.on_read({event.at.attempt, snapshot->step, to_int(event.rank), detail});
    }
  }

  LawResult finish(const NameTable& names) override {
    for (const auto& [key, saving] : savings_) judge(key, saving);
    savings_.clear();
    check_reads();
    FileAccesses::Judged files = files_.judged();
    n_checked_ += files.n;
    for (Continuations::Missed& missed : continuations_.missed(n_checked_)) {
      const Key place{missed.attempt, missed.newest};
      report(place, "published", std::move(missed.ranks), missed.message(), missed.cause());
    }
    std::vector<Finding> findings;
    findings.reserve(findings_.size());
    for (auto& [key, finding] : findings_) findings.push_back(std::move(finding));
    LawResult result = conclude(
        kId, std::move(findings), n_checked_, "snapshot events of the files that were written");
    if (!failures_.empty()) result.advice.push_back(advice_on_failures());
    if (auto advice = resumes_.advice()) result.advice.push_back(std::move(*advice));
    for (Advice& advice : files.advice) result.advice.push_back(std::move(advice));
    if (auto advice = replaced_.advice()) result.advice.push_back(std::move(*advice));
    auto unloaded =
        unloaded_.advice("A-nothing-loaded",
                         "Nothing was loaded: training continued with the values that were there.",
                         names);
    if (unloaded) result.advice.push_back(std::move(*unloaded));
    return result;
  }

 private:
  using Key = std::pair<std::int32_t, std::int64_t>;  // Attempt, step.

  /// A recorder whose budget has left it no time to read a file may also have left out calls around it.
  static bool has_all_calls(const SnapshotEvent& access) { return access.digest != 0; }

  /// What ranks say of a checkpoint that failed: each reason, with the first rank that gives it.
  using Failure = std::map<std::string, Rank>;

  void on_fail(const Key& key, Rank rank, const std::string& reason) {
    failures_[key].try_emplace(reason, rank);
    while (failures_.size() > kMostFiles) failures_.erase(std::prev(failures_.end()));
  }

  /// No law is broken by it: training goes on, and a restart finds an older checkpoint, or none.
  Advice advice_on_failures() const {
    constexpr std::size_t kShown = 3;
    const auto& [key, reasons] = *failures_.begin();
    std::vector<std::string> texts;
    for (const auto& [reason, rank] : reasons) {
      if (texts.size() < kShown) {
        texts.push_back("rank " + std::to_string(to_int(rank)) + ": " + reason);
      }
    }
    const std::size_t n = failures_.size();
    return {"A-checkpoint-failed",
            std::to_string(n) + (n == 1 ? " checkpoint" : " checkpoints") +
                " could not be written or read back; the first, of step " +
                std::to_string(key.second) + ": " + join(texts, "; ") +
                ". A restart continues from an older one, or from the start."};
  }

  struct Part {
    std::int32_t rank = 0;
    std::string path;
    std::uint64_t digest = 0;
  };

  /// One checkpoint on its way.
  struct Saving {
    std::vector<Part> parts;
    std::string folder;
    bool published = false;
  };

  struct Read {
    std::int32_t attempt = 0;
    std::int64_t step = 0;
    std::int32_t rank = 0;
    std::string path;
    std::uint64_t digest = 0;
  };

  static constexpr std::size_t kMostFiles = 4096;

  static constexpr std::size_t kMaxOpen = 64;  // Checkpoints that some ranks never take part in.

  /// Judges the checkpoints of this attempt that every rank has moved past: until then a rank may
  /// still write to them, whatever is complete. When all have left an attempt is unknown.
  void judge_left(Rank rank, const Key& now) {
    latest_[rank] = now;
    Key oldest = now;
    std::int32_t n_ranks = 0;
    for (const auto& [other, key] : latest_) {
      if (key.first != now.first) continue;
      oldest = std::min(oldest, key);
      ++n_ranks;
    }
    if (n_ranks < worlds_.of(now.first)) oldest = Key{};
    auto at = savings_.lower_bound({now.first, std::numeric_limits<std::int64_t>::min()});
    while (at != savings_.end() && at->first < oldest) at = judge_and_forget(at);
    while (savings_.size() > kMaxOpen) judge_and_forget(savings_.begin());
  }

  std::map<Key, Saving>::iterator judge_and_forget(std::map<Key, Saving>::iterator saving) {
    judge(saving->first, saving->second);
    return savings_.erase(saving);
  }

  void judge(const Key& key, const Saving& saving) {
    remember(key, saving);
    judge_writers(key, saving);
    if (!saving.published || saving.parts.empty()) return;  // Nothing was promised.
    ++n_checked_;
    std::set<std::int32_t> writers;
    std::vector<Rank> elsewhere;
    for (const Part& part : saving.parts) {
      writers.insert(part.rank);
      const std::string folder = part.path.substr(0, part.path.rfind('/'));
      if (folder != saving.folder) elsewhere.push_back(Rank{part.rank});
    }
    if (!elsewhere.empty()) {
      std::sort(elsewhere.begin(), elsewhere.end());
      elsewhere.erase(std::unique(elsewhere.begin(), elsewhere.end()), elsewhere.end());
      report(key,
             "folder",
             std::move(elsewhere),
             "part of the checkpoint was written to a folder other than " + saving.folder,
             Cause::kCkptDirClock);
    }
    std::vector<Rank> silent;
    for (std::int32_t rank = 0; rank < worlds_.of(key.first); ++rank) {
      if (!writers.contains(rank)) silent.push_back(Rank{rank});
    }
    if (!silent.empty()) {
      const char* const parts = silent.size() == 1 ? "its part" : "their parts";
      report(key,
             "parts",
             std::move(silent),
             std::string("the checkpoint was published without ") + parts,
             Cause::kReadBeforeCommit);
    }
  }

  void judge_writers(const Key& key, const Saving& saving) {
    std::map<std::string, std::set<std::int32_t>> writers;
    for (const Part& part : saving.parts) writers[part.path].insert(part.rank);
    for (const auto& [path, ranks] : writers) {
      ++n_checked_;
      if (ranks.size() < 2) continue;
      std::vector<Rank> list;
      list.reserve(ranks.size());
      for (const std::int32_t rank : ranks) list.push_back(Rank{rank});
      report(key, "writer", std::move(list), "several ranks write " + path, Cause::kManyWriters);
      return;
    }
  }

  /// Digests of the files as each attempt has written them.
  void remember(const Key& key, const Saving& saving) {
    for (const Part& part : saving.parts) written_[part.path][key.first] = part.digest;
    while (written_.size() > kMostFiles) written_.erase(written_.begin());
  }

  /// What the attempts before it left.
  void check_reads() {
    for (const Read& read : reads_) {
      const auto known = written_.find(read.path);
      if (known == written_.end()) continue;
      const auto later = known->second.lower_bound(read.attempt);
      if (later == known->second.begin()) continue;
      ++n_checked_;
      if (std::prev(later)->second == read.digest) continue;
      report({read.attempt, read.step},
             "digest",
             {Rank{read.rank}},
             "reads different bytes from " + read.path + " than were written",
             Cause::kNone);
    }
    reads_.clear();
  }

  void report(const Key& key,
              const std::string& field,
              std::vector<Rank> ranks,
              std::string message,
              Cause cause) {
    const auto [known, is_first] = findings_.try_emplace({key.first, field});
    Finding& finding = known->second;
    if (!is_first && finding.step <= key.second) return;
    finding.attempt = key.first;
    finding.event = "save";
    finding.field = field;
    finding.step = key.second;
    finding.ranks = std::move(ranks);
    finding.message = std::move(message);
    finding.cause = cause;
  }

  Worlds worlds_;
  Resumes resumes_;
  std::map<Key, Failure> failures_;
  std::map<Rank, Key> latest_;  // The checkpoint that each rank wrote to last.
  std::map<Key, Saving> savings_;
  std::map<std::string, std::map<std::int32_t, std::uint64_t>> written_;  // Path, attempt.
  std::vector<Read> reads_;
  FileAccesses files_;
  ReplacedFiles replaced_;
  Remarks unloaded_{LogKind::kNotLoaded};
  Continuations continuations_;
  std::map<std::pair<std::int32_t, std::string>, Finding> findings_;
  std::int64_t n_checked_ = 0;
};

}  // namespace

std::unique_ptr<Law> make_checkpoint_whole(const LawPolicy& policy) {
  return std::make_unique<CheckpointWhole>(policy);
}

}  // namespace lockstep::laws
