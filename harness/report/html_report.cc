#include "lockstep/harness/report/html_report.h"

#include <utility>

#include "lockstep/harness/report/detail/sections.h"

namespace lockstep {

namespace {

using page::Html;

void write_contents(const RunView& run, const std::string& id, bool pictures, Html& out) {
  out.open("nav", {{"aria-label", "Sections"}}).open("ul");
  const auto link = [&](const char* to, const char* name) {
    out.open("li").element("a", name, {{"href", "#" + id + "-" + to}}).close("li");
  };
  link("findings", "Findings");
  if (pictures) {
    const RunOutcome outcome = run.report->outcome;
    if (outcome == RunOutcome::kHang) link("waiting", "Who waits for whom");
    if (outcome == RunOutcome::kError) link("waiting", "How ranks ended");
    link("timeline", "Timeline");
    link("divergence", "Replicas");
    link("losses", "Loss and metrics");
    link("buckets", "Buckets");
    if (times_of(run)) link("times", "Time");
  }
  link("laws", "Laws");
  out.close("ul").close("nav");
}

std::string run_html(const RunView& run, const std::string& id, bool room_left) {
  Html out;
  const bool pictures = run.trace != nullptr && room_left;
  out.open("article", {{"id", id}, {"class", "run"}, {"aria-labelledby", id + "-title"}});
  out.element("h2", run.report->title, {{"id", id + "-title"}});
  page::write_verdict(run, out);
  write_contents(run, id, pictures, out);
  page::write_findings(run, id, out);
  if (pictures) {
    page::write_waiting(run, id, out);
    page::write_timeline(run, id, out);
    page::write_heat_map(run, id, out);
    page::write_curves(run, id, out);
    page::write_buckets(run, id, out);
    if (const auto times = times_of(run)) page::write_times(*times, id, out);
  } else if (run.trace != nullptr) {
    out.element("p",
                "This page is full: the pictures of this run are left out. A report of this run "
                "alone has them.",
                {{"class", "thinned"}});
  }
  page::write_laws(run, id, out);
  out.close("article");
  return out.str();
}

void write_mark(bool good, Html& out) {
  out.element("span", good ? "\u2713" : "\u2717", {{"aria-hidden", "true"}, {"class", "mark"}});
}

constexpr std::string_view kPolicy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

}  // namespace

std::optional<RunTimes> times_of(const RunView& run) {
  if (run.trace == nullptr) return std::nullopt;
  const RunClock real = run.one_clock ? RunClock::kShared : RunClock::kSeparate;
  return run_times(*run.trace, run.backend == "sim" ? RunClock::kVirtual : real);
}

void HtmlReport::add(const RunView& run) {
  const std::string id = "run-" + std::to_string(entries_.size() + 1);
  Entry entry;
  entry.title = run.report->title;
  entry.outcome = page::verdict_text(*run.report);
  entry.good = page::verdict_class(*run.report) == "good";
  if (run.unmet) {
    entry.good = run.unmet->empty();
    entry.expectations = entry.good ? "met" : "not met";
  }
  entries_.push_back(std::move(entry));
  runs_ += run_html(run, id, runs_.size() < kPictureBytes);
}

std::string HtmlReport::overview() const {
  Html out;
  out.open("section", {{"id", "overview"}}).element("h2", "Overview");
  out.open_table("All runs on this page", {"Run", "Verdict", "Expectations"});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    out.open("tr").open("th", {{"scope", "row"}});
    out.element("a", entry.title, {{"href", "#run-" + std::to_string(i + 1)}}).close("th");
    // Where a run was to fail, what counts is that it did.
    const bool judged = !entry.expectations.empty();
    const std::string look = entry.good ? "good" : "bad";
    out.open("td", {{"class", judged ? "" : look}});
    if (!judged) write_mark(entry.good, out);
    out.element("span", entry.outcome).close("td");
    out.open("td", {{"class", judged ? look : ""}});
    if (judged) write_mark(entry.good, out);
    out.element("span", entry.expectations).close("td").close("tr");
  }
  out.close_table().close("section");
  return out.str();
}

std::string HtmlReport::str() const {
  Html out;
  out.raw("<!DOCTYPE html>\n").open("html", {{"lang", "en"}}).open("head");
  out.raw("<meta charset=\"utf-8\">\n");
  out.open("meta", {{"http-equiv", "Content-Security-Policy"}, {"content", std::string(kPolicy)}});
  out.open("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  out.open("meta", {{"name", "color-scheme"}, {"content", "light dark"}});
  out.open("link", {{"rel", "icon"}, {"href", "data:,"}});
  const std::string title = entries_.size() == 1
                                ? entries_.front().title
                                : page::counted(static_cast<std::int64_t>(entries_.size()), "run");
  out.element("title", title + " \u2013 Lockstep report");
  out.open("style").raw(page::style_sheet()).close("style").close("head").open("body");
  out.element("a", "Skip to the findings", {{"class", "skip"}, {"href", "#main"}});
  out.open("header").element("h1", "Lockstep report").close("header");
  out.open("main", {{"id", "main"}, {"tabindex", "-1"}});
  if (entries_.size() > 1) out.raw(overview());
  out.raw(runs_).close("main");
  out.element("footer",
              "One file, no scripts. In pictures, hold the pointer over a shape for its name.");
  return out.close("body").close("html").str();
}

}  // namespace lockstep
