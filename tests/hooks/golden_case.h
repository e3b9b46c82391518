// The cases of tests/golden/hooks.txt.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "lockstep/hooks/power_sgd_hook.h"

#include "tests/golden/golden_bits.h"
#include "tests/hooks/buckets.h"

namespace lockstep::golden {

/// A tensor's words, or for more than 80: '#', count, digest.
inline void append_short(std::vector<std::string>& words, const Tensor& tensor) {
  const std::vector<std::string> bits = bits_of(tensor);
  if (bits.size() <= 80) {
    words.insert(words.end(), bits.begin(), bits.end());
    return;
  }
  std::vector<std::int64_t> values;
  for (const std::string& word : bits) {
    values.push_back(static_cast<std::int64_t>(parse_hex64(word).value()));
  }
  words.insert(words.end(), {"#", std::to_string(bits.size()), hex64(digest(values))});
}

/// Splits at every `mark`.
inline std::vector<std::string> split(const std::string& text, char mark) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, mark);) parts.push_back(part);
  return parts;
}

struct HookCase {
  std::string text;
  std::string hook;
  std::int32_t n_ranks = 0;
  DType dtype = DType::kF32;
  std::int64_t index = 0;
  std::int64_t scale = 0;
  std::int64_t n_steps = 0;
  std::vector<std::vector<Shape>> buckets;
  std::map<std::string, std::string> options;
  bool agree = false;
  std::vector<std::string> results;
  std::vector<std::string> state;
  std::vector<std::string> collectives;

  std::int64_t option(const std::string& name, std::int64_t otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : parse_int(found->second).value();
  }

  PowerSgdOptions power_sgd() const {
    return {.rank = option("rank", 1),
            .start_iter = option("start", 2),
            .min_compression_rate = static_cast<double>(option("rate", 2)),
            .error_feedback = option("feedback", 1) != 0,
            .warm_start = option("warm", 1) != 0,
            .orthogonalization_epsilon = options.contains("eps") ? 1e-3 : 0.0,
            .seed = static_cast<std::uint32_t>(option("seed", 0)),
            .batch_same_shapes = option("batch", 0) != 0};
  }

  GradBucket bucket(Runtime& runtime, std::size_t b) const {
    return testing::make_bucket(runtime, buckets[b], dtype, b, b + 1 == buckets.size());
  }

  /// The local gradients of one rank: normal numbers times a power of two.
  void fill(const GradBucket& bucket, std::int64_t step, std::int32_t rank) const {
    const auto b = static_cast<std::int64_t>(bucket.index());
    const std::int64_t seed = index * 10000 + step * 100 + b * 10 + rank;
    testing::fill_normal(bucket.buffer(), static_cast<std::uint64_t>(seed));
    Kernels& kernels = bucket.buffer().runtime().kernels();
    kernels.scale(bucket.buffer(), bucket.buffer(), std::ldexp(1.0, static_cast<int>(scale)));
  }

  /// All ranks' words as the file has them. Where ranks should agree and do not, all of them.
  std::vector<std::string> layout(const std::vector<std::vector<std::string>>& ranks) const {
    std::vector<std::string> words = ranks[0];
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      if (agree && ranks[r] == ranks[0]) continue;
      words.insert(words.end(), ranks[r].begin(), ranks[r].end());
    }
    return words;
  }
};

inline HookCase parse_hook_case(const Case& line) {
  HookCase one;
  one.text = line.text();
  one.hook = line.kind;
  one.n_ranks = static_cast<std::int32_t>(line.integer(0));
  one.dtype = parse_enum<DType>(line.arguments[1]).value();
  one.index = line.integer(2);
  one.scale = line.integer(3);
  one.n_steps = line.integer(4);
  one.buckets = testing::parse_buckets(line.arguments[5]);
  for (const std::string& option : split(line.arguments[6], ';')) {
    const std::vector<std::string> pair = split(option, '=');
    if (pair.size() == 2) one.options[pair[0]] = pair[1];
  }
  one.agree = line.flag(7);
  const std::vector<std::string> parts = split(line.values, '|');
  one.results = words_of(parts.at(0));
  one.state = words_of(parts.at(1));
  if (parts.size() > 2) one.collectives = words_of(parts[2]);
  if (!one.collectives.empty()) one.collectives = split(one.collectives[0], ';');
  for (std::string& text : one.collectives) text.replace(text.find('_'), 1, " ");
  return one;
}

/// All cases of one hook.
inline std::vector<HookCase> hook_cases(const std::string& hook) {
  std::vector<HookCase> cases;
  for (const Case& line : read("hooks.txt")) {
    if (line.kind == hook) cases.push_back(parse_hook_case(line));
  }
  return cases;
}

}  // namespace lockstep::golden
