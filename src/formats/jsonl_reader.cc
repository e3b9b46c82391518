#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
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

using Paths = std::set<std::filesystem::path>;

/// Sorted: attempt after attempt.
Result<Paths> files_in(const std::string& folder) {
  std::error_code failure;
  std::filesystem::directory_iterator entries(folder, failure);
  if (failure) return Error{"cannot open the folder: " + failure.message(), folder};
  Paths files;
  for (const auto& entry : entries) {
    if (entry.path().extension() == ".jsonl") files.insert(entry.path());
  }
  if (files.empty()) return Error{"no trace files (*.jsonl) in this folder", folder};
  return files;
}

/// What shows whether folders belong together.
struct Part {
  std::string run_id;  ///< Empty: unknown.
  std::set<std::string> names;
};

Part part_in(const std::string& folder) {
  const Result<Paths> files = files_in(folder);
  if (!files.ok()) return {};
  Part part;
  for (const std::filesystem::path& file : files.value()) {
    part.names.insert(file.filename().string());
  }
  std::ifstream first(*files.value().begin());
  std::string line;
  std::getline(first, line);
  detail::JsonlLines lines(std::make_shared<NameTable>(), detail::most_ranks(part.names.size()));
  if (lines.header(line, folder).ok()) part.run_id = lines.header()->run_id;
  return part;
}

/// Adds what another folder has. False: it is of another run, or has a file of the same name.
bool add(Part& job, const Part& part) {
  if (job.run_id.empty() || job.run_id != part.run_id) return false;
  const auto is_known = [&](const std::string& name) { return job.names.contains(name); };
  if (std::any_of(part.names.begin(), part.names.end(), is_known)) return false;
  job.names.insert(part.names.begin(), part.names.end());
  return true;
}

}  // namespace

std::vector<std::vector<std::string>> folders_by_job(std::span<const std::string> folders) {
  std::vector<std::vector<std::string>> by_job;
  std::vector<Part> jobs;
  for (const std::string& folder : folders) {
    const Part part = part_in(folder);
    const auto job =
        std::find_if(jobs.begin(), jobs.end(), [&](Part& one) { return add(one, part); });
    if (job == jobs.end()) {
      jobs.push_back(part);
      by_job.push_back({folder});
    } else {
      by_job[static_cast<std::size_t>(job - jobs.begin())].push_back(folder);
    }
  }
  return by_job;
}

Result<LoadedTrace> read_jsonl(const std::string& folder) {
  return read_jsonl(std::span(&folder, 1));
}

Result<LoadedTrace> read_jsonl(std::span<const std::string> folders) {
  std::map<std::filesystem::path, std::filesystem::path> files;  // By name: attempt after attempt.
  for (const std::string& folder : folders) {
    const Result<Paths> found = files_in(folder);
    if (!found.ok()) return found.error();
    for (const std::filesystem::path& file : found.value()) {
      const auto [known, is_new] = files.try_emplace(file.filename(), file);
      if (!is_new) {
        return Error{"holds the events that " + known->second.string() + " holds too",
                     file.string()};
      }
    }
  }
  LoadedTrace loaded{{}, std::make_shared<MemoryTrace>(std::make_shared<NameTable>()), {}};
  detail::JsonlLines lines(loaded.trace->shared_names(), detail::most_ranks(files.size()));
  for (const auto& [name, file] : files) {
    if (Outcome outcome = read_rank_file(file.string(), lines, loaded); !outcome.ok()) {
      return outcome.error();
    }
  }
  loaded.header = *lines.header();
  return loaded;
}

}  // namespace lockstep
