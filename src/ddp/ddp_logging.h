// What a wrapper says about itself: PyTorch's ddp_logging_data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lockstep/comm/process_group.h"

namespace lockstep {

class Reducer;
struct DdpOptions;

/// PyTorch's fields by their names. Absent where PyTorch leaves them out too (nothing was rebuilt
/// yet), and in addition: times, the hook's name, errors, num_buckets_reduced of late versions.
struct DdpLoggingData {
  std::map<std::string, std::string> texts;
  std::map<std::string, std::int64_t> numbers;
};

/// Takes samples as forwards begin, and derives fields from them when asked.
///
/// Source: c10d logger.cpp, of 1.13 or 2.15 (executed). Sampled are the first ten synchronising
///     forwards after the first one, and each hundredth; what a forward rebuilds shows in the next
///     sample.
class DdpLogger {
 public:
  DdpLogger() = default;
  /// Keeps the sizes of the first buckets.
  DdpLogger(const Reducer& reducer, bool is_compat_113);

  /// A synchronising forward begins; call before it is counted.
  void on_forward(const Reducer& reducer);

  /// `cap_bytes`: of a bucket.
  DdpLoggingData data(const Reducer& reducer,
                      const DdpOptions& options,
                      ProcessGroup& group,
                      std::int64_t cap_bytes) const;

 private:
  void add_samples(DdpLoggingData& data, const Reducer& reducer) const;

  std::vector<std::int64_t> first_bucket_bytes_;
  bool is_compat_113_ = false;
  bool sampled_ = false;
  bool rebuilt_ = false;
  bool tells_unused_ = false;
  std::int64_t iteration_ = 0;
  std::int64_t unused_bytes_ = 0;
  std::vector<std::int32_t> ready_order_;
};

}  // namespace lockstep
