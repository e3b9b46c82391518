// One line of a part: members of a JSON object, read with types and complaints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/enum_names.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::explore {

/// Reads members. The first wrong one is remembered; what is read after it is empty or 0, so that
/// callers check once, with outcome(). A member that is missing is wrong.
class PartLine {
 public:
  /// `where`: "part.json:7". Errors: not a JSON object (where = "part.json:7:COLUMN").
  static Result<PartLine> parse(std::string_view line, const std::string& where);

  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;

  std::uint64_t number(const std::string& key);  ///< 0 .. 2^63 - 1
  std::uint64_t word(const std::string& key);    ///< 16 hex digits
  std::string text(const std::string& key);
  std::vector<std::uint64_t> numbers(const std::string& key);
  std::vector<std::string> texts(const std::string& key);
  /// Objects, whose complaints are this line's, too.
  std::vector<PartLine> objects(const std::string& key);
  PartLine object(const std::string& key);
  std::vector<std::string> keys() const;  ///< In the order of the file.

  template <NamedEnum E>
  E choice(const std::string& key) {
    const std::string word = text(key);
    if (const std::optional<E> known = parse_enum<E>(word)) return *known;
    complain(key, "unknown " + key + " '" + printable(word) + "'");
    return E{};
  }

  /// Makes `what` the complaint about the member `key`, if there is none yet.
  void complain(const std::string& key, const std::string& what);
  Outcome outcome() const;

 private:
  struct Node;
  struct Source;

  PartLine(std::shared_ptr<const Node> node, std::shared_ptr<Source> source)
      : node_(std::move(node)), source_(std::move(source)) {}

  bool is_there(const std::string& key, std::string_view kind);

  std::shared_ptr<const Node> node_;
  std::shared_ptr<Source> source_;  ///< Shared with the objects in it.
};

}  // namespace lockstep::explore
