#!/usr/bin/env python3
"""What pages of the repository say about its sources is true, as far as their text alone shows it. Needs no build.

    page_rules.py                checks every Markdown file
    page_rules.py --self-test    shows each rule a lie

What pages name is checked by named_things.py, what they print by pages.py.
"""

import argparse
import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLOORS = ("include", "src", "sim", "real", "gpu", "harness", "python", "tests", "bench", "docs", "examples", "cmake")
SKIPPED = ("build", "shared", ".")  # How folders begin that hold no pages of the repository.
INDEX = "docs/README.md"
RECORDED = ("tests/mutation/RESULTS.md",)  # Names files of the commit that it was recorded of.
LONGEST = 45  # Words of a sentence; most have 30 at most.
UNREAD = ("docs/decisions/", "docs/causes.md", "tests/mutation/")  # Records of their day, and generated pages.
PHRASES = {  # Word for word from another language -> what it means.
    r"strangers?": "untrusted, unknown",
    r"mend(ed|s|ing)?": "fixed, repaired",
    r"each time others": "new ones each time",
    r"what becomes of": "the result of",
    r"as often as": "equally often",
    r"in words": "annotated",
    r"a word": "a message",
    r"[Ss]o (do|does|is|are)": "... too",
    r"are to [a-z]+": "must ...",
}
FENCE = re.compile(r"^ *(```|~~~)")
MARKED = re.compile(r"<!-- (\w+): begin -->\n(.*?)<!-- \1: end -->", re.DOTALL)


def prose_lines(text):
    """Lines with their numbers, without those of code blocks."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            fenced = not fenced
            yield number, ""
        else:
            yield number, "" if fenced else line


def cells_of(row):
    """The cells of a table's row. An escaped bar is part of its cell."""
    return re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))


def broken_tables(name, text):
    """Rows that are not part of a table, and rows with more or fewer cells than their table has columns."""
    wrong, columns, before = [], 0, ""
    lines = list(prose_lines(text))
    for i, (number, line) in enumerate(lines):
        if line.startswith("|"):
            if not before.startswith("|"):
                after = lines[i + 1][1] if i + 1 < len(lines) else ""
                columns = len(cells_of(line))
                if not re.fullmatch(r"\|(:?-+:?\|)+", after.replace(" ", "")):
                    wrong.append(f"{name}:{number}: this row is outside a table")
                    columns = 0
            elif columns and len(cells_of(line)) != columns:
                wrong.append(f"{name}:{number}: {len(cells_of(line))} cells in a table of {columns} columns")
        before = line
    return wrong


def long_sentences(name, text, most=LONGEST):
    """Sentences of more than `most` words in paragraphs and lists. Tables are left out, and code."""
    paragraphs, before = [], ""
    for number, line in prose_lines(re.sub(r"<!--.*?-->", "", text)):
        if not line.strip() or line.startswith(("|", "#")):
            line = ""
        elif not before or re.match(r" *([-*]|\d+\.) ", line):
            paragraphs.append((number, line.strip()))
        else:
            paragraphs[-1] = (paragraphs[-1][0], f"{paragraphs[-1][1]} {line.strip()}")
        before = line
    return [f"{name}:{number}: a sentence of {len(sentence.split())} words: {sentence[:40]}..."
            for number, paragraph in paragraphs
            for sentence in re.split(r"(?<=[.!?:;])\)?\*{0,2} ", paragraph) if len(sentence.split()) > most]


def foreign_phrases(name, text):
    """Phrases of PHRASES outside of code and generated tables."""
    written = re.sub(r"<!-- keys of .*?<!-- end of keys -->", "", MARKED.sub("", text), flags=re.DOTALL)
    return [f"{name}: '{found[0]}': write {instead}" for _, line in prose_lines(written)
            for phrase, instead in PHRASES.items() if (found := re.search(rf"\b{phrase}\b", line))]


def missing_sources(pages, exists):
    """Files of the tree that pages name in their text, `floor/.../name.ext`, and that do not exist."""
    wrong = []
    for name, text in pages.items():
        named = re.findall(rf"`((?:{'|'.join(FLOORS)})/[\w./-]+\.(?:h|cc|cu|py|txt|toml|md))`", text)
        wrong += [f"{name}: {file} does not exist" for file in sorted(set(named)) if not exists(file)]
    return wrong


def anchors_of(text):
    """What links into a page may end with: its headings as GitHub spells them, and explicit ids."""
    anchors = set(re.findall(r'<a id="([^"]+)">', text))
    for _, line in prose_lines(text):
        if found := re.match(r"#+ (.*)", line):
            shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", found[1]).lower().strip()
            slug = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
            anchors.add(slug if slug not in anchors else f"{slug}-1")
    return anchors


def missing_anchors(pages):
    """Links between pages, `page.md#heading`, whose heading is missing."""
    known = {name: anchors_of(text) for name, text in pages.items()}
    wrong = []
    for name, text in pages.items():
        for file, anchor in re.findall(r"\]\(([^)#: ]*\.md)?#([^)]+)\)", text):
            target = os.path.normpath(Path(name).parent / file) if file else name
            if target in known and anchor not in known[target]:
                wrong.append(f"{name}: {target} has no heading #{anchor}")
    return wrong


def unlisted_advices(page, sources):
    """Advice that a law gives, a string "A-...", and that the page's table does not explain; and rows of no advice."""
    given = {advice for text in sources for advice in re.findall(r'"(A-[a-z0-9-]+)"', text)}
    table = page.split("\n## Advice\n", 1)[-1].split("\n## ", 1)[0]
    listed = re.findall(r'^\| (?:<a id="[^"]*"></a>)?`(A-[a-z0-9-]+)` \|', table, re.MULTILINE)
    wrong = [f"docs/laws.md: the table of advice has no {advice}" for advice in sorted(given - set(listed))]
    wrong += [f"docs/laws.md: no law gives {advice}" for advice in sorted(set(listed) - given)]
    return wrong + [f"docs/laws.md: lists {advice} twice" for advice in sorted(set(listed)) if listed.count(advice) > 1]


def unlisted_pages(index, names):
    """Pages below docs/ that the index does not link. Decisions have their folder as a link."""
    pages = [name for name in names if name.startswith("docs/") and name != INDEX and "/decisions/" not in name]
    linked = {f"docs/{link}" for link in re.findall(r"\]\(([^)#]+)\)", index)}
    return [f"{INDEX}: does not link {page}" for page in sorted(set(pages) - linked)]


def missing_commands(page, commands):
    """Subcommands without a section of their own in docs/commands.md."""
    return [f"docs/commands.md: has no section for {name}" for name in commands
            if not re.search(rf"^## .*\b{name}\b", page, re.MULTILINE)]


def rows_of(text, mark):
    """The rows of a generated table: lists of cells, without backquotes."""
    lines = dict(MARKED.findall(text))[mark].splitlines()
    return [[cell.strip().strip("`") for cell in cells_of(line)] for line in lines if line.startswith("| `")]


def counts_of(programs, zoo):
    """What the two tables of docs/programs.md add up to: name of a count -> its value. `zoo` names its scenarios."""
    scripts, plain = rows_of(programs, "scripts"), rows_of(programs, "table")
    unannotated = {row[0]: row[2] for row in scripts if row[1] == "unannotated"}
    annotated = {row[0] for row in scripts if row[1] == "annotated" and row[2] != "**nothing**"}
    silent = {name for name, noticed in unannotated.items() if noticed == "**nothing**"}
    return {
        "scripts": len(unannotated),
        "scripts noticed": len(unannotated) - len(silent - annotated),
        "scripts noticed when annotated": len(silent & annotated),
        "scripts with advice": sum(noticed.startswith("advice ") for noticed in unannotated.values()),
        "programs": len({row[0] for row in plain}),
        "in both tables": len({row[0] for row in plain} & set(unannotated)),
        "programs in the zoo": len({row[0] for row in plain} & zoo),
        "programs noticed when annotated": sum(row[1] == "unannotated" and row[3] == "**nothing**" for row in plain),
    }


def published_scripts(found):
    """The scripts in the table of docs/found.md that have findings."""
    table = found.split("\n## In published scripts\n", 1)[-1].split("\n## ", 1)[0]
    scripts = [cells_of(line)[0].strip() for line in table.splitlines() if line.startswith("| ")][1:]
    return len([script for script in scripts if script != "the same"])


def healthy_programs(sources):
    """Rows of the lists of healthy programs, `std::vector<HealthyProgram> ..._programs() { ... }`."""
    lists = [body for text in sources
             for body in re.findall(r"^std::vector<HealthyProgram> \w+\(\) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)]
    return sum(body.count("{.name = ") for body in lists)


def wrong_counts(pages, counts):
    """Numbers that a page states, `<!-- count: NAME -->` right after each, and that are different now."""
    wrong = []
    for name, text in pages.items():
        for stated, what in re.findall(r"(\w+)<!-- count: ([\w ]+) -->", text):
            if what not in counts:
                wrong.append(f"{name}: nothing counts '{what}'")
            elif stated != str(counts[what]):
                wrong.append(f"{name}: {what}: {stated}, not {counts[what]}")
    return wrong


def present_after_all(zoo_page, scenarios):
    """Bugs that the zoo's page lists as missing and that have a scenario."""
    section = zoo_page.split("\n## What is not here\n", 1)[-1].split("\n## ", 1)[0]
    first_cells = [cells_of(line)[0] for line in section.splitlines() if line.startswith("| `")]
    named = {bug for cell in first_cells for bug in re.findall(r"`([\w-]+)`", cell)}
    return [f"docs/zoo.md: {bug} is listed as missing and has a scenario" for bug in sorted(named & scenarios)]


def markdown_files():
    """Path in the tree -> text, of every page of the repository."""
    pages = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith(SKIPPED)]
        for file in files:
            if file.endswith(".md"):
                path = Path(folder) / file
                pages[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    return pages


def self_test():
    """Each rule is shown a page that breaks it."""
    table = "| a | b |\n|---|:-:|\n| 1 | `x \\| y` |\n"
    assert not broken_tables("p", table) and not broken_tables("p", "```\n| a |\n```\n")
    assert broken_tables("p", table + "\n| 3 | 4 |\n") == ["p:5: this row is outside a table"]
    assert broken_tables("p", "text\n| 3 | 4 |\n| 5 | 6 |\n") == ["p:2: this row is outside a table"]
    assert broken_tables("p", table + "| 3 |\n| 4 | 5 | 6 |\n") == [
        "p:4: 1 cells in a table of 2 columns", "p:5: 3 cells in a table of 2 columns"]
    assert not long_sentences("p", "a b c. d\ne.\n- f g\n| a | b c d e f |\n```\na b c d e\n```\n", 3)
    assert long_sentences("p", "a b\nc d. e\n", 3) == ["p:1: a sentence of 4 words: a b c d...."]
    assert foreign_phrases("p", "It is mended.\n```\nmended\n```\n<!-- a: begin -->\nmended\n<!-- a: end -->\n") == [
        "p: 'mended': write fixed, repaired"]
    prose = {"docs/c.md": "`src/a.h` and `src/gone.cc`, `harness/gone/a.py`; not `elsewhere/a.h`, `a.h`, `src/a`"}
    assert missing_sources(prose, {"src/a.h"}.__contains__) == [
        "docs/c.md: harness/gone/a.py does not exist", "docs/c.md: src/gone.cc does not exist"]
    linked = {"docs/a.md": '# A `b`: c?\n<a id="x"></a>\n[1](#a-b-c) [2](b.md#x) [3](#x) [4](../README.md#y)\n',
              "docs/b.md": "## Y\n## Y\n[1](#y-1) [2](a.md#x)\n", "README.md": ""}
    assert missing_anchors(linked) == [
        "docs/a.md: docs/b.md has no heading #x", "docs/a.md: README.md has no heading #y"]
    advice = "\n## Advice\n\n| id | |\n|---|---|\n| `A-a` | 1 |\n| `A-c` | 1 |\n| `A-c` | 1 |\n\n## B\n| `A-b` | 1 |\n"
    assert unlisted_advices(advice, ['f("A-a")', 'g("A-b")']) == [
        "docs/laws.md: the table of advice has no A-b", "docs/laws.md: no law gives A-c",
        "docs/laws.md: lists A-c twice"]
    assert unlisted_pages("[a](a.md)", ["docs/a.md", "docs/how/b.md", "README.md", "docs/decisions/1.md"]) == [
        f"{INDEX}: does not link docs/how/b.md"]
    assert missing_commands("## lockstep run\n", ["run", "record"]) == ["docs/commands.md: has no section for record"]
    row = "| `{}` | {} | {} | {} |\n"
    programs = ("<!-- table: begin -->\n" + row.format("a", "unannotated", "x", "**nothing**") + "<!-- table: end -->\n"
                "<!-- scripts: begin -->\n" + row.format("a", "unannotated", "**nothing**", "")
                + row.format("a", "annotated", "law", "") + row.format("b", "unannotated", "**nothing**", "")
                + row.format("c", "unannotated", "advice A-c", "") + "<!-- scripts: end -->\n")
    counts = counts_of(programs, {"a", "d"})
    assert list(counts.values()) == [3, 2, 1, 1, 1, 1, 1, 1]
    stated = {"p": "3<!-- count: scripts -->, 4<!-- count: programs -->, 1<!-- count: people -->"}
    assert wrong_counts(stated, counts) == ["p: programs: 4, not 1", "p: nothing counts 'people'"]
    assert published_scripts("\n## In published scripts\n\n| a | b |\n|---|---|\n| x | 1 |\n| the same | 2 |\n") == 1
    listed = 'std::vector<HealthyProgram> a_programs() {\n  return {{.name = "A"}, {.name = "B"}};\n}\n{.name = "C"}\n'
    assert healthy_programs([listed, ""]) == 2
    absent = "\n## What is not here\n\n| bug | why |\n|---|---|\n| `a-b`, `c` | not `d` |\n"
    assert present_after_all(absent, {"a-b", "d"}) == ["docs/zoo.md: a-b is listed as missing and has a scenario"]


def main():
    """Checks every page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--self-test", action="store_true")
    if parser.parse_args().self_test:
        return self_test()

    pages = markdown_files()
    wrong = [one for name, text in pages.items() for one in broken_tables(name, text)]
    for name, text in pages.items():
        if not name.startswith(UNREAD):
            wrong += long_sentences(name, text) + foreign_phrases(name, text)
    today = {name: text for name, text in pages.items() if name not in RECORDED}
    wrong += missing_sources(today, lambda path: (ROOT / path).exists())
    wrong += missing_anchors(pages)
    rules = [path for room in ("src/laws", "harness") for path in (ROOT / room).rglob("*.cc")]
    wrong += unlisted_advices(pages["docs/laws.md"], [path.read_text(encoding="utf-8") for path in rules])
    wrong += unlisted_pages(pages.get(INDEX, ""), pages)
    command = (ROOT / "python" / "lockstep" / "command.py").read_text(encoding="utf-8")
    commands = sorted(set(re.findall(r'arguments\[:1\] == \["(\w+)"\]', command)))
    wrong += missing_commands(pages["docs/commands.md"], commands)
    scenarios = {path.stem.replace("_", "-") for path in (ROOT / "scenarios" / "zoo").glob("*.toml")}
    counts = counts_of(pages["docs/programs.md"], scenarios)
    counts["published scripts with findings"] = published_scripts(pages["docs/found.md"])
    programs = (ROOT / "tests" / "programs" / "healthy").glob("*.cc")
    counts["healthy programs"] = healthy_programs([path.read_text(encoding="utf-8") for path in programs])
    wrong += wrong_counts(pages, counts)
    wrong += present_after_all(pages["docs/zoo.md"], scenarios)
    for complaint in sorted(set(wrong)):
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
