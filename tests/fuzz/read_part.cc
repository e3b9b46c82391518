// Reads arbitrary bytes as the part of a shard, and every line of it as whatever lines say.
#include "lockstep/harness/explore/parts/part_file.h"

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {

namespace {

/// Asks for every member, each as everything that one can be: only one complaint is kept.
Outcome look_at_all(explore::PartLine& line) {
  for (const std::string& key : line.keys()) {
    static_cast<void>(line.number(key));
    static_cast<void>(line.word(key));
    static_cast<void>(line.text(key));
    static_cast<void>(line.numbers(key));
    static_cast<void>(line.texts(key));
    static_cast<void>(line.choice<explore::SharedWork>(key));
    static_cast<void>(line.object(key).keys());
    for (explore::PartLine& inner : line.objects(key)) static_cast<void>(inner.keys());
  }
  return success();
}

}  // namespace

void read_one(std::string_view bytes) {
  static const Folder folder;
  folder.write("part.jsonl", bytes);
  const std::string path = folder.path() + "/part.jsonl";
  const Result<explore::Part> part = explore::Part::read(path);
  if (!part.ok()) return expect_a_sentence(part.error());
  const Outcome looked = part.value().each(look_at_all);
  if (!looked.ok()) expect_a_sentence(looked.error());
  const auto together = explore::read_parts(std::vector<std::string>{path});
  if (!together.ok()) expect_a_sentence(together.error());
}

}  // namespace lockstep::fuzz
