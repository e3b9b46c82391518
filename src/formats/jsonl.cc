#include "lockstep/formats/jsonl.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"
#include "lockstep/trace/detail/event_fields.h"

namespace lockstep {

namespace {

/// Writes the fields of one event as members of an open object.
class FieldWriter {
 public:
  FieldWriter(JsonText& out, const NameTable& names) : out_(&out), names_(&names) {}

  void flag(const char* key, bool value) { out_->key(key).flag(value); }

  void integer(const char* key, std::int64_t value) { out_->key(key).integer(value); }

  void real(const char* key, double value) { out_->key(key).real(value); }

  void measure(const char* key, double value) { real(key, value); }

  void word(const char* key, std::uint64_t value) { out_->key(key).word(value); }

  void name(const char* key, NameId id) { out_->key(key).text(names_->text(id)); }

  void layout(const char* key, LayoutId id) {
    out_->key(key).open_array();
    for (const NameId name : names_->layout(id)) out_->text(names_->text(name));
    out_->close_array();
  }

  template <typename Choice>
  void choice(const char* key, Choice value) {
    out_->key(key).text(name_of(value));
  }

  template <typename Choice>
  void spelled(const char* key, Choice value) {
    choice(key, value);
  }

  template <typename Choice>
  void aside(const char* key, Choice value) {
    if (value != Choice::kNone) choice(key, value);
  }

  void aside(const char* key, NameId id) {
    if (id != kNoName) name(key, id);
  }

  void aside(const char* key, double value) {
    if (value != 0.0) real(key, value);
  }

  void choice(const char* key, Device device) {
    out_->key(key).text(device == Device::kCpu ? "cpu" : "cuda");
  }

  template <typename Number>
  void integers(const char* key, std::span<const Number> values) {
    out_->key(key).open_array();
    for (const Number value : values) out_->integer(value);
    out_->close_array();
  }

  void words(const char* key, std::span<const std::uint64_t> values) {
    out_->key(key).open_array();
    for (const std::uint64_t value : values) out_->word(value);
    out_->close_array();
  }

  void reals(const char* key, std::span<const double> values) {
    out_->key(key).open_array();
    for (const double value : values) out_->real(value);
    out_->close_array();
  }

  void sketches(const char* key, std::span<const Sketch> values) {
    out_->key(key).open_array();
    for (const Sketch& sketch : values) {
      out_->open_array().real(sketch.l1);
      for (const double sum : sketch.sums) out_->real(sum);
      out_->close_array();
    }
    out_->close_array();
  }

  /// A set of bits as the list of the positions that are set.
  void bits(const char* key, std::span<const std::uint8_t> values) {
    out_->key(key).open_array();
    for (std::size_t i = 0; i < values.size() * 8; ++i) {
      if (((values[i / 8] >> (i % 8)) & 1U) != 0) out_->integer(static_cast<std::int64_t>(i));
    }
    out_->close_array();
  }

  void site(const char* key, const CallSite& site) {
    out_->key(key).text(site.text());
    out_->key("scope").text(site.scope);
  }

 private:
  JsonText* out_;
  const NameTable* names_;
};

void write_event(JsonText& out, const Event& event, const NameTable& names) {
  const Position& at = event.at;
  out.open_object();
  out.key("rank").integer(to_int(event.rank));
  out.key("i").integer(static_cast<std::int64_t>(event.index));
  out.key("t").integer(event.time.ns);
  out.key("at").open_array();
  out.integer(at.attempt).integer(at.wrapper).integer(at.sync);
  out.integer(at.micro).integer(at.opt).integer(at.epoch).close_array();
  out.key("kind").text(name_of(kind_of(event.body)));
  FieldWriter fields(out, names);
  std::visit([&](const auto& body) { detail::visit_fields(fields, body); }, event.body);
  out.close_object();
}

std::string header_line(const TraceHeader& header, std::int32_t attempt, std::int32_t rank) {
  JsonText out;
  out.open_object();
  out.key("lockstep_trace").integer(1);
  out.key("run").text(header.run_id);
  out.key("attempt").integer(attempt);
  out.key("rank").integer(rank);
  out.key("ranks").integer(header.n_ranks);
  out.key("backend").text(header.backend);
  out.key("scenario").text(header.scenario);
  out.key("scenario_digest").text(header.scenario_digest);
  out.key("exact").flag(header.exact);
  out.key("watched").flag(header.watched);
  if (header.coverage != 1) out.key("coverage").integer(header.coverage);
  if (header.sampled) out.key("sampled").flag(true);
  out.key("library").text(header.library);
  if (!header.clock.empty()) out.key("clock").text(header.clock);
  out.close_object();
  return out.str() + "\n";
}

std::string padded(std::int32_t number, std::size_t width) {
  const std::string digits = std::to_string(number);
  return digits.size() >= width ? digits : std::string(width - digits.size(), '0') + digits;
}

Error system_error(const std::string& what, const std::string& path) {
  return Error{what + ": " + std::generic_category().message(errno), path};
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

Outcome make_folder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) return Error{"cannot make the folder: " + failure.message(), folder};
  return success();
}

/// Whether rank_file_name() gives this name for some attempt and rank.
bool is_rank_file(std::string_view name) {
  constexpr std::string_view kRank = ".rank-";
  constexpr std::string_view kEnd = ".jsonl";
  const std::size_t middle = name.find(kRank);
  if (!name.starts_with('a') || middle == std::string_view::npos || !name.ends_with(kEnd)) {
    return false;
  }
  const std::size_t from = middle + kRank.size();
  if (from + kEnd.size() > name.size()) return false;
  const auto attempt = parse_int(name.substr(1, middle - 1));
  const auto rank = parse_int(name.substr(from, name.size() - from - kEnd.size()));
  const auto fits = [](const std::optional<std::int64_t>& number) {
    return number && *number >= 0 && *number <= INT32_MAX;
  };
  return fits(attempt) && fits(rank) &&
         name == rank_file_name(static_cast<std::int32_t>(*attempt),
                                Rank{static_cast<std::int32_t>(*rank)});
}

/// The text of a rank's files, one per attempt.
std::map<std::int32_t, std::string> attempts_of(const MemoryTrace& trace,
                                                const TraceHeader& header,
                                                std::int32_t rank,
                                                bool values) {
  std::map<std::int32_t, std::string> attempts;
  if (trace.events(Rank{rank}).empty()) attempts[0] = header_line(header, 0, rank);
  JsonText line;
  for (const Event& event : trace.events(Rank{rank})) {
    if (!values && std::holds_alternative<ValueEvent>(event.body)) continue;
    std::string& text = attempts[event.at.attempt];
    if (text.empty()) text = header_line(header, event.at.attempt, rank);
    line.clear();
    write_event(line, event, trace.names());
    text += line.str();
    text += '\n';
  }
  return attempts;
}

/// Of a trace's files in the folder.
Outcome remove_all_but(const std::set<std::string>& kept, const std::string& folder) {
  DiskFiles files;
  const Result<std::vector<std::string>> names = files.list(folder);
  if (!names.ok()) return names.error();
  for (const std::string& name : names.value()) {
    if (!is_rank_file(name) || kept.contains(name)) continue;
    std::string path = folder;
    path += '/';
    path += name;
    Outcome removed = files.remove(path);
    if (!removed.ok() && std::filesystem::exists(path)) return removed;  // Else another run has.
  }
  return success();
}

}  // namespace

bool TraceHeader::has_one_clock() const { return backend == "sim" || !clock.empty(); }

std::string rank_file_name(std::int32_t attempt, Rank rank) {
  return "a" + padded(attempt, 3) + ".rank-" + padded(to_int(rank), 5) + ".jsonl";
}

std::string to_json_line(const Event& event, const NameTable& names) {
  JsonText out;
  write_event(out, event, names);
  return out.str();
}

Outcome write_jsonl(const MemoryTrace& trace,
                    const TraceHeader& header,
                    const std::string& folder,
                    bool values) {
  if (Outcome made = make_folder(folder); !made.ok()) return made;
  TraceHeader full = header;
  full.n_ranks = std::max(header.n_ranks, trace.n_ranks());
  StagedFiles files;
  std::set<std::string> names;
  for (std::int32_t rank = 0; rank < trace.n_ranks(); ++rank) {
    for (const auto& [attempt, text] : attempts_of(trace, full, rank, values)) {
      const std::string path = folder + "/" + rank_file_name(attempt, Rank{rank});
      names.insert(rank_file_name(attempt, Rank{rank}));
      if (Outcome outcome = files.add(path, text); !outcome.ok()) return outcome;
    }
  }
  if (Outcome outcome = files.commit(); !outcome.ok()) return outcome;
  return remove_all_but(names, folder);
}

Outcome remove_trace(const std::string& folder) { return remove_all_but({}, folder); }

Result<std::unique_ptr<JsonlStream>> JsonlStream::open(const std::string& folder,
                                                       const TraceHeader& header,
                                                       std::int32_t attempt,
                                                       Rank rank) {
  if (Outcome made = make_folder(folder); !made.ok()) return made.error();
  std::string path = folder + "/" + rank_file_name(attempt, rank);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return system_error("cannot create the file", path);
  if (!write_all(file, header_line(header, attempt, to_int(rank)))) {
    Error failure = system_error("cannot write the file", path);
    ::close(file);
    return failure;
  }
  return std::unique_ptr<JsonlStream>(new JsonlStream(file, std::move(path)));
}

JsonlStream::~JsonlStream() { (void)close(); }

void JsonlStream::on_event(const Event& event, const NameTable& names) {
  if (file_ < 0 || !failure_.empty()) return;
  if (!write_all(file_, to_json_line(event, names) + "\n")) {
    failure_ = system_error("cannot write the file", path_).message;
  }
}

Outcome JsonlStream::close() {
  if (file_ >= 0) {
    if (failure_.empty() && ::fsync(file_) != 0) {
      failure_ = system_error("cannot sync the file", path_).message;
    }
    ::close(std::exchange(file_, -1));
  }
  if (!failure_.empty()) return Error{failure_, path_};
  return success();
}

}  // namespace lockstep
