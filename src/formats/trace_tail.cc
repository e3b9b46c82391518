#include "lockstep/formats/trace_tail.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/formats/detail/jsonl_lines.h"

namespace lockstep {

namespace {

constexpr std::int64_t kFirstBytes = 4096;  // A header's line, as a rule.

/// The file's bytes from `at` on: `most` of them, or more where the first line is longer.
std::string bytes_from(const std::string& path, std::int64_t at, std::int64_t most) {
  std::error_code failure;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, failure));
  if (failure || size <= at) return {};
  std::ifstream stream(path, std::ios::binary);
  stream.seekg(at);
  std::string text;
  for (std::int64_t wanted = std::min(most, size - at); wanted > 0;) {
    const std::size_t n_before = text.size();
    text.resize(n_before + static_cast<std::size_t>(wanted));
    stream.read(text.data() + n_before, wanted);
    text.resize(n_before + static_cast<std::size_t>(stream.gcount()));
    const bool whole_line = text.find('\n', n_before) != std::string::npos;
    if (whole_line || stream.gcount() < wanted) break;
    wanted = std::min(most, size - at - static_cast<std::int64_t>(text.size()));
  }
  return text;
}

// Files appear while the job runs: how many will come is unknown.
constexpr std::size_t kAnyNumber = 1'000'000;

}  // namespace

TraceTail::TraceTail(std::string folder)
    : folder_(std::move(folder)),
      lines_(std::make_unique<detail::JsonlLines>(std::make_shared<NameTable>(),
                                                  detail::most_ranks(kAnyNumber))) {}

TraceTail::~TraceTail() = default;
TraceTail::TraceTail(TraceTail&&) noexcept = default;
TraceTail& TraceTail::operator=(TraceTail&&) noexcept = default;

const std::optional<TraceHeader>& TraceTail::header() const { return lines_->header(); }

const std::shared_ptr<NameTable>& TraceTail::names() const { return lines_->names(); }

Outcome TraceTail::find_files() {
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder_, failure);
  if (failure == std::errc::no_such_file_or_directory) return success();
  if (failure) return Error{"cannot open the folder: " + failure.message(), folder_};
  for (const auto& entry : entries) {
    if (entry.path().extension() != ".jsonl") continue;
    const std::string path = entry.path().string();
    files_.try_emplace(path, File{.path = path});
  }
  return success();
}

Result<std::int64_t> TraceTail::poll(EventSink& sink, std::int64_t most_bytes) {
  if (failure_) return *failure_;
  Result<std::int64_t> n_events = read_all(sink, most_bytes);
  if (!n_events.ok()) failure_ = n_events.error();
  return n_events;
}

Result<std::int64_t> TraceTail::read_all(EventSink& sink, std::int64_t most_bytes) {
  if (Outcome found = find_files(); !found.ok()) return found.error();
  std::map<std::int32_t, const File*>
      last;  // By rank: an `end` that a later attempt follows is final.
  for (auto& [path, file] : files_) {
    if (Outcome begun = begin(file); !begun.ok()) return begun.error();
    if (file.n_lines > 0) last[file.rank] = &file;
  }
  std::int64_t n_events = 0;
  for (auto& [path, file] : files_) {
    const bool is_last = last[file.rank] == &file;
    Result<std::int64_t> n = std::int64_t{1};
    // To its end: events of a later attempt come after all of these.
    while (n.ok() && n.value() > 0) {
      n = read(file, is_last, sink, most_bytes);
      if (n.ok()) n_events += n.value();
    }
    if (!n.ok()) return n.error();
  }
  return n_events;
}

Outcome TraceTail::begin(File& file) {
  if (file.n_lines > 0) return success();
  const std::string text = bytes_from(file.path, 0, kFirstBytes);
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return success();
  const Result<std::int32_t> rank =
      lines_->header(std::string_view(text).substr(0, end), file.path + ":1");
  if (!rank.ok()) return rank.error();
  file.rank = rank.value();
  file.n_lines = 1;
  file.at = static_cast<std::int64_t>(end) + 1;
  return success();
}

Result<std::int64_t> TraceTail::read(File& file,
                                     bool is_last,
                                     EventSink& sink,
                                     std::int64_t most_bytes) {
  if (file.n_lines == 0) return std::int64_t{0};
  const std::string text = bytes_from(file.path, file.at, most_bytes);
  std::int64_t n_events = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string::npos) break;
    const std::string_view line = std::string_view(text).substr(start, end - start);
    const std::string where = file.path + ":" + std::to_string(file.n_lines + 1);
    const Result<Event> event = lines_->event(line, where, file.rank);
    if (!event.ok()) return event.error();
    const bool ends = std::holds_alternative<EndEvent>(event.value().body);
    if (ends && is_last && end + 1 == text.size()) break;
    lines_->accept(event.value());
    sink.on_event(event.value(), *names());
    ++n_events;
    ++file.n_lines;
    start = end + 1;
    file.at += static_cast<std::int64_t>(line.size()) + 1;
  }
  return n_events;
}

}  // namespace lockstep
