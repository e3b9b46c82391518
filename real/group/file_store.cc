#include "lockstep/real/group/file_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <unistd.h>
#include <utility>

#include "lockstep/real/group/rendezvous.h"

namespace lockstep::peers {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kGivenUp = "given-up";
constexpr std::int32_t kChecksPerProcessCheck = 64;

std::string text_of(const Bytes& bytes) {
  std::string text(bytes.size(), '\0');
  std::transform(bytes.begin(), bytes.end(), text.begin(), [](std::byte byte) {
    return static_cast<char>(byte);
  });
  return text;
}

std::string round_name(std::int64_t round, std::int32_t rank) {
  return "call-" + std::to_string(round) + "." + std::to_string(rank);
}

std::string left_name(std::int32_t rank) { return "left-" + std::to_string(rank); }

}  // namespace

Outcome FileStore::set(const std::string& name, std::span<const std::byte> value) const {
  const std::string path = start_ + name;
  const std::string part = path + ".part-" + std::to_string(writer_);
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(value.data()),
               static_cast<std::streamsize>(value.size()));
    file.close();
    if (!file) return Error{"cannot write this file", part};
  }
  std::error_code code;
  std::filesystem::rename(part, path, code);
  if (code) return Error{"cannot publish this file: " + code.message(), path};
  return success();
}

std::optional<Bytes> FileStore::read(const std::string& name) const {
  std::ifstream file(start_ + name, std::ios::binary);
  if (!file) return std::nullopt;
  Bytes bytes;
  for (char c = 0; file.get(c);) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

bool FileStore::remove(const std::string& name) const {
  return unlink((start_ + name).c_str()) == 0;
}

void Backoff::pause() {
  constexpr std::int32_t kFree = 20;
  constexpr std::int32_t kMicrosecondsEach = 10;
  constexpr std::int32_t kMicrosecondsAtMost = 1000;
  ++n_pauses_;
  if (n_pauses_ <= kFree) return std::this_thread::yield();
  const std::int32_t span = std::min(kMicrosecondsEach * (n_pauses_ - kFree), kMicrosecondsAtMost);
  std::this_thread::sleep_for(std::chrono::microseconds(span));
}

std::string listed_ranks(std::span<const std::int32_t> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

PeerMonitor::PeerMonitor(const Membership& member)
    : member_(&member),
      own_(member.world_ranks[static_cast<std::size_t>(member.rank)]),
      store_(member.folder, member.name, own_) {}

void PeerMonitor::report_failure(const std::string& why) const {
  if (store_.read(kGivenUp)) return;
  const std::string text = "rank " + std::to_string(own_) + " gave up: " + why;
  // A rank that cannot write it leaves the others to their own deadlines.
  (void)store_.set(kGivenUp, bytes_of(text));
}

void PeerMonitor::announce_leaving() const { (void)store_.set(left_name(own_), {}); }

bool PeerMonitor::has_left(std::int32_t world_rank) const {
  return store_.read(left_name(world_rank)).has_value();
}

Completion PeerMonitor::exited_peer() const {
  for (const std::int32_t rank : member_->world_ranks) {
    const std::string gone = exited_process(member_->folder, rank);
    if (!gone.empty() && !has_left(rank)) {
      return {CommStatus::kPeerLost, "rank " + std::to_string(rank) + " is gone (" + gone + ")"};
    }
  }
  return {};
}

Completion PeerMonitor::failure() {
  if (const std::optional<Bytes> notice = store_.read(kGivenUp)) {
    return {CommStatus::kPeerLost, text_of(*notice)};
  }
  return ++n_checks_ % kChecksPerProcessCheck == 0 ? exited_peer() : Completion{};
}

namespace {

/// One round, as this rank sees it fill up.
class Round {
 public:
  Round(const Membership& member, const FileStore& store, std::int64_t number)
      : member_(&member),
        store_(&store),
        number_(number),
        values_(static_cast<std::size_t>(member.size)) {}

  /// Checks who has arrived. Returns: whether all have.
  bool poll() {
    missing_.clear();
    for (std::size_t r = 0; r < values_.size(); ++r) {
      if (!values_[r]) values_[r] = store_->read(round_name(number_, static_cast<std::int32_t>(r)));
      if (!values_[r]) missing_.push_back(member_->world_ranks[r]);
    }
    return missing_.empty();
  }

  /// The first missing member that had left before the last check: it did not arrive before either.
  std::optional<std::int32_t> left_before_arriving(const PeerMonitor& monitor) {
    for (const std::int32_t rank : missing_) {
      if (left_.contains(rank)) return rank;
      if (monitor.has_left(rank)) left_.insert(rank);
    }
    return std::nullopt;
  }

  std::string missing() const { return listed_ranks(missing_); }

  Bytes all() const {
    Bytes all;
    for (const std::optional<Bytes>& value : values_) {
      all.insert(all.end(), value->begin(), value->end());
    }
    return all;
  }

 private:
  const Membership* member_;
  const FileStore* store_;
  std::int64_t number_;
  std::vector<std::optional<Bytes>> values_;
  std::vector<std::int32_t> missing_;
  std::set<std::int32_t> left_;
};

}  // namespace

GatheredBytes all_gather_bytes(PeerMonitor& monitor,
                               const Membership& member,
                               std::int64_t round,
                               std::span<const std::byte> own,
                               std::chrono::milliseconds timeout) {
  const FileStore& store = monitor.store();
  if (Outcome written = store.set(round_name(round, member.rank), own); !written.ok()) {
    return {{CommStatus::kAborted, written.error().text()}, {}};
  }
  const Clock::time_point deadline = Clock::now() + timeout;
  Round here(member, store, round);
  Backoff backoff;
  while (!here.poll()) {
    if (Completion failure = monitor.failure(); failure.status != CommStatus::kOk) {
      return {std::move(failure), {}};
    }
    if (const auto left = here.left_before_arriving(monitor)) {
      return {{CommStatus::kPeerLost, "rank " + std::to_string(*left) + " has left the group"}, {}};
    }
    if (Clock::now() >= deadline) {
      return {
          {CommStatus::kTimedOut,
           here.missing() + " did not arrive within " + std::to_string(timeout.count()) + " ms"},
          {}};
    }
    backoff.pause();
  }
  // All have come to this round, so the one before is no longer read.
  (void)store.remove(round_name(round - 1, member.rank));
  return {{}, here.all()};
}

}  // namespace lockstep::peers
