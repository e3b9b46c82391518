#include "lockstep/formats/markup_text.h"

#include <algorithm>

#include "lockstep/formats/json_text.h"

namespace lockstep {

namespace {

void append_markup(std::string& out, char letter) {
  switch (letter) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\'':
      out += "&#39;";
      break;
    default: {
      const bool control = static_cast<unsigned char>(letter) < 0x20U || letter == 0x7F;
      out += control && letter != '\n' ? ' ' : letter;
    }
  }
}

}  // namespace

std::string escape_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    if (length == 1) {
      append_markup(out, text[i]);
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

}  // namespace lockstep
