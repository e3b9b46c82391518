#include "lockstep/harness/report/detail/html.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "lockstep/formats/markup_text.h"

namespace lockstep::page {

namespace {

std::string digits(double value, std::chars_format format, int precision) {
  std::array<char, 64> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format, precision);
  return {text.data(), end.ptr};
}

}  // namespace

std::string pixels(double value) {
  // Ten times too large for any picture: a coordinate is never written with an exponent.
  const double bounded = std::clamp(value, -100'000.0, 100'000.0);
  return digits(bounded, std::chars_format::fixed, 1);
}

std::string short_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return digits(value, std::chars_format::general, 4);
}

std::string counted(std::int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

Html& Html::open(std::string_view tag, Attributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const auto& [name, value] : attributes) {
    out_ += ' ';
    out_ += name;
    out_ += "=\"" + escape_markup(value) + "\"";
  }
  out_ += '>';
  return *this;
}

Html& Html::close(std::string_view tag) {
  out_ += "</";
  out_ += tag;
  out_ += ">\n";
  return *this;
}

Html& Html::element(std::string_view tag, std::string_view words, Attributes attributes) {
  return open(tag, attributes).text(words).close(tag);
}

Html& Html::text(std::string_view words) {
  out_ += escape_markup(words);
  return *this;
}

Html& Html::raw(std::string_view markup) {
  out_ += markup;
  return *this;
}

Html& Html::open_section(const std::string& id, std::string_view heading) {
  open("section", {{"id", id}, {"aria-labelledby", id + "-h"}});
  return element("h3", heading, {{"id", id + "-h"}});
}

Html& Html::open_table(std::string_view caption, const std::vector<std::string>& headings) {
  open_scroll(caption).open("table").element("caption", caption).open("thead").open("tr");
  for (const std::string& heading : headings) element("th", heading, {{"scope", "col"}});
  return close("tr").close("thead").open("tbody");
}

Html& Html::row(const std::vector<std::string>& cells, Attributes attributes) {
  open("tr", attributes);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 0) {
      element("th", cells[i], {{"scope", "row"}});
    } else {
      element("td", cells[i]);
    }
  }
  return close("tr");
}

Html& Html::close_table() { return close("tbody").close("table").close("div"); }

Html& Html::open_details(std::string_view summary) {
  return open("details").element("summary", summary);
}

Html& Html::open_scroll(std::string_view label) {
  return open("div",
              {{"class", "scroll"},
               {"tabindex", "0"},
               {"role", "region"},
               {"aria-label", std::string(label)}});
}

Html& Html::open_picture(std::string_view label, double width, double height) {
  const std::string w = pixels(width);
  const std::string h = pixels(height);
  return open("svg",
              {{"viewBox", "0 0 " + w + " " + h},
               {"width", w},
               {"height", h},
               {"role", "group"},
               {"aria-label", std::string(label)}});
}

}  // namespace lockstep::page
