#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "tests/tidy/lines.h"

namespace lockstep::tidy {

namespace fs = std::filesystem;

namespace {

struct Ban {
  std::string_view text;
  std::string_view instead;
};

// Each entry is a way to lose determinism, or to report errors past the caller.
constexpr Ban kBans[] = {
    {"steady_clock", "Host::now, which is virtual time in the simulator"},
    {"system_clock", "Host::now, which is virtual time in the simulator"},
    {"high_resolution_clock", "Host::now, which is virtual time in the simulator"},
    {"random_device", "an explicit seed"},
    {"std::mt19937", "random/generator.h, whose sequence we own"},
    {"_distribution<", "the distributions of random/, whose sequence we own"},
    {"std::shuffle", "random/permutation.h, whose sequence we own"},
    {"std::rand(", "random/generator.h"},
    {"unordered_", "std::map or a sorted vector"},
    {"std::hash<", "a digest (tensor/digest.h)"},
    {"thread_local", "a value passed down"},
    {"this_thread::", "Host::sleep"},
    {"this_fiber::sleep", "Host::sleep"},
    {"getenv", "Host::environment"},
    {"std::cout", "a returned value; only harness/cli prints"},
    {"std::cerr", "a returned value; only harness/cli prints"},
    {"std::printf", "a returned value; only harness/cli prints"},
    {"std::exit", "an exception or a Result; only harness/cli exits"},
    {"std::abort", "LOCKSTEP_CHECK, which the explorer survives"},
    {"assert(", "LOCKSTEP_CHECK, which stays on in release builds"},
    {"catch (...)", "catch (const std::exception&); a killed rank unwinds through us"},
};

struct Home {
  std::string_view from;  // A path prefix.
  std::string_view to;    // A prefix of what an #include names.
};

// Libraries and the one place whose files may include them.
constexpr Home kHomes[] = {
    {"src/kernels/", "Eigen/"},
    {"sim/engine/", "boost/context"},
    {"sim/engine/", "boost/fiber"},
    {"harness/rounding/", "boost/math"},
    {"gpu/", "cuda"},
    {"gpu/", "nccl"},
    {"gpu/", "cublas"},
    {"real/gloo/", "gloo/"},
};

constexpr std::string_view kHeavy[] = {"Eigen/", "boost/", "toml++/", "nlohmann/", "CLI/", "fmt/"};

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [text](std::string_view prefix) {
    return text.starts_with(prefix);
  });
}

bool contains_word(std::string_view line, std::string_view word) {
  for (std::size_t i = line.find(word); i != std::string_view::npos; i = line.find(word, i + 1)) {
    const std::size_t end = i + word.size();
    const bool starts = i == 0 || !is_word_char(line[i - 1]);
    if (starts && (end == line.size() || !is_word_char(line[end]))) return true;
  }
  return false;
}

/// What an #include line names, or nothing.
std::string_view included(std::string_view line) {
  const std::size_t hash = line.find_first_not_of(" \t");
  if (hash == std::string_view::npos || !line.substr(hash).starts_with("#include")) return {};
  const std::size_t open = line.find_first_of("<\"", hash);
  if (open == std::string_view::npos) return {};
  const std::size_t close = line.find_first_of(">\"", open + 1);
  return close == std::string_view::npos ? std::string_view()
                                         : line.substr(open + 1, close - open - 1);
}

std::string include_complaint(const File& file, std::string_view name) {
  const auto says = [&](std::string_view why) {
    return "includes " + std::string(name) + ": " + std::string(why);
  };
  if (name.starts_with("../")) return says("write \"lockstep/<room>/<file>.h\"");
  if (starts_with_any(file.path, {"tests/", "bench/", "examples/"})) return {};
  for (const Home& rule : kHomes) {
    if (name.starts_with(rule.to) && !file.path.starts_with(rule.from)) {
      return says("only " + std::string(rule.from) + " may know this library");
    }
  }
  const bool open_header =
      file.path.ends_with(".h") && file.path.find("/detail/") == std::string::npos;
  const auto heavy = [name](std::string_view library) { return name.starts_with(library); };
  if (open_header && std::any_of(std::begin(kHeavy), std::end(kHeavy), heavy)) {
    return says("heavy libraries belong into .cc files");
  }
  return {};
}

}  // namespace

std::vector<File> files_under(const fs::path& root, const std::set<std::string>& suffixes) {
  std::vector<File> files;
  const auto skipped = [](const std::string& name) {
    return starts_with_any(name, {"build", "out", "bundle", ".", "__"});
  };
  for (auto entry = fs::recursive_directory_iterator(root); entry != fs::end(entry); ++entry) {
    const std::string name = entry->path().filename().string();
    if (entry->is_directory() && skipped(name)) entry.disable_recursion_pending();
    const bool wanted = suffixes.count(entry->path().extension().string()) > 0;
    if (!entry->is_regular_file() || !wanted) continue;
    std::ostringstream text;
    text << std::ifstream(entry->path()).rdbuf();
    files.push_back({entry->path().lexically_relative(root).generic_string(), text.str()});
  }
  std::sort(
      files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

std::string without_comments(std::string_view text) {
  std::string code;
  std::string_view ends_with;  // Non-empty inside a comment or literal: what ends it.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    const bool comment = ends_with == "\n" || ends_with == "*/";
    if (!ends_with.empty() && rest.starts_with(ends_with)) {
      code += ends_with == "*/" ? "  " : ends_with;
      i += ends_with.size() - 1;
      ends_with = {};
    } else if (comment) {
      code += text[i] == '\n' ? '\n' : ' ';
    } else if (!ends_with.empty()) {
      code += text[i];
      if (text[i] == '\\' && i + 1 < text.size()) code += text[++i];
    } else {
      if (rest.starts_with("//")) ends_with = "\n";
      if (rest.starts_with("/*")) ends_with = "*/";
      if (text[i] == '"') ends_with = "\"";
      const bool digit_separator = i > 0 && is_word_char(text[i - 1]);
      if (text[i] == '\'' && !digit_separator) ends_with = "'";
      code += rest.starts_with("//") || rest.starts_with("/*") ? ' ' : text[i];
    }
  }
  return code;
}

Complaints banned_words(const File& file) {
  Complaints complaints;
  if (!starts_with_any(file.path, {"src/", "sim/"})) return complaints;
  const std::string code = without_comments(file.text);
  const std::vector<std::string_view> lines = lines_of(code);
  const std::vector<std::string_view> originals = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const Ban& ban : kBans) {
      const std::size_t found = lines[i].find(ban.text);
      if (found == std::string_view::npos) continue;
      // static_assert is not assert; nothing else is a prefix of a word.
      if (found > 0 && ban.text == "assert(" && is_word_char(lines[i][found - 1])) continue;
      if (originals[i].find("rank boundary") != std::string_view::npos) continue;
      complaints.push_back(at(file, i) + std::string(ban.text) + " is banned, use " +
                           std::string(ban.instead));
    }
  }
  return complaints;
}

Complaints forbidden_includes(const File& file) {
  Complaints complaints;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view name = included(lines[i]);
    if (name.empty()) continue;
    const std::string complaint = include_complaint(file, name);
    if (!complaint.empty()) complaints.push_back(at(file, i) + complaint);
  }
  return complaints;
}

Complaints too_long(const File& file) {
  constexpr std::size_t kLongest = 500;
  const std::size_t n_lines = lines_of(file.text).size();
  if (n_lines <= kLongest) return {};
  return {file.path + ": " + std::to_string(n_lines) + " lines; above " + std::to_string(kLongest) +
          " there is a second concept in it"};
}

Complaints vague_name(const File& file) {
  constexpr std::array<std::string_view, 8> kVague = {
      "util", "utils", "common", "helper", "helpers", "misc", "manager", "impl"};
  const std::string stem = fs::path(file.path).stem().string();
  if (std::find(kVague.begin(), kVague.end(), stem) == kVague.end()) return {};
  return {file.path + ": name the concept; '" + stem + "' is a drawer"};
}

Complaints unfinished_notes(const File& file) {
  // Written in two halves, since this file is scanned as well.
  constexpr std::string_view kNotes[] = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X",
      "HA"
      "CK"};
  Complaints complaints;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (const std::string_view note : kNotes) {
      if (!contains_word(lines[i], note)) continue;
      complaints.push_back(at(file, i) + std::string(note) + ": finish it or file an issue");
    }
  }
  return complaints;
}

Complaints preprocessor_habits(const File& file) {
  Complaints complaints;
  const bool header = file.path.ends_with(".h") || file.path.ends_with(".cuh");
  if (header && file.text.find("#pragma once\n") == std::string::npos) {
    complaints.push_back(file.path + ": a header starts with #pragma once");
  }
  if (file.path.starts_with("gpu/")) return complaints;
  const std::vector<std::string_view> lines = lines_of(file.text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const bool condition = lines[i].starts_with("#if") || lines[i].starts_with("#elif");
    const bool backend = lines[i].find("CUDA") != std::string_view::npos ||
                         lines[i].find("NCCL") != std::string_view::npos ||
                         lines[i].find("GLOO") != std::string_view::npos;
    if (condition && backend) {
      complaints.push_back(at(file, i) + "a backend is a folder that CMake adds or not");
    }
  }
  return complaints;
}

Complaints not_built(const File& file, std::string_view compile_commands) {
  const bool source = file.path.ends_with(".cc") || file.path.ends_with(".cu");
  if (!source || file.path.starts_with("examples/")) return {};
  const auto mentioned = [&](const std::string& path) {
    return compile_commands.find("/" + path) != std::string_view::npos;
  };
  for (const char* optional : {"real/gloo/",
                               "gpu/cuda/",
                               "gpu/nccl/library/",
                               "tests/real/gloo/",
                               "tests/gpu/cuda/",
                               "tests/gpu/nccl/library/",
                               "tests/gpu/contraction/"}) {
    if (file.path.starts_with(optional) && !mentioned(optional)) return {};
  }
  if (mentioned(file.path + "\"")) return {};
  return {file.path + ": no target compiles it; name it in SOURCES or, if it is a test, call it " +
          "*_test.cc or *_property.cc in a registered folder"};
}

Complaints twice_defined_types(const std::vector<File>& headers) {
  // At the start of a line: nested types and forward declarations are indented or end in ';'.
  static const std::regex opening(
      R"((?:^|\n)(?:namespace ([\w:]+) \{|(?:struct|class|enum class) (\w+)[^;{]*\{))");
  std::map<std::string, std::string> first_of;
  Complaints complaints;
  for (const File& header : headers) {
    const std::string code = without_comments(header.text);
    std::string space;
    for (std::sregex_iterator at(code.begin(), code.end(), opening), end; at != end; ++at) {
      if ((*at)[1].matched) {
        space = (*at)[1].str();
        continue;
      }
      const std::string name = space + "::" + (*at)[2].str();
      const auto [known, is_new] = first_of.try_emplace(name, header.path);
      if (is_new || known->second == header.path) continue;
      complaints.push_back(header.path + ": " + name + " is defined in " + known->second +
                           " too; the program would have two types of one name");
    }
  }
  return complaints;
}

std::set<std::string> test_names(const std::vector<File>& sources) {
  static const std::regex macro(R"((?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*(\w+),\s*(\w+))");
  static const std::regex entry(R"rx(\{"([A-Z]\w+)",)rx");
  std::set<std::string> names;
  for (const File& file : sources) {
    const bool is_table = file.path.starts_with("tests/conformance/");
    const std::sregex_iterator end;
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), macro); at != end; ++at) {
      names.insert((*at)[1].str());
      names.insert((*at)[1].str() + "." + (*at)[2].str());
    }
    if (!is_table) continue;
    for (std::sregex_iterator at(file.text.begin(), file.text.end(), entry); at != end; ++at) {
      names.insert((*at)[1].str());
    }
  }
  return names;
}

Complaints unknown_tests(const File& document, const std::set<std::string>& known) {
  static const std::regex quoted("`([A-Z]\\w*(?:\\.[A-Z]\\w*)?|\\.[A-Z]\\w*)`");
  Complaints complaints;
  std::istringstream lines(document.text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.starts_with("|") || std::count(line.begin(), line.end(), '|') < 4) continue;
    const std::string cell = line.substr(line.rfind('|', line.size() - 2));
    std::string suite;
    const std::sregex_iterator end;
    for (std::sregex_iterator at(cell.begin(), cell.end(), quoted); at != end; ++at) {
      std::string name = (*at)[1].str();
      if (name.front() == '.') name = suite + name;
      suite = name.substr(0, name.find('.'));
      if (known.count(name) != 0) continue;
      complaints.push_back(document.path + ":" + std::to_string(number) + ": no test is called " +
                           name);
    }
  }
  return complaints;
}

}  // namespace lockstep::tidy
