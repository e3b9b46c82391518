#include "tests/programs/program.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "lockstep/base/text.h"

namespace lockstep::programs {

namespace {

using Fields = std::map<std::string, std::string>;

std::int64_t number(std::string_view text) {
  const std::optional<std::int64_t> value = parse_int(text);
  if (!value) throw std::invalid_argument("not a number: " + std::string(text));
  return *value;
}

std::vector<std::string> parts(std::string_view text, char at) {
  std::vector<std::string> out;
  if (text.empty()) return out;
  for (const std::string_view part : split(text, at)) out.emplace_back(part);
  return out;
}

// The digits from `at` on, which moves past them.
std::int64_t digits(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return number(text.substr(begin, at - begin));
}

Layer parse_layer(std::string_view text) {
  Layer layer;
  layer.kind = text.at(0);
  std::size_t at = 1;
  if (layer.kind == 'N' || layer.kind == 'W') layer.out = digits(text, at);
  if (layer.kind != 'L' && layer.kind != 'S') return layer;
  layer.in = digits(text, at);
  ++at;  // x
  layer.out = digits(text, at);
  while (at < text.size()) {
    const char letter = text[at++];
    if (letter == 'b') layer.bias = true;
    if (letter == 'f') layer.frozen = true;
    if (letter == 't') layer.tied = static_cast<std::int32_t>(digits(text, at));
  }
  return layer;
}

std::string text_of(const Layer& layer) {
  std::string text(1, layer.kind);
  if (layer.kind == 'N' || layer.kind == 'W') text += std::to_string(layer.out);
  if (layer.kind != 'L' && layer.kind != 'S') return text;
  text += std::to_string(layer.in) + "x" + std::to_string(layer.out);
  if (layer.bias) text += "b";
  if (layer.frozen) text += "f";
  if (layer.tied >= 0) text += "t" + std::to_string(layer.tied);
  return text;
}

Branch parse_branch(std::string_view text) {
  const std::vector<std::string> words = parts(text, '/');
  Branch branch{.use = words.at(0),
                .dtype = parse_enum<DType>(words.at(1)).value(),
                .layers = {},
                .loss = words.at(3)};
  for (const std::string& layer : parts(words.at(2), ',')) {
    branch.layers.push_back(parse_layer(layer));
  }
  return branch;
}

std::string text_of(const Branch& branch) {
  std::vector<std::string> layers;
  for (const Layer& layer : branch.layers) layers.push_back(text_of(layer));
  return branch.use + "/" + std::string(name_of(branch.dtype)) + "/" + join(layers, ",") + "/" +
         branch.loss;
}

void read_options(Program& program, Fields& fields) {
  program.static_graph = fields["static"] == "1";
  program.find_unused = fields["find"] == "1";
  program.view = fields["view"] == "1";
  program.broadcast = fields["buffers"] == "1";
  program.cap_bytes = number(fields["cap"]);
  program.first_bytes = number(fields["first"]);
  program.ignored = parts(fields["ignored"], ',');
  for (const std::string& length : parts(fields["join"], ',')) {
    program.join.push_back(number(length));
  }
  program.divide_initial = fields["divide"] == "1";
  program.throws = fields["throw"] == "1";
}

}  // namespace

Program parse_program(std::string_view line) {
  Program program;
  Fields fields;
  for (const std::string& word : parts(trim(line), ' ')) {
    const std::size_t cut = word.find('=');
    const std::string key = word.substr(0, cut);
    const std::string value = word.substr(cut + 1);
    if (key == "branch") {
      program.branches.push_back(parse_branch(value));
    } else {
      fields[key] = value;
    }
  }
  program.world = static_cast<std::int32_t>(number(fields["world"]));
  program.seed = static_cast<std::uint64_t>(number(fields["seed"]));
  program.rows = number(fields["rows"]);
  program.in = number(fields["in"]);
  program.steps = fields["steps"];
  program.zero = fields["zero"];
  program.hook = fields["hook"];
  program.flaw = fields["flaw"];
  read_options(program, fields);
  return program;
}

std::string text_of(const Program& program) {
  std::vector<std::string> lengths;
  for (const std::int64_t length : program.join) lengths.push_back(std::to_string(length));
  const auto flag = [](bool on) { return on ? "1" : "0"; };
  std::string text = "world=" + std::to_string(program.world) +
                     " seed=" + std::to_string(program.seed) +
                     " rows=" + std::to_string(program.rows) + " in=" + std::to_string(program.in) +
                     " steps=" + program.steps + " zero=" + program.zero + " hook=" + program.hook +
                     " flaw=" + program.flaw;
  text += std::string(" static=") + flag(program.static_graph) +
          " find=" + flag(program.find_unused) + " view=" + flag(program.view) +
          " buffers=" + flag(program.broadcast) + " cap=" + std::to_string(program.cap_bytes) +
          " first=" + std::to_string(program.first_bytes);
  text += " ignored=" + join(program.ignored, ",") + " join=" + join(lengths, ",") +
          " divide=" + flag(program.divide_initial) + " throw=" + flag(program.throws);
  for (const Branch& branch : program.branches) text += " branch=" + text_of(branch);
  return text;
}

bool has_sparse(const Program& program) {
  return std::any_of(program.branches.begin(), program.branches.end(), [](const Branch& branch) {
    return branch.layers.front().kind == 'S';
  });
}

bool is_used(const Branch& branch, std::int32_t rank, std::int64_t step) {
  if (branch.use == "all") return true;
  if (branch.use == "rank0") return rank == 0;
  if (branch.use == "others") return rank != 0;
  if (branch.use == "odd") return (rank + step) % 2 == 1;
  if (branch.use == "even") return step % 2 == 0;
  if (branch.use == "first") return step == 0;
  return branch.use == "later" && step > 0;
}

bool is_in_loss(const Branch& branch, std::int64_t step) {
  return branch.loss != "drop" && (branch.loss != "flip" || step % 2 == 0);
}

std::uint64_t draw(std::uint64_t seed, std::string_view purpose, std::vector<std::int64_t> words) {
  std::uint64_t state = seed;
  for (const char letter : purpose) state = state * 31 + static_cast<std::uint64_t>(letter);
  for (const std::int64_t word : words) {
    state = state * 1'000'003 + static_cast<std::uint64_t>(word) + 1;
  }
  state = (state ^ (state >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  state = (state ^ (state >> 27U)) * 0x94d049bb133111ebULL;
  return state ^ (state >> 31U);
}

}  // namespace lockstep::programs
