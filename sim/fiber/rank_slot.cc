#include "lockstep/sim/fiber/detail/rank_slot.h"

#include <algorithm>
#include <exception>

#include "lockstep/base/check.h"
#include "lockstep/base/enum_names.h"
#include "lockstep/sim/fiber/detail/scheduler.h"

namespace lockstep::sim {

namespace {

/// What a launcher would tell each rank, all of them on one node.
enum class LauncherVariable : std::uint8_t { kRank, kLocalRank, kWorldSize };

}  // namespace

}  // namespace lockstep::sim

namespace lockstep {

template <>
inline constexpr EnumNames<3> kEnumNames<sim::LauncherVariable> = {
    "RANK", "LOCAL_RANK", "WORLD_SIZE"};

}  // namespace lockstep

namespace lockstep::sim {

namespace {

// A rank that swallows RankKilled this often will not stop by itself.
constexpr std::uint16_t kMaxNotices = 1000;

std::uint64_t footprint_of(std::string_view path) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash | 1U;
}

Error killed(std::string_view path) { return Error{"the rank was killed", std::string(path)}; }

}  // namespace

bool RankFiles::gone(std::string_view path) {
  slot_->point({PointKind::kFile, footprint_of(path)});
  return slot_->control().fenced;
}

FileSystem& RankFiles::files() {
  return slot_->control().scheduler->services().files_of(slot_->rank());
}

Result<std::string> RankFiles::read(std::string_view path) {
  if (gone(path)) return killed(path);
  return files().read(path);
}

Outcome RankFiles::write(std::string_view path, std::string_view bytes) {
  if (gone(path)) return killed(path);
  return files().write(path, bytes);
}

Outcome RankFiles::sync(std::string_view path) {
  if (gone(path)) return killed(path);
  return files().sync(path);
}

Outcome RankFiles::rename(std::string_view from, std::string_view to) {
  if (gone(to)) return killed(to);
  return files().rename(from, to);
}

Outcome RankFiles::remove(std::string_view path) {
  if (gone(path)) return killed(path);
  return files().remove(path);
}

Result<std::vector<std::string>> RankFiles::list(std::string_view folder) {
  if (gone(folder)) return killed(folder);
  return files().list(folder);
}

Outcome RankFiles::make_folder(std::string_view folder) {
  if (gone(folder)) return killed(folder);
  return files().make_folder(folder);
}

World& RankSlot::world() const { return control_.scheduler->world(); }

bool RankSlot::throw_if_killed() {
  if (!control_.kill_pending && std::uncaught_exceptions() == 0)
    control_.scheduler->ends().run_interrupts(*this);
  if (!control_.kill_pending) return false;
  if (std::uncaught_exceptions() > 0) return true;
  if (control_.n_kill_notices == 0) control_.scheduler->ends().notify_dying(*this);
  if (++control_.n_kill_notices > kMaxNotices) control_.scheduler->abandon(*this);
  const Deaths& deaths = control_.scheduler->ends().deaths();
  // Not a std::exception on purpose: user code must not swallow its own death.
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass)
  throw RankKilled(deaths.reason_of(control_.rank), deaths.why_of(control_.rank));
}

// What is given to one rank is within the reach of all: they share a process.
void RankSlot::check_caller() const {
  if (control_.state != RankState::kRunning || !control_.scheduler->runs_here()) refuse_caller();
}

void RankSlot::refuse_caller() const {
  const std::optional<Rank> caller = control_.scheduler->turns().running();
  const bool by_rank = control_.state != RankState::kRunning && caller.has_value();
  fail_check("its own function",
             __FILE__,
             __LINE__,
             "rank " + std::to_string(to_int(control_.rank)) + " is used " +
                 (by_rank ? "by rank " + std::to_string(to_int(*caller))
                          : std::string("on a thread or stack other than its own")) +
                 ": a rank must wait, send and sleep only through its own context");
}

bool RankSlot::block(const WaitReason& reason) {
  check_caller();
  if (control_.interrupt_pending) return throw_if_killed();
  control_.scheduler->block(*this, reason);
  dying();
  return true;
}

VirtualTime RankSlot::now() const {
  return local_time() + control_.scheduler->services().clock_skew_of(control_.rank);
}

VirtualTime RankSlot::local_time() const {
  return std::max(control_.scheduler->timeline().now(), VirtualTime{control_.clock_ns});
}

void RankSlot::sleep(Duration span) {
  if (dying()) return;
  check_caller();
  LOCKSTEP_CHECK(span.ns >= 0,
                 "a rank cannot sleep " + std::to_string(span.ns) + " ns: time does not go back");
  control_.scheduler->sleep_until(*this, local_time() + span);
  dying();
}

void RankSlot::point(const Point& next) {
  if (dying()) return;
  check_caller();
  if (control_.clock_ns > control_.scheduler->timeline().now().ns) {
    control_.scheduler->sleep_until(*this, VirtualTime{control_.clock_ns});
  } else {
    control_.scheduler->yield(*this, next);
  }
  // Files are one object: a listing reads what a rename wrote under another name.
  if (next.object != 0)
    control_.scheduler->turns().actions().touch(next.kind == PointKind::kFile ? kAllFiles
                                                                              : next.object);
  dying();
}

void RankSlot::spend(Duration compute) {
  if (control_.scheduler->options().timed) control_.clock_ns = (local_time() + compute).ns;
}

Memo& RankSlot::memo() { return control_.scheduler->services().memo(); }

std::optional<std::string> RankSlot::environment(std::string_view name) const {
  const std::vector<RankVariable>& variables = control_.scheduler->options().rank_environment;
  auto own =
      std::lower_bound(variables.begin(),
                       variables.end(),
                       to_int(control_.rank),
                       [](const RankVariable& at, std::int32_t rank) { return at.rank < rank; });
  for (; own != variables.end() && own->rank == to_int(control_.rank); ++own) {
    if (own->name == name) return own->value;
  }
  for (const auto& [key, value] : control_.scheduler->options().environment) {
    if (key == name) return value;
  }
  const std::optional<LauncherVariable> given = parse_enum<LauncherVariable>(name);
  if (!given) return std::nullopt;
  const bool counts = *given == LauncherVariable::kWorldSize;
  return std::to_string(counts ? control_.scheduler->turns().n_ranks() : to_int(control_.rank));
}

void RankSlot::log(std::string_view line) {
  if (!control_.fenced && control_.scheduler->options().log)
    control_.scheduler->options().log(control_.rank, now(), line);
}

}  // namespace lockstep::sim
