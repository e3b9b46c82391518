// House rules that neither the compiler nor the linter can see, as functions of a file's text: what
// they find is returned, so that a test can also show each of them a bad snippet.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tidy {

/// A text file of the repository.
struct File {
  std::string path;  ///< Relative to the root, with forward slashes: "src/base/text.cc".
  std::string text;
};

/// One sentence a broken rule: "src/a.cc:3: ... is banned, use ...". Empty when the file is fine.
using Complaints = std::vector<std::string>;

/// Every file of the repository with one of the suffixes, sorted by path; build folders, outputs
/// and hidden folders are left out.
std::vector<File> files_under(const std::filesystem::path& root,
                              const std::set<std::string>& suffixes);

/// The text with comments blanked out, so that a comment may name what code may not. Keeps line
/// ends.
std::string without_comments(std::string_view text);

/// Words that lose determinism, in src/ and sim/. `catch (...)` is allowed where the line says that
/// it is the rank boundary.
Complaints banned_words(const File& file);

/// Rooms include each other by "lockstep/<room>/..." (who may use whom: tests/rooms/rooms.py);
/// CUDA, NCCL and Gloo stay in their rooms, Eigen in src/kernels/*.cc, and heavy libraries out of
/// headers.
Complaints forbidden_includes(const File& file);

/// At most 500 lines.
Complaints too_long(const File& file);

/// A file is named after its concept; a drawer of leftovers is not one.
Complaints vague_name(const File& file);

/// Notes to oneself do not belong in the sources.
Complaints unfinished_notes(const File& file);

/// A header says `#pragma once`; backends are folders, not preprocessor branches.
Complaints preprocessor_habits(const File& file);

/// A source that no target compiles: it appears nowhere in the build's compile commands. Rooms that
/// this build left out as a whole (real/gloo/, gpu/cuda/, gpu/nccl/library/) are exempt.
Complaints not_built(const File& file, std::string_view compile_commands);

/// Two headers that define a type of one name in one namespace: the linker would take one of its
/// destructors for both. `headers` without those of tests.
Complaints twice_defined_types(const std::vector<File>& headers);

/// The tests that these sources define: suites, "Suite.Test", and the names of a conformance
/// suite's table.
std::set<std::string> test_names(const std::vector<File>& sources);

/// A document's tables of three columns and more name tests in the last one, as `Suite`,
/// `Suite.Test`, or `.Test` of the suite named before it: each of them exists. Words that are not
/// capitalised name something else.
Complaints unknown_tests(const File& document, const std::set<std::string>& known);

}  // namespace lockstep::tidy
