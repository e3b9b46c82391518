#include "lockstep/harness/explore/parts/part_file.h"

#include <algorithm>
#include <map>

#include "lockstep/base/disk_files.h"
#include "lockstep/base/text.h"
#include "lockstep/formats/json_text.h"

namespace lockstep::explore {

namespace {

constexpr std::uint64_t kFormat = 1;

std::string line_at(const std::string& path, std::size_t number) {
  return path + ":" + std::to_string(number);
}

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

std::string header_text(const PartHeader& header) {
  JsonText out;
  out.open_object().key("lockstep_part").integer(static_cast<std::int64_t>(kFormat));
  out.key("library").text(header.library).key("work").text(name_of(header.work));
  out.key("shard").text(text_of(header.shard)).key("run").open_object();
  for (const Fact& fact : header.facts) {
    out.key(fact.name).open_array();
    for (const std::string& value : fact.values) out.text(value);
    out.close_array();
  }
  out.close_object().close_object();
  return out.str() + "\n";
}

std::string end_text(std::size_t n_lines) {
  JsonText out;
  out.open_object().key("end").integer(static_cast<std::int64_t>(n_lines)).close_object();
  return out.str() + "\n";
}

Result<PartHeader> header_of(std::string_view line, const std::string& where) {
  Result<PartLine> parsed = PartLine::parse(line, where);
  if (!parsed.ok()) return parsed.error();
  PartLine& members = parsed.value();
  if (members.number("lockstep_part") != kFormat) {
    members.complain("lockstep_part", "not a part of format 1, which `--shard` writes");
  }
  PartHeader header;
  header.library = members.text("library");
  header.work = members.choice<SharedWork>("work");
  const Result<Shard> shard = parse_shard(members.text("shard"));
  if (shard.ok()) {
    header.shard = shard.value();
  } else {
    members.complain("shard", shard.error().message);
  }
  PartLine facts = members.object("run");
  for (const std::string& name : facts.keys()) header.facts.push_back({name, facts.texts(name)});
  const Outcome outcome = members.outcome();
  if (!outcome.ok()) return outcome.error();
  return header;
}

std::string shown(std::span<const std::string> values) {
  if (values.empty()) return "none";
  return values.size() == 1 && values.front().empty() ? "none" : join(values);
}

/// What of `part` is not as in the first one, or success.
Outcome check_same_run(const Part& first, const Part& part) {
  const PartHeader& wanted = first.header();
  const PartHeader& header = part.header();
  const auto refuse =
      [&](const std::string& key, const std::string& here, const std::string& there) {
        return Error{
            "this part has " + printable(here) + ", " + first.path() + " has " + printable(there),
            part.place_of(key)};
      };
  if (header.library != wanted.library) return refuse("library", header.library, wanted.library);
  if (header.work != wanted.work) {
    return refuse("work", std::string(name_of(header.work)), std::string(name_of(wanted.work)));
  }
  if (header.shard.count != wanted.shard.count) {
    return refuse("shard", "shard " + text_of(header.shard), "shard " + text_of(wanted.shard));
  }
  for (const Fact& fact : wanted.facts) {
    const auto values = header.values(fact.name);
    if (std::ranges::equal(values, fact.values)) continue;
    return refuse(fact.name, fact.name + " " + shown(values), shown(fact.values));
  }
  if (header.facts.size() != wanted.facts.size()) {
    return refuse("run", "other facts about its run", "fewer");
  }
  return success();
}

/// "3/8", "3/8 and 5/8", "3/8, 4/8 and 5 more"
std::string missing_text(const std::map<std::uint64_t, const Part*>& by_number,
                         std::uint64_t count) {
  constexpr std::size_t kNamed = 8;
  std::vector<std::string> named;
  for (std::uint64_t number = 1; number <= count && named.size() < kNamed; ++number) {
    if (!by_number.contains(number)) named.push_back(text_of(Shard{number, count}));
  }
  const std::uint64_t n_others = count - by_number.size() - named.size();
  return join(named) + (n_others == 0 ? "" : " and " + std::to_string(n_others) + " more");
}

}  // namespace

std::span<const std::string> PartHeader::values(std::string_view name) const {
  const auto found = std::ranges::find(facts, name, &Fact::name);
  return found == facts.end() ? std::span<const std::string>() : found->values;
}

std::string PartHeader::value(std::string_view name) const {
  const auto all = values(name);
  return all.size() == 1 ? all.front() : std::string();
}

Result<Part> Part::read(const std::string& path) {
  Result<std::string> text = read_file(path);
  if (!text.ok()) return text.error();
  Part part;
  part.path_ = path;
  part.text_ = std::move(text).value();
  const std::string_view whole = part.text_;
  const std::size_t end_of_header = whole.find('\n');
  Result<PartHeader> header = header_of(whole.substr(0, end_of_header), line_at(path, 1));
  if (!header.ok()) return header.error();
  part.header_ = std::move(header).value();
  const std::size_t n_lines = count_lines(whole);
  if (!whole.ends_with('\n') || n_lines < 2) {
    return Error{"cut short: the last line, {\"end\":...}, is missing",
                 line_at(path, n_lines + 1) + ":1"};
  }
  part.first_ = end_of_header + 1;
  part.end_ = whole.rfind('\n', whole.size() - 2) + 1;
  Result<PartLine> end = PartLine::parse(whole.substr(part.end_), line_at(path, n_lines));
  if (!end.ok()) return end.error();
  const std::uint64_t n_said = end.value().number("end");
  if (n_said != n_lines - 2) {
    end.value().complain("end", std::to_string(n_lines - 2) + " lines stand before the last one");
  }
  const Outcome outcome = end.value().outcome();
  if (!outcome.ok()) return outcome.error();
  return part;
}

Outcome Part::each(const std::function<Outcome(PartLine&)>& look) const {
  std::size_t number = 2;
  for (std::size_t at = first_; at < end_; ++number) {
    const std::size_t stop = text_.find('\n', at);
    const auto line = std::string_view(text_).substr(at, stop - at);
    at = stop + 1;
    Result<PartLine> parsed = PartLine::parse(line, line_at(path_, number));
    if (!parsed.ok()) return parsed.error();
    Outcome looked = look(parsed.value());
    if (!looked.ok()) return looked;
    const Outcome outcome = parsed.value().outcome();
    if (!outcome.ok()) return outcome;
  }
  return success();
}

std::string Part::place_of(const std::string& key) const {
  const std::size_t at = std::string_view(text_).substr(0, first_).find("\"" + key + "\"");
  return line_at(path_, 1) + ":" + std::to_string(at == std::string::npos ? 1 : at + 1);
}

std::string render_part(const PartHeader& header, std::span<const std::string> lines) {
  std::string text = header_text(header);
  for (const std::string& line : lines) text += line + "\n";
  return text + end_text(lines.size());
}

Result<std::vector<Part>> read_parts(std::span<const std::string> paths) {
  std::vector<Part> parts;
  for (const std::string& path : paths) {
    Result<Part> part = Part::read(path);
    if (!part.ok()) return part.error();
    parts.push_back(std::move(part).value());
  }
  std::map<std::uint64_t, const Part*> by_number;
  for (const Part& part : parts) {
    const Outcome same = check_same_run(parts.front(), part);
    if (!same.ok()) return same.error();
    const auto [known, is_new] = by_number.emplace(part.header().shard.number, &part);
    if (is_new) continue;
    return Error{"shard " + text_of(part.header().shard) +
                     " is there twice: " + known->second->path() + " is it, too",
                 part.place_of("shard")};
  }
  const std::uint64_t count = parts.empty() ? 0 : parts.front().header().shard.count;
  if (by_number.size() != count) {
    return Error{"parts are missing: " + missing_text(by_number, count),
                 parts.front().place_of("shard")};
  }
  std::ranges::sort(parts, {}, [](const Part& part) { return part.header().shard.number; });
  return parts;
}

}  // namespace lockstep::explore
