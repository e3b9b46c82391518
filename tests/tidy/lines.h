// A file's text as lines, for rules that read line by line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tidy/rules.h"

namespace lockstep::tidy {

/// The lines without their ends; views into `text`.
std::vector<std::string_view> lines_of(std::string_view text);

/// "src/base/text.cc:3: " for index 2.
std::string at(const File& file, std::size_t line_index);

/// Whether a C++ name may contain it.
bool is_word_char(char c);

}  // namespace lockstep::tidy
