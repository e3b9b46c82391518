#include <filesystem>
#include <set>
#include <system_error>

#include "lockstep/base/disk_files.h"
#include "lockstep/formats/detail/jsonl_lines.h"
#include "lockstep/formats/jsonl.h"

namespace lockstep {

namespace {

/// Reads the lines of one file. A last line that is cut short is left out and noted.
Outcome read_rank_file(const std::string& path, detail::JsonlLines& lines, LoadedTrace& loaded) {
  const Result<std::string> read = read_file(path);
  if (!read.ok()) return read.error();
  const std::string& text = read.value();
  if (text.empty()) return Error{"no header line", path + ":1:1"};
  std::int32_t file_rank = -1;
  std::size_t line_number = 0;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    const bool whole = end != std::string::npos;
    const std::string_view line = std::string_view(text).substr(start, end - start);
    start = whole ? end + 1 : text.size();
    const std::string where = path + ":" + std::to_string(++line_number);
    if (line_number == 1) {
      const Result<std::int32_t> header = lines.header(line, where);
      if (!header.ok()) return header.error();
      file_rank = header.value();
      loaded.trace->ensure_ranks(lines.header()->n_ranks);
      continue;
    }
    const Result<Event> event = lines.event(line, where, file_rank);
    if (event.ok()) {
      lines.accept(event.value());
      loaded.trace->on_event(event.value(), loaded.trace->names());
    } else if (whole) {
      return event.error();
    } else {
      loaded.notes.push_back(where + ": cut short, left out");
    }
  }
  return success();
}

}  // namespace

Result<LoadedTrace> read_jsonl(const std::string& folder) {
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder, failure);
  if (failure) return Error{"cannot open the folder: " + failure.message(), folder};
  std::set<std::filesystem::path> files;  // Sorted: attempt after attempt.
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".jsonl") files.insert(entry.path());
  }
  if (files.empty()) return Error{"no trace files (*.jsonl) in this folder", folder};
  LoadedTrace loaded{{}, std::make_shared<MemoryTrace>(std::make_shared<NameTable>()), {}};
  detail::JsonlLines lines(loaded.trace->shared_names(), detail::most_ranks(files.size()));
  for (const std::filesystem::path& file : files) {
    if (Outcome outcome = read_rank_file(file.string(), lines, loaded); !outcome.ok()) {
      return outcome.error();
    }
  }
  loaded.header = *lines.header();
  return loaded;
}

}  // namespace lockstep
