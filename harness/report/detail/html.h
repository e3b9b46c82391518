// HTML and SVG as text: every name, value and text of a run goes through here and is escaped.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::page {

/// A coordinate with one decimal: "12.5".
std::string pixels(double value);
/// Four significant digits: "0.03125", "1.23e-09", "nan".
std::string short_number(double value);
/// "1 step", "3 steps".
std::string counted(std::int64_t n, std::string_view noun);

using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;

/// Appends elements to a text.
class Html {
 public:
  Html& open(std::string_view tag, Attributes attributes = {});
  Html& close(std::string_view tag);
  /// A whole element with a text in it.
  Html& element(std::string_view tag, std::string_view words, Attributes attributes = {});
  Html& text(std::string_view words);
  /// Markup that is already escaped.
  Html& raw(std::string_view markup);

  /// <section> with its heading, known in the page as `id`.
  Html& open_section(const std::string& id, std::string_view heading);
  /// A table with a caption and a row of headings; rows follow, then close_table.
  Html& open_table(std::string_view caption, const std::vector<std::string>& headings);
  /// A row whose first cell is its heading.
  Html& row(const std::vector<std::string>& cells, Attributes attributes = {});
  Html& close_table();
  /// A part that opens on demand.
  Html& open_details(std::string_view summary);
  /// A region that scrolls sideways and can be reached with the keyboard.
  Html& open_scroll(std::string_view label);
  /// An SVG picture of this size, named by `label`.
  Html& open_picture(std::string_view label, double width, double height);

  const std::string& str() const { return out_; }

 private:
  std::string out_;
};

/// The colours and measures of the page.
std::string style_sheet();

}  // namespace lockstep::page
