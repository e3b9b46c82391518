#include "lockstep/trace/trace_digest.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "lockstep/tensor/digest.h"
#include "lockstep/trace/detail/event_fields.h"

namespace lockstep {

namespace {

/// One multiplication a word; mix64 finishes each event.
constexpr std::uint64_t fold(std::uint64_t hash, std::uint64_t word) {
  return (std::rotl(hash, 23) ^ word) * kGolden64;
}

/// The chain to fold next comes first.
constexpr std::uint64_t hash_of_chains(const std::array<std::uint64_t, 4>& chains) {
  return fold(fold(fold(chains[0], chains[1]), chains[2]), chains[3]);
}

/// Two numbers of at most 32 bits.
constexpr std::uint64_t pair(std::int32_t high, std::int32_t low) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U) |
         static_cast<std::uint32_t>(low);
}

/// In four chains again.
std::uint64_t hash_words(std::span<const std::uint64_t> words) {
  std::uint64_t first = words.size();
  std::uint64_t second = 2;
  std::uint64_t third = 3;
  std::uint64_t fourth = 4;
  for (; words.size() >= 4; words = words.subspan(4)) {
    first = fold(first, words[0]);
    second = fold(second, words[1]);
    third = fold(third, words[2]);
    fourth = fold(fourth, words[3]);
  }
  if (!words.empty()) first = fold(first, words[0]);
  if (words.size() > 1) second = fold(second, words[1]);
  if (words.size() > 2) third = fold(third, words[2]);
  return fold(fold(fold(first, second), third), fourth);
}

std::uint64_t hash_measure(double value) {
  const std::array<std::uint64_t, 1> words = {std::bit_cast<std::uint64_t>(value)};
  return hash_words(words);
}

constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = text.size() + 1;
  for (const char letter : text) hash = fold(hash, static_cast<unsigned char>(letter));
  return mix64(hash) | 1U;  // Never 0, which marks "not hashed yet".
}

template <typename Choice>
constexpr auto hash_words_of() {
  std::array<std::uint64_t, kEnumNames<Choice>.size()> hashes{};
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = hash_text(kEnumNames<Choice>[i]);
  return hashes;
}

}  // namespace

/// Folds the fields of one event, in four chains that take turns: a word waits for the fourth one
/// before it only. Call sites go into a separate sum, since results do not have them, and so do
/// digests of tensors, the only difference between most gradients of different ranks.
class TraceDigest::Folder {
 public:
  Folder(TraceDigest& digest, const NameTable& names) : digest_(&digest), names_(&names) {}

  std::uint64_t hash() const { return hash_of_chains(chains()); }

  std::array<std::uint64_t, 4> chains() const { return {next_, second_, third_, last_}; }

  std::uint64_t digests() const { return digests_; }

  std::uint64_t sites() const { return sites_; }

  void start(std::uint64_t seed) { next_ = seed; }

  void add(std::uint64_t word) {
    const std::uint64_t folded = fold(next_, word);
    next_ = second_;
    second_ = third_;
    third_ = last_;
    last_ = folded;
  }

  void add_signed(std::int64_t value) { add(static_cast<std::uint64_t>(value)); }

  void flag(const char* /*key*/, bool value) { add(value ? 1 : 0); }

  void integer(const char* /*key*/, std::int64_t value) { add_signed(value); }

  void real(const char* /*key*/, double value) { add(std::bit_cast<std::uint64_t>(value)); }

  void measure(const char* /*key*/, double value) { digests_ = hash_measure(value); }

  void word(const char* /*key*/, std::uint64_t value) { add(value); }

  void name(const char* /*key*/, NameId id) { add(digest_->hash_of(id, *names_)); }

  void layout(const char* /*key*/, LayoutId id) { add(digest_->hash_of(id, *names_)); }

  template <typename Choice>
  void choice(const char* /*key*/, Choice value) {
    add(static_cast<std::uint64_t>(value));
  }

  /// As the text that files have, which it was when digests were first written down.
  template <typename Choice>
  void spelled(const char* /*key*/, Choice value) {
    static constexpr auto kHashes = hash_words_of<Choice>();
    add(kHashes[static_cast<std::size_t>(value)]);
  }

  template <typename Choice>
  void aside(const char* /*key*/, Choice /*value*/) {}

  template <typename Number>
  void integers(const char* /*key*/, std::span<const Number> values) {
    if constexpr (sizeof(Number) == sizeof(std::uint64_t)) {
      add_list(values.data(), values.size());
    } else {
      add(values.size());
      for (const Number value : values) add_signed(value);
    }
  }

  void words(const char* /*key*/, std::span<const std::uint64_t> values) {
    digests_ = hash_words(values);
  }

  void reals(const char* /*key*/, std::span<const double> values) {
    add_list(values.data(), values.size());
  }

  /// They follow from the values that the digests next to them stand for.
  void sketches(const char* /*key*/, std::span<const Sketch> values) { add(values.size()); }

  void bits(const char* /*key*/, std::span<const std::uint8_t> values) {
    for (const std::uint8_t value : values) add(value);
  }

  void site(const char* /*key*/, const CallSite& site) {
    sites_ = fold(fold(digest_->hash_of_file(site.file), static_cast<std::uint64_t>(site.line)),
                  hash_text(site.scope));
  }

 private:
  void add_list(const void* data, std::size_t n_words) {
    add(n_words);
    const auto* const bytes = static_cast<const std::byte*>(data);
    for (std::size_t i = 0; i < n_words; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + i * sizeof(word), sizeof(word));
      add(word);
    }
  }

  TraceDigest* digest_;
  const NameTable* names_;
  std::uint64_t next_ = 0;
  std::uint64_t second_ = 2;
  std::uint64_t third_ = 3;
  std::uint64_t last_ = 4;
  std::uint64_t digests_ = 0;
  std::uint64_t sites_ = 0;
};

std::uint64_t TraceDigest::hash_of(NameId id, const NameTable& names) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= name_hashes_.size()) name_hashes_.resize(names.size(), 0);
  if (name_hashes_[index] == 0) name_hashes_[index] = hash_text(names.text(id));
  return name_hashes_[index];
}

std::uint64_t TraceDigest::hash_of(LayoutId id, const NameTable& names) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= layout_hashes_.size()) layout_hashes_.resize(index + 1, 0);
  if (layout_hashes_[index] == 0) {
    std::uint64_t hash = 0;
    for (const NameId name : names.layout(id)) hash = fold(hash, hash_of(name, names));
    layout_hashes_[index] = mix64(hash) | 1U;
  }
  return layout_hashes_[index];
}

// Files are literals or interned: the same address is the same text.
std::uint64_t TraceDigest::hash_of_file(const char* file) {
  if (file != last_file_) {
    last_file_ = file;
    last_file_hash_ = hash_text(file);
  }
  return last_file_hash_;
}

TraceDigest::Content TraceDigest::content_of(const Event& event, const NameTable& names) {
  Folder folder(*this, names);
  folder.start(event.body.index() + 1);
  std::visit([&](const auto& body) { detail::visit_fields(folder, body); }, event.body);
  if (const auto* state = std::get_if<StateEvent>(&event.body)) folder.choice("", state->kind);
  const std::uint64_t body = folder.hash();

  folder.add(pair(event.at.attempt, event.at.wrapper));
  folder.add(pair(event.at.sync, event.at.micro));
  folder.add(pair(event.at.opt, event.at.epoch));

  Content content;
  const std::array<std::uint64_t, 4> chains = folder.chains();
  content.chains_ = {chains[0], chains[1], chains[2]};
  content.last_ = fold(chains[3], folder.sites());
  content.digests_ = folder.digests();
  // Faults, logs and machines are about how and where a run went, not about what it computed.
  if (std::holds_alternative<FaultEvent>(event.body) ||
      std::holds_alternative<LogEvent>(event.body) ||
      std::holds_alternative<EnvironmentEvent>(event.body)) {
    return content;
  }
  const auto* collective = std::get_if<CollectiveEvent>(&event.body);
  if (collective != nullptr && collective->phase != CollectivePhase::kPosted) {
    // When a collective completes, between which of the rank's own events, is up to the schedule.
    content.part_ = Content::Part::kCompletion;
    content.result_ = mix64(body);
  } else {
    content.part_ = Content::Part::kProgram;
    content.result_ = folder.hash();
  }
  return content;
}

std::uint64_t TraceDigest::hash_of(std::span<const std::uint64_t> digests) {
  return hash_words(digests);
}

std::uint64_t TraceDigest::hash_of(double measure) { return hash_measure(measure); }

void TraceDigest::add(const EventStamp& stamp, const Content& content, std::uint64_t measured) {
  ++n_events_;
  // As Folder::add: each word into the chain whose turn it is.
  const std::uint64_t first =
      fold(content.chains_[0], static_cast<std::uint64_t>(to_int(stamp.rank)));
  const std::uint64_t second = fold(content.chains_[1], stamp.index);
  const std::uint64_t third = fold(content.chains_[2], static_cast<std::uint64_t>(stamp.time.ns));
  const std::uint64_t own = fold(fold(fold(first, second), third), content.last_);
  trace_ = fold(fold(trace_, own), measured);

  if (content.part_ == Content::Part::kNone) return;
  if (by_rank_.size() <= to_index(stamp.rank)) by_rank_.resize(to_index(stamp.rank) + 1);
  RankResult& result = by_rank_[to_index(stamp.rank)];
  if (content.part_ == Content::Part::kCompletion) {
    result.completions += content.result_;
  } else {
    result.program = fold(fold(result.program, content.result_), measured);
  }
}

std::uint64_t TraceDigest::trace() const { return mix64(trace_); }

std::uint64_t TraceDigest::result() const {
  std::uint64_t sum = 0;
  for (std::size_t rank = 0; rank < by_rank_.size(); ++rank) {
    const RankResult& result = by_rank_[rank];
    if (result.program == 0 && result.completions == 0) continue;
    sum += mix64(fold(fold(rank + 1, result.program), result.completions));
  }
  return sum;
}

}  // namespace lockstep
