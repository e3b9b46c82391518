#include "lockstep/harness/cli/grammar/detail/command_words.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "lockstep/base/check.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {
namespace {

/// "-j, --threads" of "-j,--threads": a letter, and the first of several spellings.
std::string shown_names(const std::string& names) {
  std::string result;
  for (const std::string_view name : split(names, ',')) {
    const bool is_letter = name.size() == 2;
    if (!result.empty()) result += ", ";
    result += name.front() == '!' ? name.substr(1) : name;
    if (!is_letter) return result;
  }
  return result;
}

/// A default as help shows it.
template <typename T>
std::string shown(const T& value) {
  std::string text;
  if constexpr (std::is_arithmetic_v<T>) {
    text = exact(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, std::string>) {
    text = value;
  }
  LOCKSTEP_CHECK(!text.empty(), "an option's help needs a default to show");
  return text;
}

/// The parser itself takes the nearest number where one does not fit, and wraps those below zero.
template <typename T>
std::string complaint_about_number(const std::string& text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc() && stop == end) return {};
  return "'" + text + "' is not a number that fits";
}

/// An unset variable of a shell.
std::string complaint_about_text(const std::string& text) {
  return text.empty() ? "an empty word names nothing" : "";
}

template <typename T>
struct ValueOf {
  using Type = T;
};

template <typename T>
struct ValueOf<std::optional<T>> {
  using Type = T;
};

template <typename T>
CLI::Option& checked(CLI::Option& option) {
  using Value = typename ValueOf<T>::Type;
  if constexpr (std::is_same_v<Value, std::string>) {
    option.check(CLI::Validator(&complaint_about_text, ""));
  } else if constexpr (std::is_integral_v<Value>) {
    option.check(CLI::Validator(&complaint_about_number<Value>, ""));
  }
  return option;
}

}  // namespace

CommandWords::CommandWords(CLI::App& app, HelpPage& page, const std::string& summary)
    : app_(&app), page_(&page) {
  page.summary = summary;
  page.usage = "lockstep " + app.get_name();
  add_row("-h,--help", "", "Prints this page", "");
}

void CommandWords::argument(const std::string& name, std::string& to, const std::string& text) {
  page_->arguments.push_back({name, text});
  page_->usage += " " + name;
  checked<std::string>(*app_->add_option(name, to)->type_name(name)->required());
}

CLI::Option& CommandWords::argument(const std::string& name,
                                    std::vector<std::string>& to,
                                    const std::string& text) {
  page_->arguments.push_back({name, text});
  page_->usage += " " + name + "...";
  return *app_->add_option(name, to)->type_name(name)->required();
}

CLI::Option& CommandWords::optional_argument(const std::string& name,
                                             std::string& to,
                                             const std::string& text) {
  page_->arguments.push_back({name, text});
  page_->usage += " [" + name + "]";
  return checked<std::string>(*app_->add_option(name, to)->type_name(name));
}

template <typename T>
CLI::Option& CommandWords::option(const std::string& names,
                                  T& to,
                                  const std::string& value,
                                  const std::string& text,
                                  const std::string& without) {
  add_row(names, value, text, "[default: " + (without.empty() ? shown(to) : without) + "]");
  return checked<T>(*app_->add_option(names, to)->type_name(value));
}

void CommandWords::list(const std::string& names,
                        std::vector<std::string>& to,
                        const std::string& value,
                        const std::string& text,
                        const std::string& without) {
  add_row(names, value, text + "; may be repeated", "[default: " + without + "]");
  app_->add_option(names, to)->type_name(value)->expected(1)->take_all();
}

template <typename T>
void CommandWords::required(const std::string& names,
                            T& to,
                            const std::string& value,
                            const std::string& text) {
  add_row(names, value, text, "(required)");
  page_->usage += " " + names + " " + value;
  checked<T>(*app_->add_option(names, to)->type_name(value)->required());
}

CLI::Option& CommandWords::flag(const std::string& names, bool& to, const std::string& text) {
  add_row(names, "", text, "");
  return *app_->add_flag(names, to);
}

CLI::Option& CommandWords::hidden(const std::string& names, std::string& to) {
  return *app_->add_option(names, to);
}

void CommandWords::hidden(const std::string& names, bool& to) { app_->add_flag(names, to); }

void CommandWords::example(const std::string& purpose, const std::string& line) {
  page_->examples.push_back({purpose, line});
}

void CommandWords::add_row(const std::string& names,
                           const std::string& value,
                           const std::string& text,
                           const std::string& remark) {
  std::vector<HelpRow>& rows = page_->options;
  // The help option stays last.
  const auto place = rows.empty() ? rows.end() : rows.end() - 1;
  rows.insert(place,
              {shown_names(names) + (value.empty() ? "" : " " + value),
               text + (remark.empty() ? "" : " " + remark)});
}

using Text = const std::string&;
template CLI::Option& CommandWords::option(Text, std::string&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::int32_t&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::int64_t&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::uint64_t&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, double&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::optional<double>&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::optional<std::int64_t>&, Text, Text, Text);
template CLI::Option& CommandWords::option(Text, std::optional<std::uint64_t>&, Text, Text, Text);
template void CommandWords::required(Text, std::string&, Text, Text);
template void CommandWords::required(Text, std::int64_t&, Text, Text);

}  // namespace lockstep::cli
