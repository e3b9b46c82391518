// A sketch as a scenario file.
#include <algorithm>
#include <cstdio>

#include "lockstep/harness/explore/jobs/job_sketch.h"

namespace lockstep {

namespace {

constexpr std::int64_t kBlock = 3;  // Characters a sample of text has.

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  const std::string written = text;
  return written.find_first_of(".e") == std::string::npos ? written + ".0" : written;
}

template <typename T>
std::string list(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(value);
  }
  return text + "]";
}

/// One table on one line: only what was put into it.
class Table {
 public:
  explicit Table(std::string name) : name_(std::move(name)) {}

  Table& put(const std::string& key, const std::string& toml) {
    body_ += (body_.empty() ? "" : ", ") + key + " = " + toml;
    return *this;
  }

  Table& word(const std::string& key, std::string_view value) {
    return put(key, quoted(std::string(value)));
  }

  template <NamedEnum E>
  Table& word(const std::string& key, E value) {
    return word(key, name_of(value));
  }

  Table& number(const std::string& key, std::int64_t value) {
    return put(key, std::to_string(value));
  }

  Table& flag(const std::string& key, bool on) { return on ? put(key, "true") : *this; }

  Table& off(const std::string& key, bool off) { return off ? put(key, "false") : *this; }

  std::string inlined() const { return "{ " + body_ + " }"; }

  std::string line() const { return name_ + " = " + inlined() + "\n"; }

 private:
  std::string name_;
  std::string body_;
};

std::int64_t copies(const JobSketch& s) {
  return s.sampler == SamplerKind::kStream ? std::max<std::int64_t>(s.workers, 1) : 1;
}

/// How many batches rank `rank` has: uneven in a join context.
std::int64_t n_batches(const JobSketch& s, std::int32_t rank) {
  if (!s.join) return s.batches;
  return 1 + static_cast<std::int64_t>((s.seed >> (2 * static_cast<unsigned>(rank))) % 3);
}

std::int64_t n_rows(const JobSketch& s) {
  if (s.sampler != SamplerKind::kBatchesByRank) {
    return s.ranks * copies(s) * s.batch * s.batches + s.extra;
  }
  std::int64_t n = 0;
  for (std::int32_t rank = 0; rank < s.ranks; ++rank) n += n_batches(s, rank) * s.batch;
  return n;
}

std::string world(const JobSketch& s) {
  Table table("world");
  if (s.nodes > 1) {
    table.number("nodes", s.nodes).number("ranks_per_node", s.ranks / s.nodes);
  } else {
    table.number("ranks", s.ranks);
  }
  table.number("seed", static_cast<std::int64_t>(s.seed));
  if (s.fault == SketchFault::kCrash) table.number("max_restarts", 1);
  return table.line();
}

std::string sim_table(const JobSketch& s) {
  Table table("sim");
  table.word("strategy", s.strategy);
  table.number("schedule_seed", static_cast<std::int64_t>(s.schedule_seed));
  table.word("order", ReductionOrder(s.order).name())
      .word("pairing", s.pairing)
      .word("fidelity", s.fidelity);
  if (s.timed) {
    const std::string link = "{ latency_ns = 2000, gb_per_s = 10, jitter_ns = 100 }";
    table.put("link", "{ intra = " + link + ", inter = " + link + " }");
    table.put("compute", "{ gflops = 10, jitter = 0.1 }");
  }
  return table.line();
}

std::string model(const JobSketch& s) {
  Table table("model");
  table.word("kind", s.model);
  if (s.model == ModelKind::kGpt) {
    table.number("layers", 1).number("heads", 2).number("width", 4);
  } else {
    std::vector<std::int64_t> widths = s.hidden;
    if (s.model != ModelKind::kCnn) widths.insert(widths.begin(), s.features);
    widths.push_back(s.outputs);
    table.put("widths", list(widths));
    table.word("activation", s.activation).off("bias", !s.bias && s.model != ModelKind::kScalar);
  }
  if (s.model == ModelKind::kCnn) table.put("image", "[1, 4, 4]");
  if (s.model == ModelKind::kTwoHead) table.word("head", s.head);
  if (s.checkpoint != CheckpointKind::kNone) table.word("checkpoint", s.checkpoint);
  table.word("dtype", s.dtype);
  if (s.freeze) table.put("freeze", "[\"0.weight\"]");
  Table init("init");
  init.number("seed", static_cast<std::int64_t>(s.seed)).flag("seed_by_rank", s.seed_by_rank);
  return table.put("init", init.inlined()).line();
}

std::string data_table(const JobSketch& s) {
  Table table("data");
  const std::int64_t holdout = s.eval ? 5 : 0;
  const std::int64_t n = n_rows(s) + holdout;
  if (s.model == ModelKind::kGpt) {
    std::string text;
    for (std::int64_t i = 0; i < n + kBlock; ++i) {
      text += static_cast<char>('a' + (i * i + static_cast<std::int64_t>(s.seed) + i / 3) % 5);
    }
    table.word("kind", "text").word("text", text).number("block_size", kBlock);
  } else {
    table.word("kind", "synthetic").word("task", s.classes ? "classification" : "regression");
    table.number("size", n).number("features", s.features).number("outputs", s.outputs);
    table.number("seed", static_cast<std::int64_t>(s.seed));
  }
  if (holdout > 0) table.number("holdout", holdout);
  if (s.sampler == SamplerKind::kStream)
    table.word("shard", s.workers > 0 ? "rank*worker" : "rank");
  return table.line();
}

std::string loader(const JobSketch& s) {
  Table table("loader");
  if (s.sampler == SamplerKind::kBatchesByRank) {
    std::string lists;
    for (std::int32_t rank = 0; rank < s.ranks; ++rank) {
      const std::vector<std::int64_t> sizes(static_cast<std::size_t>(n_batches(s, rank)), s.batch);
      lists += (lists.empty() ? "" : ", ") + list(sizes);
    }
    table.put("batches_by_rank", "[" + lists + "]");
  } else {
    table.number("batch", s.batch);
  }
  table.word("sampler", s.sampler).flag("shuffle", s.shuffle).flag("drop_last", s.drop_last);
  table.number("seed", static_cast<std::int64_t>(s.seed));
  if (s.workers > 0) table.number("workers", s.workers).flag("persistent", s.persistent);
  if (s.augment) table.put("augment", "{ stream = \"worker\", seed = 5 }");
  return table.line();
}

std::string optimizer(const JobSketch& s) {
  Table table("optimizer");
  table.word("kind", s.optimizer).put("lr", s.optimizer == OptimizerKind::kSgd ? "0.05" : "0.01");
  if (s.momentum) table.put("momentum", "0.9");
  if (s.weight_decay) table.put("weight_decay", "0.01");
  const bool adam = s.optimizer == OptimizerKind::kAdam || s.optimizer == OptimizerKind::kAdamW;
  const char* key = s.optimizer == OptimizerKind::kSgd ? "nesterov" : adam ? "amsgrad" : "centered";
  table.flag(key, s.variant);
  if (s.zero) table.number("zero", 1);
  if (s.averager) table.put("averager", "{ period = 2 }");
  return table.line();
}

std::string scheduler(const JobSketch& s) {
  if (!s.scheduler) return {};
  Table table("scheduler");
  table.word("kind", *s.scheduler);
  if (s.per_step) table.word("per", "step");
  if (s.scheduler == ScheduleKind::kMultistep) table.put("milestones", "[1, 2]");
  if (s.scheduler == ScheduleKind::kCosine) table.number("t_max", 4);
  if (s.scheduler == ScheduleKind::kRestarts) table.number("t_0", 2);
  if (s.scheduler == ScheduleKind::kOnecycle) {
    table.number("total_steps", 10).off("cycle_momentum", !s.momentum);
  }
  if (s.scheduler == ScheduleKind::kPlateau) table.word("metric", "eval").number("patience", 0);
  if (s.scheduler == ScheduleKind::kSequential) {
    table.put("parts", "[{ kind = \"linear\" }, { kind = \"exponential\" }]");
    table.put("milestones", "[1]");
  }
  return table.line();
}

std::string loop(const JobSketch& s) {
  Table table("loop");
  table.number("epochs", s.epochs)
      .number("accumulate", s.accumulate)
      .flag("no_sync", s.no_sync)
      .flag("redo", s.redo);
  table.word("zero_grad", s.zero_grad);
  const std::string metric = s.model == ModelKind::kGpt ? "cross-entropy"
                             : s.classes                ? "accuracy"
                                                        : "mse";
  if (s.eval) table.put("eval", "{ metric = " + quoted(metric) + " }");
  if (s.snapshot_every > 0) {
    table.put("snapshot", "{ every_steps = " + std::to_string(s.snapshot_every) + " }");
  }
  if (s.join) {
    table.put("join",
              s.divide_by_initial ? "{ divide_by_initial_world_size = true }"
                                  : "{ divide_by_initial_world_size = false }");
  }
  return table.line();
}

std::string ddp(const JobSketch& s) {
  Table table("ddp");
  if (!s.wrap) return table.put("wrap", "false").word("average", "manual").line();
  table.off("broadcast_buffers", !s.broadcast_buffers);
  if (s.bucket_bytes > 0) {
    table.put("bucket_cap_mb", number(static_cast<double>(s.bucket_bytes) / 1048576.0));
    table.number("first_bucket_bytes", s.bucket_bytes);
  }
  table.flag("find_unused_parameters", s.find_unused).flag("gradient_as_bucket_view", s.view);
  table.flag("static_graph", s.static_graph);
  if (s.hook == HookKind::kPowerSgd) {
    table.put("hook", "{ kind = \"powersgd\", start_powerSGD_iter = 2 }");
  } else if (s.hook == HookKind::kPostLocalSgd) {
    table.put("hook", "{ kind = \"post-local-sgd\", start_localSGD_iter = 1 }");
  } else {
    table.word("hook", s.hook);
  }
  return table.line();
}

std::string fault(const JobSketch& s) {
  if (s.fault == SketchFault::kNone) return {};
  Table table("fault");
  table.word("kind", s.fault).put("ranks", "[" + std::to_string(s.fault_rank) + "]");
  const std::string step = "{ step = " + std::to_string(s.fault_step);
  if (s.fault == SketchFault::kLate || s.fault == SketchFault::kCrash)
    table.put("at", step + ", event = \"forward\" }");
  if (s.fault == SketchFault::kDelay) table.put("at", step + ", event = \"all_reduce\" }");
  if (s.fault == SketchFault::kSlow) table.put("factor", "3.0");
  if (s.fault == SketchFault::kClockSkew) table.number("skew_ns", 1'000'000);
  return "fault = [" + table.inlined() + "]\n";
}

std::string repeated_laws(const JobSketch& s) {
  std::string laws = quoted("deterministic");
  // Other orders add up what their buckets, which a resumed job builds again, put together; and a
  // first reduction multiplies where later ones divide views.
  const bool by_element =
      !s.view && (s.order == ReductionOrder::kRank || s.order == ReductionOrder::kPairwise);
  if (s.snapshot_every > 0 && s.fault != SketchFault::kCrash && by_element) {
    laws += ", " + quoted("resume-equal");
  }
  return "expect = { quiet = [" + laws + "] }\n";
}

}  // namespace

std::string to_toml(const JobSketch& s, bool thorough) {
  std::string text = "format = 1\ntitle = \"A random correct job\"\n";
  text += world(s) + sim_table(s) + model(s) + data_table(s) + loader(s);
  Table loss("loss");
  text += loss.word("kind", s.classes ? LossKind::kCrossEntropy : s.loss).line();
  text += optimizer(s) + scheduler(s);
  if (s.autocast) text += "autocast = { dtype = \"" + std::string(name_of(*s.autocast)) + "\" }\n";
  if (s.scaler) text += "scaler = { init = 1024.0 }\n";
  if (s.clip) text += "clip = { " + std::string(name_of(*s.clip)) + " = 0.5 }\n";
  return text + loop(s) + ddp(s) + fault(s) + (thorough ? repeated_laws(s) : "");
}

}  // namespace lockstep
