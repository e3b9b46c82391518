#!/usr/bin/env python3
"""Reads HTML reports as a browser's parser would and compares them with the JSON report and the trace of
the same run.

What a reader relies on: every finding and verdict is there, pictures and tables agree with the trace,
nothing is loaded from elsewhere, titles from outside stay text, the keyboard reaches every picture, and
colours stand out from their background.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
VOID = {"meta", "link", "br", "hr", "img", "input"}
OF_HTML = """html head meta title link style body header main footer nav section article div h1 h2 h3 h4 p ul ol li dl dt
 dd pre code a span strong em details summary table caption thead tbody tr th td""".split()
OF_SVG = "svg defs marker g rect circle line path polygon text title".split()
CASES = [("jobs/digits", "", "healthy"), ("jobs/digits", "broken", "divergence"),
         ("lessons/rank0_only_barrier", "", "hang"), ("zoo/token_weighted_mean", "", "wrong mean"),
         ("zoo/rank_crash", "", "error"), ("zoo/two_comm_cycle", "", "hang in a circle")]


class Element:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent, self.children = tag, dict(attributes), parent, []

    def all(self, tag, **wanted):
        for child in self.children:
            if isinstance(child, str):
                continue
            if child.tag == tag and all(child.attributes.get(k.rstrip("_")) == v for k, v in wanted.items()):
                yield child
            yield from child.all(tag, **wanted)

    def text(self):
        return "".join(c if isinstance(c, str) else c.text() for c in self.children).strip()


class Page(HTMLParser):
    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.root = self.here = Element("", {}, None)
        self.feed(markup)
        self.close()
        assert self.here is self.root, f"<{self.here.tag}> is never closed"

    def handle_starttag(self, tag, attributes):
        element = Element(tag, attributes, self.here)
        assert len(element.attributes) == len(attributes), f"an attribute twice in <{tag}>"
        self.here.children.append(element)
        if tag not in VOID:
            self.here = element

    def handle_startendtag(self, tag, attributes):
        self.here.children.append(Element(tag, attributes, self.here))

    def handle_endtag(self, tag):
        assert self.here.tag == tag, f"</{tag}> closes <{self.here.tag}>"
        self.here = self.here.parent

    def handle_data(self, data):
        self.here.children.append(data)


def lockstep(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def everything(element):
    for child in element.children:
        if not isinstance(child, str):
            yield child
            yield from everything(child)


def table(page, caption):
    for found in page.root.all("table"):
        if next(found.all("caption")).text() == caption:
            body = next(found.all("tbody"))
            return [[c.text() for c in row.children if not isinstance(c, str)] for row in body.all("tr")]
    return None


def is_drawn(element):
    return element.tag == "svg" or (element.parent is not None and is_drawn(element.parent))


def check_form(page):
    elements = list(everything(page.root))
    ids = [e.attributes["id"] for e in elements if "id" in e.attributes]
    assert len(ids) == len(set(ids)), "ids are unique"
    for element in elements:
        assert element.tag in (OF_SVG if is_drawn(element) else OF_HTML), element.tag
        assert not any(name.startswith("on") or name == "src" for name in element.attributes)
        target = element.attributes.get("href", "")
        assert target in ("", "data:,") or target[1:] in ids, f"a link to nowhere or outside: {target}"
        for value in element.attributes.values():
            assert "url(" not in (value or "") or value[5:-1] in ids, value
        if element.tag == "svg" and "wait-for" not in element.attributes.get("class", ""):
            assert element.attributes.get("aria-label") or element.attributes.get("aria-hidden") == "true"
        assert element.attributes.get("tabindex", "0") in ("0", "-1")
        if element.tag == "g":
            assert element.attributes["tabindex"] == "0" and element.attributes["aria-label"]
    sheet = next(page.root.all("style")).text()
    assert "url(" not in sheet and "@import" not in sheet
    links = list(page.root.all("a"))
    assert links[0].attributes["href"] == "#main", "the first stop of the keyboard skips the header"
    for level in range(2, 5):
        assert not list(page.root.all(f"h{level}")) or list(page.root.all(f"h{level - 1}"))


def check_against_json(page, report):
    assert next(page.root.all("h2")).text() == report["title"]
    sentences = [f["sentence"] for law in report["laws"] for f in law["findings"]]
    shown = [next(f.all("p")).text() for f in page.root.all("li", class_="finding")]
    assert shown == sentences, (shown, sentences)
    for finding, law in zip(page.root.all("li", class_="finding"),
                            [law for law in report["laws"] for _ in law["findings"]]):
        facts = [e.text() for e in finding.all("dd")]
        assert facts[0] == law["law"] and facts[-1] == report["replay"]
    for finding, shown in zip((f for law in report["laws"] for f in law["findings"]),
                              page.root.all("li", class_="finding")):
        facts = dict(zip((e.text() for e in shown.all("dt")), (e.text() for e in shown.all("dd"))))
        assert (finding["tensor"] or "") in facts.get("Tensor", ""), (finding, facts)
        assert ("Tensor" in facts) == bool(finding["tensor"]), (finding, facts)
    rows = table(page, "Every law and its verdict")
    verdicts = {"holds": "\u2713\nholds", "broken": "\u2717\nbroken", "not-checkable": "\u2013\nnot checkable"}
    wanted = [[str(law["number"]), law["law"], verdicts[law["verdict"]], str(law["checks"])]
              for law in report["laws"]]
    assert [row[:4] for row in rows] == wanted
    for row, law in zip(rows, report["laws"]):
        assert law["verdict"] != "not-checkable" or row[4] == "add " + law["missing"]
    if report["wait_for_graph"]:
        assert report["wait_for_graph"].strip() in [pre.text() for pre in page.root.all("pre")]


def sections(page):
    return [s.attributes["id"].split("-", 2)[2] for s in page.root.all("section") if "-" in s.attributes["id"]]


def diverged(events, n_ranks):
    """(rank, step) -> names that differ from most ranks, straight from the param events."""
    places = {}
    for event in events:
        if event["kind"] == "param" and event["point"] == "step":
            for name, digest in zip(event["names"], event["digests"]):
                places.setdefault((event["at"][4], name), {})[event["rank"]] = digest
    odd = {}
    for (step, name), digests in places.items():
        sides = sorted({d: sorted(r for r in digests if digests[r] == d) for d in digests.values()}.values(),
                       key=lambda ranks: (-len(ranks), ranks))
        for ranks in sides[1:]:
            for rank in ranks:
                odd.setdefault((rank, step), set()).add(name)
    return odd


def check_heat_map(page, events, n_ranks):
    odd = diverged(events, n_ranks)
    drawn = {}
    for title in page.root.all("title"):
        found = re.match(r"rank (\d+), step (\d+): (.*) differs? ?.* from the majority", title.text())
        if found:
            drawn[int(found[1]), int(found[2])] = found[3]
    assert set(drawn) == set(odd), (drawn, odd)
    for place, words in drawn.items():
        n = len(odd[place])
        assert words.split(" and ")[0].split(" differ")[0] in odd[place]
        assert n == 1 or f"and {n - 1} more" in words
    assert (table(page, "Where parameters differ from those of most ranks") is not None) == bool(odd)
    for row in page.root.all("g"):
        name = row.attributes["aria-label"].split(":")[0].split(",")[0]
        assert next(row.all("text", class_="lane")).text() == " ".join(name.split()[:2]), name


def check_buckets(page, events):
    wraps = [e for e in events if e["kind"] == "wrap" and e["rank"] == 0]
    layouts = [e for e in events if e["kind"] == "bucket" and e["rank"] == 0]
    if not layouts:
        return
    names = wraps[0]["params"]
    wanted, indices = [], list(layouts[0]["indices"])
    for length in layouts[0]["lengths"]:
        wanted.append(", ".join(names[i] for i in indices[:length]))
        del indices[:length]
    assert [row[3] for row in table(page, "Buckets in the order of their launch")] == wanted


def check_timeline(page, events):
    ranks = {e["rank"] for e in events}
    rows = table(page, "What each rank did in the whole run")
    posted = {r: sum(e["rank"] == r and e["kind"] == "collective" and e["phase"] == "posted" for e in events)
              for r in ranks}
    steps = {r: sum(e["rank"] == r and e["kind"] == "step" for e in events) for r in ranks}
    for row in rows:
        rank = int(row[0].split()[1])
        assert int(row[7]) == posted[rank] and int(row[1]) >= steps[rank], row


def check_marks(page):
    """What happened at one time stands in the middle of its mark."""
    for look in ("m-finding", "m-fault", "m-quiet"):
        for mark in page.root.all("polygon", class_=look):
            points = [float(point.split(",")[0]) for point in mark.attributes["points"].split()]
            assert abs((min(points) + max(points)) / 2 - points[0]) < 0.11, (look, points)  # Written with one decimal.


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(d * 2 for d in color[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def check_contrast(sheet):
    """Words 4.5 : 1, shapes that carry meaning 3 : 1 or two of three neighbours apart (WCAG 2.1)."""
    roots = re.findall(r":root\{(.*?)\}", sheet, re.S)
    assert len(roots) == 2, "one set of colours for light, one for dark surroundings"
    for root in roots:
        color = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]+)", root))

        def contrast(a, b):
            high, low = sorted((luminance(color[a]), luminance(color[b])), reverse=True)
            return (high + 0.05) / (low + 0.05)

        grounds = [("ink", g) for g in ("paper", "panel", "piece", "other", "late", "wait", "ended", "bad-soft")]
        grounds += [(w, g) for w in ("muted", "link", "good", "bad") for g in ("paper", "panel")]
        grounds += [("good", "good-soft"), ("bad", "bad-soft"), ("on-many", "many"), ("ink", "one")]
        for words, ground in grounds:
            assert contrast(words, ground) >= 4.5, (words, ground, contrast(words, ground))
        for shape in ("backward", "many", "call", "bad", "update"):
            assert contrast(shape, "paper") >= 3, (shape, contrast(shape, "paper"))
        steps = [luminance(color[c]) for c in ("equal", "one", "few", "many")]
        assert steps in (sorted(steps), sorted(steps, reverse=True)), "darker or lighter step by step"


def run_case(scenario, variant, name, scratch):
    trace = scratch / name / "trace"
    html, again, data = (scratch / name / f for f in ("a.html", "b.html", "a.json"))
    common = ["run", f"scenarios/{scenario}.toml", "--quiet"] + (["--variant", variant] if variant else [])
    # With a trace, the replay line names the reproduction next to it: the same in all three.
    lockstep(*common, "--report", data, "--trace", trace)
    lockstep(*common, "--report", html, "--trace", trace)
    lockstep(*common, "--report", again, "--trace", trace)
    assert html.read_bytes() == again.read_bytes(), "the same run gives the same bytes"
    page, report = Page(html.read_text(encoding="utf-8")), json.loads(data.read_text())
    check_form(page)
    check_against_json(page, report)
    wanted = ["findings"] + (["waiting"] if report["outcome"] in ("hang", "error") else [])
    assert sections(page) == wanted + ["timeline", "divergence", "losses", "buckets", "laws"]
    events = [json.loads(line) for path in sorted(trace.glob("*.jsonl"))
              for line in path.read_text().splitlines()[1:]]
    if name != "healthy":  # Its 240 steps share columns.
        check_heat_map(page, events, report["ranks"])
    check_buckets(page, events)
    check_marks(page)
    if report["outcome"] != "error":
        check_timeline(page, events)
    print(f"{name}: {html.stat().st_size} bytes")
    return page


def check_text_from_outside(scratch):
    nasty = "</title><script>alert('1')</script> & \"x\" \u00e9"
    target = scratch / "nasty.html"
    lockstep("run", "scenarios/lessons/rank0_only_barrier.toml", "--quiet", "--report", target, "--set",
             "title=" + json.dumps(nasty, ensure_ascii=False))
    page = Page(target.read_text(encoding="utf-8"))
    check_form(page)
    assert next(page.root.all("h2")).text() == nasty


def check_many_ranks(scratch):
    target = scratch / "many.html"
    lockstep("run", "scenarios/jobs/digits.toml", "--variant", "broken", "--quiet",
             "--set", "world.ranks=60", "--set", "loop.epochs=20", "--report", target)
    page = Page(target.read_text(encoding="utf-8"))
    check_form(page)
    notes = " ".join(p.text() for p in page.root.all("p", class_="thinned"))
    assert "Showing 16 of 60 ranks" in notes and "Showing 48 of 60 ranks" in notes, notes
    assert "Showing 8 of 40 steps" in notes, notes
    assert target.stat().st_size < 1_500_000, target.stat().st_size


def check_times(scratch):
    common = ["run", "scenarios/lessons/bucket_size.toml", "--quiet", "--report"]
    lockstep(*common, scratch / "times.html")
    lockstep(*common, scratch / "times.json")
    page = Page((scratch / "times.html").read_text(encoding="utf-8"))
    check_form(page)
    times = json.loads((scratch / "times.json").read_text())["times"]
    rows = table(page, "Collectives, most time in total first")
    assert len(rows) == len(times["collectives"]) > 1
    for row, call in zip(rows, times["collectives"]):
        assert row[:4] == [call["op"], *(str(call[key]) for key in ("bytes", "ranks", "calls"))], row
        assert row[5:] == [f"{call[key]:.3g}" for key in ("alg_gb_per_s", "bus_gb_per_s")], row


def check_many_stuck_ranks(scratch):
    for n_ranks in (128, 130):
        target = scratch / f"stuck_{n_ranks}.html"
        lockstep("run", "scenarios/lessons/rank0_only_barrier.toml", "--quiet", "--set", f"world.ranks={n_ranks}",
                 "--report", target)
        page = Page(target.read_text(encoding="utf-8"))
        check_form(page)
        rows = table(page, "What each rank did last")
        assert [row[0] for row in rows] == [f"rank {r}" for r in range(128)], rows
        waiting = next(s for s in page.root.all("section") if s.attributes["id"].endswith("-waiting"))
        notes = [p.text() for p in waiting.all("p", class_="thinned")]
        assert ("Showing the first 128 of 130 ranks." in notes) == (n_ranks == 130), notes


def check_several_runs(scratch):
    target = scratch / "several.html"
    lockstep("test", "scenarios/lessons/weights_2_and_200.toml", "scenarios/zoo/send_send.toml", "--report", target)
    page = Page(target.read_text(encoding="utf-8"))
    check_form(page)
    rows = table(page, "All runs on this page")
    titles = [h.text() for h in page.root.all("h2")]
    assert len(rows) == len(list(page.root.all("article"))) >= 4 and [r[0] for r in rows] == titles[1:]
    assert {r[2] for r in rows} == {"\u2713\nmet"} and {r[1] for r in rows} >= {"Hang"}

    trace = scratch / "checked"
    lockstep("run", "scenarios/lessons/rank0_only_barrier.toml", "--quiet", "--trace", trace)
    lockstep("check", trace, "--report", scratch / "checked.html")
    lockstep("check", trace, "--report", scratch / "checked.json")
    page = Page((scratch / "checked.html").read_text(encoding="utf-8"))
    check_form(page)
    check_against_json(page, json.loads((scratch / "checked.json").read_text()))
    assert "all_reduce #1 at train.py:40" in table(page, "What each rank did last")[0][1]

    wrong = subprocess.run([sys.argv[1], "check", str(trace), "--report", "x.txt"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "FILE.html, FILE.json, FILE.xml or FILE.perfetto.json" in wrong.stderr, wrong.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for scenario, variant, case in CASES:
            page = run_case(scenario, variant, case, scratch)
        check_contrast(next(page.root.all("style")).text())
        check_text_from_outside(scratch)
        check_many_ranks(scratch)
        check_many_stuck_ranks(scratch)
        check_times(scratch)
        check_several_runs(scratch)


os.chdir(ROOT)
main()
