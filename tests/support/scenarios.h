// Scenario texts that fail, and documents made of them.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "lockstep/harness/format/document.h"

namespace lockstep::explore::testing {

inline TomlNode document_of(const std::string& text) {
  Result<TomlNode> document = parse_toml(text, "job.toml");
  EXPECT_TRUE(document.ok()) << (document.ok() ? "" : document.error().text());
  return document.ok() ? std::move(document).value() : TomlNode();
}

/// Eight ranks, six steps and much that does not matter; rank 5's parameter is overwritten.
inline const char* const kNudged = R"(
format = 1
title = "A rank of eight is nudged"
world = { ranks = 8, seed = 3 }
sim = { order = "gloo-ring", strategy = "random:seed=11" }
model = { kind = "mlp", widths = [4, 8, 8, 2], activation = "tanh" }
data = { kind = "synthetic", size = 96, features = 4, outputs = 2, seed = 9 }
loader = { batch = 2, shuffle = true, seed = 4 }
loss = { kind = "mse" }
optimizer = { kind = "sgd", lr = 0.0625, momentum = 0.5 }
loop = { steps = 6 }
ddp = { bucket_cap_mb = 0.001, gradient_as_bucket_view = true }
bug = [
  { kind = "scale-gradient", ranks = [0, 1, 2, 3, 4, 5, 6, 7], factor = 1.0 },
  { kind = "write-tensor", ranks = [5], tensor = "0.weight", value = 7.0, at = { step = 3 } },
]
)";

/// Ranks 1 and 3 compute for so long that some schedules take the world for one that is spinning
/// without progress: they compute one after the other by default, which is short enough.
inline const char* const kImpatient = R"(
format = 1
world = { ranks = 4 }
sim = { livelock_points = 40 }
tensor.x = { shape = [4] }
program = [
  { ranks = [1, 3], body = [ { op = "repeat", times = 30, body = [ { op = "compute", ns = 0 } ] } ] },
  { ranks = "all", body = [ { op = "all_reduce", tensor = "x" }, { op = "all_reduce", tensor = "x" } ] },
]
)";

/// Two ranks reduce different numbers of elements; with one of them alone, the other waits forever.
inline const char* const kCounts = R"(
format = 1
world = { ranks = 2 }
tensor.short = { shape = [2] }
tensor.long = { shape = [4] }
program = [
  { ranks = [0], body = [ { op = "all_reduce", tensor = "short" } ] },
  { ranks = [1], body = [ { op = "all_reduce", tensor = "long" } ] },
]
)";

}  // namespace lockstep::explore::testing
