#include "tests/tidy/phrase_rules.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace lockstep::tidy {

namespace {

// What is counted per...
const std::string kUnit =
    "(rank|step|micro-step|call|group|element|page|file|run|world|process|law|event|member|bucket|"
    "thread|chunk|node|parameter|tensor|scenario|suite|line|row|epoch|batch|sample|message|word|"
    "operation|unit|hop|piece|pair|finding|wrapper|family|variant|iteration|token|attempt|machine|"
    "device|job|channel|launch|link|kind|point|reduction|seed|block|column|room|name|dtype|case|"
    "cohort|index|layer|weight|backward|forward|command|test)";
// ... and how such a clause goes on: "once a rank." is one, "once a rank has ended" is not.
const std::string kTail =
    R"re((?=$|[-.,;:)\]"'`|]| [-=*|/+(]| (and|or|in|with|by|of|for|on|over|than|as|at|to|from|)re"
    R"re(where|per|instead|otherwise|below|alone|whatever|here|too)\b))re";
// What there may be so many of per unit.
const std::string kCounted =
    R"re(\b(one|two|three|four|six|ten|lines?|files?|process|processes|threads?|entry|entries|)re"
    R"re(values?|digests?|draws?|numbers?|sums?|bits?|rows?|works?|sentences?|events?|samples?|)re"
    R"re(floats?|elements|(micro-)?steps|bytes|buckets?|cases?|suite|folder|calls|streams?|tasks?|)re"
    R"re(rings?|letters?|room|law|section|allocations?|switch|switches|comparisons?|messages?|)re"
    R"re(tables?|stacks|seeds?|rank|name|thread|token|hops|nanoseconds|ns|us|ms) an? )re";

/// "X a Y" for "X per Y".
void add_counts(std::vector<PhraseRule>& rules) {
  rules.push_back({"once a", R"re(\bonce an? )re" + kUnit + kTail, "\"once per ...\""});
  rules.push_back({"twice a", R"re(\btwice an? )re" + kUnit + kTail, "\"twice per ...\""});
  rules.push_back({" a", kCounted + kUnit + kTail, "\"... per ...\""});
  rules.push_back({"_a",
                   R"re(\b\w*(one|once|of|stacks|polls|calls|events|bytes|steps)_an?_)re"
                   R"re((rank|step|call|chunk|meeting|epoch|law|element)\b)re",
                   "\"..._per_...\""});
  rules.push_back({"a",
                   R"re([a-z](Stack|Poll|Draw|Once|One|Line|Case|File|Result|Permutation|Bucket|)re"
                   R"re(Seed|Room)s?An?(Rank|Step|Call|Chunk|Epoch|Law|Element|Dtype|Unit|Page))re"
                   R"re((?![a-z]))re",
                   "\"...Per...\"",
                   true});
  rules.push_back({"so many", R"re(\bso many\b(?! that\b))re", "\"this many\""});
  rules.push_back({"manieth", R"re(how-manieth)re", "\"1-based index\""});
  rules.push_back({"in turns", R"re(\bin turns\b)re", "\"in turn\", \"alternating\""});
}

/// Word order and idioms of another language.
void add_idioms(std::vector<PhraseRule>& rules) {
  rules.push_back(
      {" no ",
       R"re((\b(?!there\b)\w+['"`),:]*|['"`]) (is|are|was|were) no (?!longer\b|more\b|less\b|)re"
       R"re(fewer\b|later\b|earlier\b|greater\b|larger\b|smaller\b|better\b|worse\b|)re"
       R"re(such\b|need\b|one\b)[a-z]+)re",
       "\"is not a ...\", \"invalid ...\""});
  rules.push_back({"of which ", R"re(, of which (no\b|ranks\b))re", "\"because ...\""});
  rules.push_back({"for ever", R"re(\bfor ever\b)re", "\"forever\""});
  rules.push_back({"by and by", R"re(\bby and by\b)re", "\"eventually\""});
  rules.push_back({"in circles", R"re(\bin circles\b)re", "\"is spinning\""});
  rules.push_back({"broken since", R"re(\bbroken since\b)re", "\"failed earlier\""});
  rules.push_back({"the end of the run", R"re(\bc[oa]me to the end of the run\b)re", "\"finish\""});
  rules.push_back({"between looks", R"re(\bbetween looks\b)re", "\"between health checks\""});
  rules.push_back({"order of additions",
                   R"re(\bis the order of additions\b)re",
                   "\"depends on summation order\""});
  rules.push_back({"had ended", R"re(\brank \d+ had ended\b)re", "\"exited before ...\""});
  rules.push_back(
      {"behind",
       R"re((\b(?!steps?\b|iterations?\b|falls?\b|lags?\b|left\b|leaves?\b|stays?\b|far\b|of\b))re"
       R"re(\w+[,.;:)'"`]*|^|[^\w ]) behind\b(?! schedule\b| the scenes\b))re",
       "\"after\", \"following\", \"of\""});
  rules.push_back({"behind", R"re([a-z]Behind(?=[A-Z]))re", "\"After\"", true});
}

/// Ranks, callers and laws are no people.
void add_people(std::vector<PhraseRule>& rules) {
  const std::string_view parts = "what it is: no rank, a caller, all members";
  rules.push_back({"body", R"re(\b(no|some|any|every)body(s|'s)?\b)re", parts});
  rules.push_back(
      {"body", R"re([a-z](No|Some|Any|Every)body|(No|Some|Any|Every)body[A-Z])re", parts, true});
  rules.push_back({"body", R"re(_(no|some|any|every)body|\b(no|some|any|every)body_)re", parts});
  rules.push_back({"whoever", R"re(whoever)re", "\"the caller that\", \"any rank that\""});
  rules.push_back({"told", R"re(\btold\b)re", "\"given\", \"notified\", \"reported\""});
  rules.push_back({"told", R"re([a-z]Told(?![a-z]))re", "\"Reported\", \"Notified\"", true});
  rules.push_back({"tells", R"re(\btells\b)re", "\"reports\", \"notifies\", \"says\""});
  rules.push_back({"hear", R"re(\b(hears|heard)\b)re", "\"observes\", \"receives\""});
  rules.push_back({"business", R"re(\b(its|his|another law's) business\b)re", "\"concerns ...\""});
  rules.push_back({"business", R"re(sBusiness)re", "\"Ignores...\"", true});
}

/// Names that were replaced by the field's own.
void add_old_names(std::vector<PhraseRule>& rules) {
  rules.push_back({"befall", R"re(befall\w*)re", "\"is injected into\", \"happens to\""});
  rules.push_back({"mishap", R"re(mishap\w*)re", "\"contribution fault\""});
  rules.push_back({"doom", R"re(\b\w*doom\w*)re", "\"killed\", \"torn down\""});
  rules.push_back({"heed", R"re(\bheed\w*)re", "\"throw_if_killed\""});
  rules.push_back({"vigil", R"re(\bvigil\b)re", "\"deadline\""});
  rules.push_back({"patience", R"re(\b(peers::)?Patience\b(?! ))re", "\"backoff\"", true});
  rules.push_back({"noticeboard", R"re(noticeboard)re", "\"file store\""});
  rules.push_back({"roll", R"re(\bcall_roll\b|\bRollCall\b)re", "\"all_gather_bytes\""});
  rules.push_back({"sign_", R"re(\bsign_(in|out)\b)re", "\"join_session\""});
  rules.push_back({"take_down", R"re(\btake_down\b)re", "\"remove\""});
  rules.push_back({"farewell", R"re(\bfarewell\b)re", "\"death notifier\""});
  rules.push_back({"speaker", R"re(\bspeakers?(_of)?\b)re", "\"rank range\""});
  rules.push_back({"likeness", R"re(likeness)re", "\"similarity\""});
  rules.push_back({"imprint", R"re(imprint)re", "\"fingerprint\""});
  rules.push_back({"wires", R"re(\bWires\b|\bwires_)re", "\"message network\"", true});
  rules.push_back({"hub", R"re(\b(Group|Mini)?Hub\b|\bhub_?\b)re", "\"group registry\""});
}

/// A text in one line, and which line each of its characters came from.
struct Flowing {
  std::string text;
  std::vector<std::size_t> lines;

  void add(char c, std::size_t line) {
    text += c;
    lines.push_back(line);
  }
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// Where the words of a line begin: after blanks and comment markers.
std::size_t first_word(std::string_view text, std::size_t at) {
  const auto skip_blanks = [&] {
    while (at < text.size() && is_blank(text[at])) ++at;
  };
  skip_blanks();
  if (text.substr(at).starts_with("//")) {
    while (at < text.size() && (text[at] == '/' || text[at] == '<')) ++at;
  } else if (at < text.size() && text[at] == '#') {
    ++at;
  }
  skip_blanks();
  return at;
}

Flowing flowing(std::string_view text) {
  Flowing all;
  std::size_t line = 1;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] != '\n') {
      all.add(text[i++], line);
      continue;
    }
    ++line;
    i = first_word(text, i + 1);
    const bool literal_goes_on = i < text.size() && text[i] == '"' && all.text.ends_with('"');
    if (literal_goes_on) {
      all.text.pop_back();
      all.lines.pop_back();
      ++i;
    } else {
      all.add(i < text.size() && text[i] == '\n' ? '\n' : ' ', line);  // An empty line divides.
    }
  }
  return all;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

struct Compiled {
  PhraseRule rule;
  std::regex pattern;
};

std::vector<Compiled> compiled_rules() {
  std::vector<Compiled> all;
  for (PhraseRule& rule : phrase_rules()) {
    auto flags = std::regex::ECMAScript | std::regex::optimize;
    if (!rule.cased) flags |= std::regex::icase;
    std::regex pattern(rule.pattern, flags);
    all.push_back({std::move(rule), std::move(pattern)});
  }
  return all;
}

/// Looks only around the needles: the expressions are slow.
void find(const Compiled& phrase,
          const Flowing& all,
          const std::string& lowered,
          const std::string& path,
          Complaints& complaints) {
  constexpr std::size_t kBefore = 32;
  constexpr std::size_t kAfter = 64;
  std::size_t done = 0;
  for (std::size_t at = lowered.find(phrase.rule.needle); at != std::string::npos;
       at = lowered.find(phrase.rule.needle, at + 1)) {
    if (at < done) continue;
    const std::size_t begin = std::max(done, at > kBefore ? at - kBefore : 0);
    const auto first = all.text.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        all.text.begin() + static_cast<std::ptrdiff_t>(std::min(all.text.size(), at + kAfter));
    const auto flags =
        begin > 0 ? std::regex_constants::match_prev_avail : std::regex_constants::match_default;
    std::smatch match;
    if (!std::regex_search(first, last, match, phrase.pattern, flags)) continue;
    const auto found = static_cast<std::size_t>(match[0].first - all.text.begin());
    if (found > at) continue;  // Another needle's.
    done = static_cast<std::size_t>(match[0].second - all.text.begin());
    complaints.push_back(path + ":" + std::to_string(all.lines[found]) + ": '" + match.str() +
                         "': write " + std::string(phrase.rule.instead));
  }
}

}  // namespace

std::vector<PhraseRule> phrase_rules() {
  std::vector<PhraseRule> rules;
  add_counts(rules);
  add_idioms(rules);
  add_people(rules);
  add_old_names(rules);
  return rules;
}

Complaints foreign_phrases(const File& file) {
  static const std::vector<Compiled> phrases_of_the_house = compiled_rules();
  Complaints complaints;
  if (file.path.find("tidy/phrase_rules") != std::string::npos) return complaints;
  const Flowing all = flowing(file.text);
  const std::string lowered = lower(all.text);
  for (const Compiled& phrase : phrases_of_the_house)
    find(phrase, all, lowered, file.path, complaints);
  return complaints;
}

}  // namespace lockstep::tidy
