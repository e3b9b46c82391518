// What viewers show beside an entry of a timeline.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lockstep/trace/timeline.h"

namespace lockstep::detail {

inline TimelineFact number_fact(std::string key, std::string digits) {
  return {.key = std::move(key), .value = std::move(digits), .is_text = false};
}

inline TimelineFact text_fact(std::string key, std::string_view text) {
  return {.key = std::move(key), .value = std::string(text), .is_text = true};
}

}  // namespace lockstep::detail
