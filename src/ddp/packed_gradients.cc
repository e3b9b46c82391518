#include "lockstep/ddp/packed_gradients.h"

#include <bit>
#include <utility>

namespace lockstep {

namespace {

constexpr int kMostLookedAt = 3;

/// Whether the elements are the same, bit for bit.
template <typename F>
bool are_made_of(std::span<const float> gradient, const float* buffer, const F& stored) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto made = std::bit_cast<std::uint32_t>(stored(buffer[i]));
    if (made != std::bit_cast<std::uint32_t>(gradient[i])) return false;
  }
  return true;
}

std::span<const float> elements_of(const Variable& parameter) {
  return parameter.grad().read_span<float>();
}

/// Of those that have one; nothing where one has another type than float32.
std::optional<std::int64_t> n_elems_of(std::span<const NamedVariable> parameters) {
  std::int64_t n_elems = 0;
  for (const NamedVariable& entry : parameters) {
    if (!entry.variable.has_grad()) continue;
    const Tensor& grad = entry.variable.grad();
    if (!grad.defined() || grad.dtype() != DType::kF32) return std::nullopt;
    n_elems += grad.n_elems();
  }
  return n_elems;
}

}  // namespace

void PackedGradients::on_sent(std::span<const NamedVariable> parameters,
                              const OwnReductions::Sent& sent) {
  const bool fits = sent.adds && sent.on_host && sent.dtype == DType::kF32;
  if (n_looked_at_ >= kMostLookedAt || parameters.size() < 2 || !fits) return;
  if (n_elems_of(parameters) != sent.n_elems) return;
  const std::span buffer(static_cast<const float*>(sent.data),
                         static_cast<std::size_t>(sent.n_elems));
  put_ = places_in(buffer, parameters, [](float element) { return element; });
  reduced_.clear();
  site_ = sent.site;
  n_sent_ = sent.n_elems;
}

void PackedGradients::on_received(const OwnReductions::Sent& received) {
  const bool fits = received.adds && received.on_host && received.dtype == DType::kF32;
  if (!put_ || !reduced_.empty() || !fits) return;
  if (received.n_elems != n_sent_) return;
  const auto* const first = static_cast<const float*>(received.data);
  reduced_.assign(first, first + received.n_elems);
}

std::optional<std::string> PackedGradients::on_step(std::span<const NamedVariable> parameters,
                                                    std::int32_t n_ranks) {
  const std::optional<Places> put = std::exchange(put_, std::nullopt);
  if (!put || n_elems_of(parameters) != std::ssize(reduced_)) return std::nullopt;
  ++n_looked_at_;
  const std::optional<Places> taken = taken_from(reduced_, parameters, n_ranks);
  if (!taken || *taken == *put) return std::nullopt;
  n_looked_at_ = kMostLookedAt;
  return text_of(parameters, *put, *taken);
}

std::optional<std::size_t> PackedGradients::first_of(std::span<const float> rest,
                                                     std::span<const NamedVariable> parameters,
                                                     const Places& places,
                                                     const Stored& stored) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (places[i] >= 0 || !parameters[i].variable.has_grad()) continue;
    const std::span<const float> gradient = elements_of(parameters[i].variable);
    const bool fits = !gradient.empty() && gradient.size() <= rest.size() &&
                      are_made_of(gradient, rest.data(), stored);
    if (fits && first) return std::nullopt;
    if (fits) first = i;
  }
  return first;
}

std::optional<PackedGradients::Places> PackedGradients::places_in(
    std::span<const float> buffer,
    std::span<const NamedVariable> parameters,
    const Stored& stored) {
  Places places(parameters.size(), -1);
  for (std::size_t at = 0; at < buffer.size();) {
    const auto next = first_of(buffer.subspan(at), parameters, places, stored);
    if (!next) return std::nullopt;
    places[*next] = static_cast<std::int64_t>(at);
    at += elements_of(parameters[*next].variable).size();
  }
  return places;
}

std::optional<PackedGradients::Places> PackedGradients::taken_from(
    std::span<const float> buffer,
    std::span<const NamedVariable> parameters,
    std::int32_t n_ranks) {
  const auto n = static_cast<float>(n_ranks);
  const float inverse = 1.0F / n;
  for (const Stored& stored : {Stored([](float element) { return element; }),
                               Stored([n](float element) { return element / n; }),
                               Stored([inverse](float element) { return element * inverse; })}) {
    if (auto places = places_in(buffer, parameters, stored)) return places;
  }
  return std::nullopt;
}

std::string PackedGradients::text_of(std::span<const NamedVariable> parameters,
                                     const Places& put,
                                     const Places& taken) const {
  std::size_t n_others = 0;
  std::string text;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (put[i] == taken[i]) continue;
    if (!text.empty()) {
      ++n_others;
      continue;
    }
    text = "the gradient of `" + parameters[i].name + "` was packed at element " +
           std::to_string(put[i]) + " of the buffer reduced at " +
           (site_.known() ? site_.text() : std::string("an unknown place")) +
           ", but unpacked from element " + std::to_string(taken[i]);
  }
  if (n_others > 0) {
    text +=
        " (and " + std::to_string(n_others) + " more gradient" + (n_others == 1 ? "" : "s") + ")";
  }
  return text;
}

}  // namespace lockstep
