#include "lockstep/sim/process/detail/rank_store.h"

#include <fmt/core.h>
#include <limits>

#include "lockstep/base/text.h"
#include "lockstep/sim/process/detail/serving.h"
#include "lockstep/sim/process/detail/well_formed.h"

namespace lockstep::sim {

namespace {

constexpr std::uint64_t kStoreObject = 0x73746f72'00000001U;  // What ranks share there, as one.

constexpr std::int64_t kNsPerMillisecond = 1'000'000;

std::string quoted(const std::vector<std::string>& keys) {
  std::string text;
  for (const std::string& key : keys) text += (text.empty() ? "'" : ", '") + key + "'";
  return text;
}

/// "key 'a' of the store at train.py:7".
std::string waits_text(const std::vector<std::string>& keys, const Result<CallSite>& site) {
  const std::string place = site.ok() && site.value().known() ? " at " + site.value().text() : "";
  return fmt::format("key{} {} of the store{}", keys.size() == 1 ? "" : "s", quoted(keys), place);
}

}  // namespace

RankStore::RankStore(Serving& serving, RankHandle& handle, RankProcess& process)
    : serving_(serving), handle_(handle), process_(process) {}

RankStore::~RankStore() {
  *alive_ = false;
  serving_.store.stop_waiting(handle_.rank());
}

Answer RankStore::ask(const Request& request) {
  const Result<StoreRequest> decoded = decode_store(request.body);
  const StoreRequest& asked = well_formed(decoded);
  // A look at what may not be there yet is a poll.
  const bool polls = asked.op == StoreOp::kCheck || asked.op == StoreOp::kNumKeys;
  handle_.point({polls ? PointKind::kWait : PointKind::kPost, kStoreObject});
  if (polls) {
    serving_.note_nap(handle_.world());
  } else {
    serving_.note_progress();
  }
  const bool waits = asked.op == StoreOp::kGet || asked.op == StoreOp::kWait;
  return waits ? await_keys(request, asked) : answer(asked);
}

Answer RankStore::answer(const StoreRequest& asked) {
  StoreTable& store = serving_.store;
  const auto flag = [](bool is_so) { return std::string(1, is_so ? '\1' : '\0'); };
  switch (asked.op) {
    case StoreOp::kSet:
      store.set(asked.key, asked.value);
      return {};
    case StoreOp::kAppend:
      store.append(asked.key, asked.value);
      return {};
    case StoreOp::kCompareSet:
      return {ValueStatus::kOk, store.compare_set(asked.key, asked.expected, asked.value)};
    case StoreOp::kCheck:
      return {ValueStatus::kOk, flag(store.has_all(split_keys(asked.key)))};
    case StoreOp::kDelete:
      return {ValueStatus::kOk, flag(store.remove(asked.key))};
    case StoreOp::kNumKeys:
      return {ValueStatus::kOk, encode_i64(store.n_keys())};
    case StoreOp::kAdd: {
      const auto amount = parse_int(asked.value);
      const Result<std::int64_t> sum =
          amount ? store.add(asked.key, *amount)
                 : Error{"'" + asked.value.substr(0, 64) + "' is not a number to add", {}};
      if (!sum.ok()) return {ValueStatus::kContract, sum.error().message};
      return {ValueStatus::kOk, encode_i64(sum.value())};
    }
    case StoreOp::kGet:
      return {ValueStatus::kOk, store.get(asked.key).value_or(std::string())};
    case StoreOp::kWait:
      break;
  }
  return {};
}

Answer RankStore::await_keys(const Request& request, const StoreRequest& asked) {
  StoreTable& store = serving_.store;
  const Rank self = handle_.rank();
  World& world = handle_.world();
  const bool one = asked.op == StoreOp::kGet;
  const std::vector<std::string> keys =
      one ? std::vector<std::string>{asked.key} : split_keys(asked.key);
  serving_.waits_for[to_index(self)] =
      waits_text(keys, process_.site(asked.file, asked.line, kNoName));
  const bool expires = serving_.expires || request.has(RequestFlag::kExpires);
  const std::int64_t longest = std::numeric_limits<std::int64_t>::max() - world.now().ns;
  const std::int64_t number = ++n_waits_;
  bool late = false;
  if (expires && asked.timeout_ns >= 0 && asked.timeout_ns < longest && !store.has_all(keys)) {
    world.at(world.now() + Duration{asked.timeout_ns}, [this, &late, number, alive = alive_] {
      if (!*alive || number != n_waits_ || !serving_.store.waits(handle_.rank())) return;
      late = true;
      serving_.store.stop_waiting(handle_.rank());
      handle_.world().wake(handle_.rank());
    });
  }
  while (!late && !store.has_all(keys)) {
    if (!store.waits(self)) store.wait(self, keys);
    handle_.block({.what = serving_.waits_for[to_index(self)]});
  }
  ++n_waits_;
  if (late) {
    return {ValueStatus::kTimedOut,
            fmt::format("wait timeout after {}ms, keys: {}",
                        asked.timeout_ns / kNsPerMillisecond,
                        quoted(keys))};
  }
  return answer(asked);
}

}  // namespace lockstep::sim
