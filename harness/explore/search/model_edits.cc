#include "lockstep/harness/explore/search/model_edits.h"

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/harness/explore/search/paths.h"

namespace lockstep::explore {
namespace {

/// Cuts or fills the list `key` of every inline row.
void resize_rows(TomlNode& document, const char* key, std::int64_t n) {
  TomlNode* rows = find_at(document, "data.rows");
  if (rows == nullptr) return;
  for (TomlNode& row : rows->items) {
    TomlNode* values = row.find(key);
    if (values == nullptr || values->items.empty()) continue;
    while (static_cast<std::int64_t>(values->items.size()) > n) values->items.pop_back();
  }
}

void put_if_there(TomlNode& document, const char* path, std::int64_t value) {
  if (find_at(document, path) != nullptr) put(document, path, integer_node(value));
}

TomlNode list_of(const std::vector<std::int64_t>& values) {
  TomlNode list;
  list.kind = TomlNode::Kind::kArray;
  list.items.reserve(values.size());
  for (const std::int64_t value : values) list.items.push_back(integer_node(value));
  return list;
}

TomlNode with_model(const TomlNode& document,
                    const char* kind,
                    const std::vector<std::int64_t>& widths) {
  TomlNode result = copy_of(document);
  const TomlNode* before = find_at(document, "model.init");
  TomlNode init = before == nullptr ? TomlNode() : copy_of(*before);
  drop(result, "model");
  put(result, "model.kind", text_node(kind));
  if (!widths.empty()) put(result, "model.widths", list_of(widths));
  if (before != nullptr) put(result, "model.init", std::move(init));
  return result;
}

}  // namespace

TomlNode with_features(const TomlNode& document, std::int64_t n) {
  TomlNode result = copy_of(document);
  resize_rows(result, "x", n);
  put_if_there(result, "model.in", n);
  if (TomlNode* widths = find_at(result, "model.widths"); widths != nullptr) {
    if (!widths->items.empty()) widths->items.front() = integer_node(n);
  }
  if (find_at(result, "data.rows") == nullptr) put(result, "data.features", integer_node(n));
  return result;
}

TomlNode with_outputs(const TomlNode& document, std::int64_t n) {
  TomlNode result = copy_of(document);
  resize_rows(result, "y", n);
  put_if_there(result, "model.out", n);
  put_if_there(result, "data.outputs", n);
  if (TomlNode* widths = find_at(result, "model.widths"); widths != nullptr) {
    if (!widths->items.empty()) widths->items.back() = integer_node(n);
  }
  return result;
}

std::vector<TomlNode> plainer_models(const TomlNode& document, const Job& job) {
  const std::int64_t in = job.train->feature_columns();
  const std::int64_t targets = job.train->target_columns();
  const std::int64_t out = targets > 0 ? targets : job.model.widths.back();
  std::vector<TomlNode> models;
  if (in == 1 && out == 1) models.push_back(with_model(document, "scalar", {}));
  models.push_back(with_model(document, "linear", {in, out}));
  models.push_back(with_model(document, "mlp", {in, 1, out}));
  models.push_back(with_model(document, "bn", {in, 1, out}));
  return models;
}

std::vector<TomlNode> plainer_data(const TomlNode& document, const Job& job) {
  constexpr std::array<std::string_view, 4> kFiles = {"csv", "npy", "digits", "text"};
  const TomlNode* kind = find_at(document, "data.kind");
  std::vector<TomlNode> plainer;
  if (kind == nullptr || std::find(kFiles.begin(), kFiles.end(), kind->text) == kFiles.end()) {
    return plainer;
  }
  const TomlNode* holdout = find_at(document, "data.holdout");
  const std::int64_t n_holdout = holdout == nullptr ? 0 : holdout->integer;
  const std::int64_t n_rows = job.train->size() + n_holdout;
  for (std::int64_t size = std::min<std::int64_t>(n_holdout + 4, n_rows);; size *= 4) {
    TomlNode result = copy_of(document);
    drop(result, "data");
    put(result, "data.kind", text_node("synthetic"));
    put(result, "data.size", integer_node(std::min(size, n_rows)));
    put(result, "data.features", integer_node(job.train->feature_columns()));
    put(result, "data.outputs", integer_node(job.model.widths.back()));
    if (job.train->target_columns() == 0) put(result, "data.task", text_node("classification"));
    if (n_holdout > 0) put(result, "data.holdout", integer_node(n_holdout));
    plainer.push_back(std::move(result));
    if (size >= n_rows) return plainer;
  }
}

}  // namespace lockstep::explore
