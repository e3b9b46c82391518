// Where in the program something happened: evidence for a reader, and no difference between two runs.
#pragma once

#include <variant>

#include "lockstep/trace/event.h"

namespace lockstep::detail {

/// Two versions of one script differ in lines, and two copies of it in their names.
inline void forget_places(Event& event) {
  if (auto* collective = std::get_if<CollectiveEvent>(&event.body)) {
    collective->signature.site = {};
  } else if (auto* touch = std::get_if<TouchEvent>(&event.body)) {
    touch->site = {};
    touch->posted_at = kNoName;
  } else if (auto* exchange = std::get_if<ExchangeEvent>(&event.body)) {
    exchange->called_at = kNoName;
  }
}

}  // namespace lockstep::detail
