// The fields of every event body, listed once: the writer, the reader and the digests of traces all
// walk this list, so they cannot disagree about what an event contains.
//
// A visitor has flag, integer, real, word, name, layout, choice, site and the list forms integers,
// words, reals, sketches, bits; `Body` is const for those that only look. A `measure` is a real
// that follows from tensors, as their digests do: an event has one at most. An `aside` is what
// files leave out where there is nothing to say, and what is in no digest of a trace.
#pragma once

#include "lockstep/trace/event.h"

namespace lockstep::detail {

template <typename Body, typename Wanted>
concept Is = std::is_same_v<std::remove_const_t<Body>, Wanted>;

template <typename Visitor, typename Body>
void visit_training_fields(Visitor& visit, Body& event) {
  if constexpr (Is<Body, WrapEvent>) {
    visit.layout("params", event.params);
    visit.layout("frozen", event.frozen);
    visit.layout("buffers", event.buffers);
    visit.layout("ignored", event.ignored);
    visit.spelled("buffer_policy", event.buffer_policy);
    visit.integer("bucket_cap_bytes", event.bucket_cap_bytes);
    visit.integer("group", event.group);
    visit.integer("n_ranks", event.n_ranks);
    visit.flag("synchronizes", event.synchronizes);
  } else if constexpr (Is<Body, ForwardEvent>) {
    visit.flag("through_wrapper", event.through_wrapper);
    visit.flag("synchronizing", event.synchronizing);
    visit.flag("training", event.training);
    visit.flag("grad", event.grad);
    visit.aside("autocast", event.autocast);
  } else if constexpr (Is<Body, BackwardEvent>) {
    visit.flag("reduced", event.reduced);
  } else if constexpr (Is<Body, BatchEvent>) {
    visit.integer("n_samples", event.n_samples);
    visit.integer("n_tokens", event.n_tokens);
    visit.real("denominator", event.denominator);
    visit.name("declared", event.declared);
  } else if constexpr (Is<Body, GradEvent>) {
    visit.choice("point", event.point);
    visit.layout("names", event.layout);
    visit.words("digests", event.digests);
    visit.sketches("sketches", event.sketches);
    visit.integers("n_elems", event.n_elems);
    visit.bits("undefined", event.undefined);
    visit.choice("dtype", event.dtype);
  } else if constexpr (Is<Body, StateEvent>) {
    visit.choice("point", event.point);
    visit.layout("names", event.layout);
    visit.words("digests", event.digests);
  } else if constexpr (Is<Body, StepEvent>) {
    visit.real("lr", event.lr);
    visit.real("scale", event.scale);
    visit.flag("found_inf", event.found_inf);
    visit.flag("skipped", event.skipped);
    visit.layout("names", event.layout);
  }
}

template <typename Visitor, typename Body>
void visit_collective_fields(Visitor& visit, Body& event) {
  visit.choice("phase", event.phase);
  visit.integer("group", event.group);
  visit.integer("seq", event.seq);
  visit.choice("op", event.signature.op);
  visit.choice("reduce", event.signature.reduce);
  visit.choice("dtype", event.signature.dtype);
  visit.choice("device", event.signature.device);
  visit.flag("async", event.signature.async);
  visit.integer("root", event.signature.root);
  visit.integer("peer", event.signature.peer);
  visit.integer("tag", event.signature.tag);
  visit.integer("count", event.signature.count);
  visit.real("premul", event.signature.premul);
  visit.word("splits", event.signature.splits);
  visit.word("layout", event.signature.layout);
  visit.site("site", event.signature.site);
  visit.word("digest", event.digest);
  visit.spelled("status", event.status);
}

template <typename Visitor, typename Body>
void visit_data_fields(Visitor& visit, Body& event) {
  if constexpr (Is<Body, BucketEvent>) {
    visit.integers("indices", event.indices);
    visit.integers("lengths", event.lengths);
  } else if constexpr (Is<Body, SampleEvent>) {
    visit.name("split", event.split);
    visit.integers("ids", event.ids);
  } else if constexpr (Is<Body, EpochEvent>) {
    visit.name("split", event.split);
    visit.name("sampler", event.sampler);
    visit.word("generator_key", event.generator_key);
    visit.word("order_digest", event.order_digest);
    visit.integer("dataset_size", event.dataset_size);
    visit.integer("n_replicas", event.n_replicas);
    visit.integer("per_rank", event.per_rank);
    visit.flag("shuffle", event.shuffle);
    visit.flag("drop_last", event.drop_last);
    visit.flag("pads", event.pads);
  } else if constexpr (Is<Body, DataEvent>) {
    visit.choice("part", event.part);
    visit.name("split", event.split);
    visit.name("source", event.source);
    visit.word("digest", event.digest);
  } else if constexpr (Is<Body, InputEvent>) {
    visit.name("argument", event.argument);
    visit.choice("dtype", event.dtype);
    visit.integer("n_elems", event.n_elems);
    visit.words("rows", event.rows);
  } else if constexpr (Is<Body, RngEvent>) {
    visit.name("stream", event.stream);
    visit.flag("shared", event.shared);
    visit.integer("worker", event.worker);
    visit.word("state", event.state);
  } else if constexpr (Is<Body, PhaseEvent>) {
    visit.choice("phase", event.kind);
  } else if constexpr (Is<Body, MetricEvent>) {
    visit.name("name", event.name);
    visit.real("value", event.value);
    visit.real("numerator", event.numerator);
    visit.real("denominator", event.denominator);
    visit.reals("parts", event.parts);
    visit.aside("formula", event.formula);
  } else if constexpr (Is<Body, DecisionEvent>) {
    visit.name("name", event.name);
    visit.integer("value", event.value);
  } else if constexpr (Is<Body, FaultEvent>) {
    visit.name("fault", event.kind);
    visit.name("detail", event.detail);
  } else if constexpr (Is<Body, LogEvent>) {
    visit.name("text", event.text);
    visit.aside("about", event.kind);
  } else if constexpr (Is<Body, ValueEvent>) {
    visit.name("tensor", event.tensor);
    visit.choice("point", event.point);
    visit.reals("values", event.values);
  } else if constexpr (Is<Body, GroupEvent>) {
    visit.integer("group", event.group);
    visit.integers("members", event.members);
  } else if constexpr (Is<Body, TouchEvent>) {
    visit.flag("written", event.written);
    visit.name("operation", event.operation);
    visit.site("site", event.site);
    visit.integer("group", event.group);
    visit.integer("seq", event.seq);
    visit.spelled("call", event.call);
    visit.flag("receives", event.receives);
    visit.name("posted_at", event.posted_at);
    visit.aside("manner", event.manner);
  }
}

template <typename Visitor, typename Body>
void visit_job_fields(Visitor& visit, Body& event) {
  if constexpr (Is<Body, LossEvent>) {
    visit.name("function", event.function);
    visit.choice("reduction", event.reduction);
    visit.measure("value", event.value);
    visit.real("denominator", event.denominator);
    visit.integer("n_terms", event.n_terms);
    visit.integer("n_rows", event.n_rows);
    visit.flag("grad", event.grad);
    visit.aside("graph", event.graph);
  } else if constexpr (Is<Body, ClipEvent>) {
    visit.choice("clip", event.kind);
    visit.real("limit", event.limit);
    visit.real("norm_type", event.norm_type);
    visit.real("norm", event.norm);
    visit.real("factor", event.factor);
    visit.layout("names", event.layout);
    visit.flag("whole", event.whole);
    visit.aside("own", event.own);
  } else if constexpr (Is<Body, OptimizerEvent>) {
    visit.name("optimizer", event.kind);
    visit.integer("group", event.group);
    visit.layout("names", event.layout);
    visit.layout("options", event.options);
    visit.reals("values", event.values);
  } else if constexpr (Is<Body, OuterStepEvent>) {
    visit.name("outer", event.kind);
    visit.integer("group", event.group);
    visit.integer("n_ranks", event.n_ranks);
    visit.integer("step", event.step);
    visit.real("denominator", event.denominator);
    visit.real("lr", event.lr);
    visit.real("momentum", event.momentum);
    visit.flag("nesterov", event.nesterov);
    visit.layout("names", event.layout);
  } else if constexpr (Is<Body, ZeroGradEvent>) {
    visit.flag("to_none", event.to_none);
    visit.layout("names", event.layout);
  } else if constexpr (Is<Body, BufferPolicyEvent>) {
    visit.layout("names", event.layout);
    visit.spelled("policy", event.policy);
  } else if constexpr (Is<Body, CommHookEvent>) {
    visit.choice("effect", event.effect);
  } else if constexpr (Is<Body, ExchangeEvent>) {
    visit.spelled("call", event.call);
    visit.choice("reduce", event.reduce);
    visit.integer("group", event.group);
    visit.integer("seq", event.seq);
    visit.integer("n_ranks", event.n_ranks);
    visit.integer("step", event.step);
    visit.name("called_at", event.called_at);
    visit.choice("join", event.join);
    visit.flag("grad", event.grad);
    visit.flag("dropped", event.dropped);
    visit.flag("answered", event.answered);
    visit.flag("scaled", event.scaled);
    visit.word("digest", event.digest);
  } else if constexpr (Is<Body, LoneEvent>) {
    visit.choice("point", event.point);
    visit.layout("names", event.layout);
    visit.words("digests", event.digests);
    visit.sketches("sketches", event.sketches);
    visit.integers("n_elems", event.n_elems);
    visit.choice("dtype", event.dtype);
  } else if constexpr (Is<Body, TrainingEvent>) {
    visit.integer("number", event.number);
  }
}

template <typename Visitor, typename Body>
void visit_run_fields(Visitor& visit, Body& event) {
  if constexpr (Is<Body, EndEvent>) {
    visit.spelled("outcome", event.outcome);
    visit.name("detail", event.detail);
    visit.aside("reason", event.reason);
  } else if constexpr (Is<Body, SnapshotEvent>) {
    visit.spelled("action", event.action);
    visit.integer("step", event.step);
    visit.name("detail", event.detail);
    visit.word("digest", event.digest);
  } else if constexpr (Is<Body, EnvironmentEvent>) {
    visit.integer("world", event.world);
    visit.integer("local_rank", event.local_rank);
    visit.name("node", event.node);
    visit.name("device", event.device);
    visit.word("schema", event.schema);
  } else if constexpr (Is<Body, ConfigurationEvent>) {
    visit.name("name", event.name);
    visit.word("digest", event.digest);
    visit.aside("value", event.value);
  }
}

/// Shows every field of `event` to `visit`, in the order of the file format.
template <typename Visitor, typename Body>
void visit_fields(Visitor& visit, Body& event) {
  if constexpr (Is<Body, CollectiveEvent>) {
    visit_collective_fields(visit, event);
  } else {
    visit_training_fields(visit, event);
    visit_data_fields(visit, event);
    visit_job_fields(visit, event);
    visit_run_fields(visit, event);
  }
}

}  // namespace lockstep::detail
