#include "lockstep/harness/rounding/series_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "lockstep/base/text.h"
#include "lockstep/harness/rounding/result_file.h"

namespace lockstep {

namespace {

namespace fs = std::filesystem;

/// Files of one step: a name without the step's number, and where each lies.
using Files = std::map<std::string, std::string>;

bool is_digit(char letter) { return std::isdigit(static_cast<unsigned char>(letter)) != 0; }

struct Numbered {
  std::int64_t step = 0;
  std::string rest;
};

/// Of "step-0010.model.safetensors": 10 and "step-.model.safetensors".
std::optional<Numbered> numbered(const std::string& name) {
  const auto begin = std::ranges::find_if(name, is_digit);
  const auto end = std::find_if_not(begin, name.end(), is_digit);
  const std::optional<std::int64_t> step = parse_int(std::string(begin, end));
  if (!step) return std::nullopt;
  return Numbered{*step, std::string(name.begin(), begin) + std::string(end, name.end())};
}

bool holds_tensors(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kEndings = {
      ".npy", ".safetensors", ".pt", ".pth", ".bin"};
  std::error_code failed;
  const std::string name = path.filename().string();
  return fs::is_regular_file(path, failed) &&
         std::ranges::any_of(kEndings, [&](auto ending) { return name.ends_with(ending); });
}

void add_folder(const fs::path& folder, Files& files) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (holds_tensors(entry.path())) {
      files[entry.path().filename().string()] = entry.path().string();
    }
  }
}

std::map<std::int64_t, Files> steps_in(const std::string& folder) {
  std::map<std::int64_t, Files> steps;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    const auto name = numbered(entry.path().filename().string());
    if (!name) continue;
    Files files;
    if (entry.is_directory(failed)) add_folder(entry.path(), files);
    if (holds_tensors(entry.path())) files[name->rest] = entry.path().string();
    if (!files.empty()) steps[name->step].merge(files);
  }
  return steps;
}

Outcome add_file(const std::string& prefix,
                 const std::string& left_path,
                 const std::string& right_path,
                 StepDistance& distance) {
  const auto left = read_results(left_path);
  if (!left.ok()) return left.error();
  const auto right = read_results(right_path);
  if (!right.ok()) return right.error();
  for (const StoredTensor& tensor : left.value()) {
    const std::optional<FloatFormat> format = FloatFormat::of(tensor.type);
    if (!format) continue;
    const auto other = std::ranges::find(right.value(), tensor.name, &StoredTensor::name);
    const bool fits = other != right.value().end() && other->type == tensor.type &&
                      other->bytes.size() == tensor.bytes.size();
    if (!fits) {
      return Error{fmt::format("has no tensor '{}' of {} with the size that it has in {}",
                               tensor.name,
                               name_of(tensor.type),
                               left_path),
                   right_path};
    }
    const std::string name = prefix + tensor.name;
    const std::size_t n = tensor.bytes.size() / static_cast<std::size_t>(size_of(tensor.type));
    for (std::size_t i = 0; i < n; ++i) {
      distance.add(name,
                   *format,
                   static_cast<std::int64_t>(i),
                   format->read(tensor.bytes, i),
                   format->read(other->bytes, i));
    }
  }
  return success();
}

}  // namespace

Result<std::vector<SeriesStep>> compare_series(const std::string& left, const std::string& right) {
  const std::map<std::int64_t, Files> a = steps_in(left);
  const std::map<std::int64_t, Files> b = steps_in(right);
  std::vector<SeriesStep> steps;
  for (const auto& [step, files] : a) {
    const auto other = b.find(step);
    if (other == b.end()) continue;
    StepDistance distance(step);
    for (const auto& [name, path] : files) {
      const auto twin = other->second.find(name);
      if (twin == other->second.end()) {
        return Error{fmt::format("has no file for step {} like {}", step, path), right};
      }
      const Outcome added =
          add_file(files.size() > 1 ? name + ":" : "", path, twin->second, distance);
      if (!added.ok()) return added.error();
    }
    steps.push_back(distance.take());
  }
  if (steps.empty()) {
    return Error{
        fmt::format("has no step in common with {}: neither rank files of a trace (*.jsonl), nor "
                    "files of tensors with a step's number in their names",
                    right),
        left};
  }
  return steps;
}

}  // namespace lockstep
