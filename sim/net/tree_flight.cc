#include "lockstep/sim/net/detail/tree_flight.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep::sim {

namespace {

// A hop says where it goes and from which of the children it comes.
constexpr std::int32_t kFromAbove = 31;
constexpr std::int32_t kPlaces = 32;

std::int32_t hop_to(std::int32_t member, std::int32_t place) { return member * kPlaces + place; }

// A member with the data passes them on to the farthest first: n members in ceil(log2 n) rounds.
detail::Tree make_binomial_tree(std::int32_t n, std::int32_t root) {
  detail::Tree tree;
  tree.root = root;
  tree.children.resize(static_cast<std::size_t>(n));
  const auto top = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(n)));
  for (std::int32_t v = 0; v < n; ++v) {
    const std::int32_t reach = v == 0 ? top : v & -v;
    auto& children = tree.children[static_cast<std::size_t>((v + root) % n)];
    for (std::int32_t step = reach / 2; step > 0; step /= 2) {
      if (v + step < n) children.push_back((v + step + root) % n);
    }
  }
  return tree;
}

}  // namespace

TreeFlight::TreeFlight(Network& network,
                       FlightClient& client,
                       const FlightJob& job,
                       const ReductionOrder& order)
    : Flight(network, client, job), arithmetic_(job, true), reduces_(true) {
  const auto n = static_cast<std::int32_t>(n_members());
  add_shape(detail::make_nccl_tree(n, false));
  add_shape(detail::make_nccl_tree(n, true));
  const auto ends = detail::channel_ends(
      job.count, elem_bytes(), order.n_channels(), detail::traffic_of(2, order.protocol()));
  std::int64_t begin = 0;
  for (std::size_t channel = 0; channel < ends.size(); ++channel) {
    const bool second = order.has_second_tree(static_cast<std::int32_t>(channel));
    cut(begin, ends[channel], second ? 1 : 0);
    begin = ends[channel];
  }
  states_.resize(segments_.size() * n_members());
  result_.resize(static_cast<std::size_t>(job.count * elem_bytes()));
  const auto n_segments = static_cast<std::int64_t>(segments_.size());
  for (std::int32_t m = 0; m < n; ++m) expect(m, n_segments);
}

// The root is done when its children have their data.
TreeFlight::TreeFlight(Network& network, FlightClient& client, const FlightJob& job)
    : Flight(network, client, job), arithmetic_(job, false), reduces_(false) {
  const auto n = static_cast<std::int32_t>(n_members());
  add_shape(make_binomial_tree(n, job.root));
  cut(0, job.count, 0);
  states_.resize(segments_.size() * n_members());
  result_.resize(static_cast<std::size_t>(job.count * elem_bytes()));
  const auto n_segments = static_cast<std::int64_t>(segments_.size());
  const auto& top = shapes_[0].tree.children[static_cast<std::size_t>(job.root)];
  for (std::int32_t m = 0; m < n; ++m) {
    expect(m, m == job.root ? n_segments * static_cast<std::int64_t>(top.size()) : n_segments);
  }
}

void TreeFlight::add_shape(detail::Tree tree) {
  Shape shape;
  shape.parent.assign(tree.children.size(), -1);
  shape.place.assign(tree.children.size(), 0);
  for (std::size_t m = 0; m < tree.children.size(); ++m) {
    for (std::size_t i = 0; i < tree.children[m].size(); ++i) {
      const auto child = static_cast<std::size_t>(tree.children[m][i]);
      shape.parent[child] = static_cast<std::int32_t>(m);
      shape.place[child] = static_cast<std::int32_t>(i);
    }
  }
  shape.tree = std::move(tree);
  shapes_.push_back(std::move(shape));
}

void TreeFlight::cut(std::int64_t begin, std::int64_t end, std::size_t shape) {
  const std::int64_t chunk = chunk_elems();
  while (begin < end) {
    const std::int64_t count = std::min(chunk, end - begin);
    segments_.push_back({begin, count, shape});
    begin += count;
  }
}

void TreeFlight::on_post(std::int32_t member) {
  if (reduces_ || member == job().root) {
    copy_elems(output(member, 0, 0), input(member, 0, 0), job().count);
  }
  for (std::int32_t token = 0; token < static_cast<std::int32_t>(segments_.size()); ++token) {
    const Segment& piece = segment(token);
    if (reduces_) {
      const auto& children = shape_of(token).tree.children[static_cast<std::size_t>(member)];
      std::byte* own = output(member, 0, piece.begin);
      if (children.empty()) arithmetic_.begin(own, own, piece.count);
      climb(token, member);
    } else if (member == job().root) {
      reach_top(token, member);
    }
    if (state(token, member).result_waits) take_result(token, member);
  }
}

void TreeFlight::on_arrival(std::int32_t token, std::int32_t hop) {
  const std::int32_t member = hop / kPlaces;
  const std::int32_t place = hop % kPlaces;
  if (place == kFromAbove) {
    if (has_posted(member)) return take_result(token, member);
    state(token, member).result_waits = true;
    return;
  }
  state(token, member).arrived |= 1U << static_cast<std::uint32_t>(place);
  if (has_posted(member)) climb(token, member);
}

// Adds what is there, in order; with the last child's sum it continues to the parent.
void TreeFlight::climb(std::int32_t token, std::int32_t member) {
  const Shape& shape = shape_of(token);
  const std::size_t n_children = shape.tree.children[static_cast<std::size_t>(member)].size();
  State& mine = state(token, member);
  while (mine.n_joined < n_children && (mine.arrived >> mine.n_joined & 1U) != 0) {
    join(segment(token), member, mine);
  }
  if (mine.n_joined < n_children) return;
  const std::int32_t parent = shape.parent[static_cast<std::size_t>(member)];
  if (parent < 0) return reach_top(token, member);
  const std::int32_t place = shape.place[static_cast<std::size_t>(member)];
  send(member, parent, segment(token).count, {this, token, hop_to(parent, place)});
}

void TreeFlight::join(const Segment& segment, std::int32_t member, State& state) {
  const auto& children = shapes_[segment.shape].tree.children[static_cast<std::size_t>(member)];
  std::byte* own = output(member, 0, segment.begin);
  const std::byte* sum = output(children[state.n_joined], 0, segment.begin);
  if (state.n_joined++ == 0) {
    arithmetic_.add_to_own(own, own, sum, segment.count);
  } else {
    arithmetic_.merge(own, own, sum, segment.count);
  }
}

void TreeFlight::reach_top(std::int32_t token, std::int32_t root) {
  const Segment& piece = segment(token);
  std::byte* own = output(root, 0, piece.begin);
  if (reduces_) arithmetic_.finish(own, piece.count);
  copy_elems(result_.data() + piece.begin * elem_bytes(), own, piece.count);
  if (reduces_) happened(root);
  hand_down(token, root);
}

void TreeFlight::take_result(std::int32_t token, std::int32_t member) {
  const Segment& piece = segment(token);
  copy_elems(
      output(member, 0, piece.begin), result_.data() + piece.begin * elem_bytes(), piece.count);
  happened(member);
  const std::int32_t parent = shape_of(token).parent[static_cast<std::size_t>(member)];
  if (!reduces_ && parent == job().root) happened(parent);
  hand_down(token, member);
}

void TreeFlight::hand_down(std::int32_t token, std::int32_t member) {
  for (const std::int32_t child : shape_of(token).tree.children[static_cast<std::size_t>(member)]) {
    send(member, child, segment(token).count, {this, token, hop_to(child, kFromAbove)});
  }
}

}  // namespace lockstep::sim
