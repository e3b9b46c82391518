// Characters as tokens: every window of a text, with the text one character later as its target.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"

namespace lockstep {
class FileSystem;
}  // namespace lockstep

namespace lockstep::data {

/// The different bytes of a text, ascending: a character's place in it is its token.
std::string characters_of(std::string_view text);

/// Windows of `block_size` tokens: sample i has the features text[i .. i + T) and, as targets,
/// text[i + 1 .. i + 1 + T), so that every position is to predict the next character.
///
/// Shapes: (n - T) samples for n characters; T feature and T target columns.
/// Errors: a block size below 1; a text that is not longer than one block.
Result<Dataset> make_text(std::string_view text, std::string_view name, std::int64_t block_size);

/// The same from a file, byte by byte, line ends included.
Result<Dataset> load_text(FileSystem& files, std::string_view path, std::int64_t block_size);

}  // namespace lockstep::data
