#!/usr/bin/env python3
"""What the documentation names is there: scenarios, linked files, rows of tables; in the tree and installed.

    named_things.py LOCKSTEP --prefix PREFIX    checks everything
    named_things.py --self-test                 shows each rule a lie

PREFIX is where Lockstep was installed: scenarios and pages that the documentation names must be there too.
What the pages show and print is tested by pages.py, what they say about sources by page_rules.py.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
LESSONS = "scenarios/lessons/README.md"
SCENARIO_PATH = re.compile(r"\bscenarios/[\w./-]+\.toml\b")
INSTALLED = "/usr/local/"  # Where README says that Lockstep is, without another --prefix.


def run(words, folder, expected_code):
    """What a program prints. Stops if it exits with a different code."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": "1"}, timeout=280, check=False)
    if done.returncode != expected_code:
        raise SystemExit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def named_scenarios(pages):
    """Page -> the scenario files it names."""
    return {name: sorted(set(SCENARIO_PATH.findall(text))) for name, text in pages.items()}


def missing_paths(pages, exists):
    """Scenario files and linked files that pages name and that do not exist. `exists` takes a path in the tree."""
    wrong = []
    for name, files in named_scenarios(pages).items():
        wrong += [f"{name}: {file} does not exist" for file in files if not exists(file)]
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)#: ]+)(?:#[^)]*)?\)", text):
            target = os.path.normpath(Path(name).parent / link)
            if not exists(target):
                wrong.append(f"{name}: the link to {link} leads nowhere")
    return wrong


def missing_examples(pages, read):
    """Rows of walks through the sources, `| FILE | what | WORD, ... |`, whose file is not there or lacks a word.
    `read` takes a path in the tree, and returns the text or nothing."""
    wrong = []
    for name, text in pages.items():
        for file, rest in re.findall(r"^\| `([\w./-]+/\w+\.\w+)` \|(.*)\|$", text, re.MULTILINE):
            source = read(file)
            if source is None:
                wrong.append(f"{name}: {file} does not exist")
                continue
            cells = rest.split(" | ")
            words = re.findall(r"`([^`]+)`", cells[1]) if len(cells) == 2 else []
            wrong += [f"{name}: {file} has no {word}" for word in words if word not in source]
    return wrong


def rooms_entered_twice(name, text):
    """Walks of a page, one for each of its tables of files, that come back to a room they have left."""
    wrong = []
    for table in re.findall(r"^\| file \|[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)", text, re.MULTILINE):
        rooms = [str(Path(file).parent) for file in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE)]
        visits = [room for i, room in enumerate(rooms) if i == 0 or room != rooms[i - 1]]
        wrong += [f"{name}: a walk enters {room} again" for room in sorted({r for r in visits if visits.count(r) > 1})]
    return wrong


def too_long_to_read(name, text):
    """A page that promises ten minutes leaves four of them for its commands and for copying: at 200 words a minute, code
    and output included, it is read in six."""
    n_words = len(re.sub(r"<!--.*?-->|^```[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL).split())
    promises = "ten minutes" in text.split("\n", 1)[0].lower()
    return [f"{name}: has {n_words} words, too many for ten minutes"] if promises and n_words > 6 * 200 else []


def unlisted(page, text, files):
    """Files of a folder that its page does not link in its reading order."""
    order = text.split("\n## Reading order\n", 1)[-1].split("\n## ", 1)[0]
    return [f"{page}: has no place for {file}" for file in sorted(files) if f"]({file})" not in order]


def other_headers(text, headers):
    """Headers that the API page shows and that users cannot include, and the other way round."""
    shown = re.findall(r"^## `(\w+\.h)`$", text, re.MULTILINE)
    wrong = [f"docs/api.md: does not show {header}" for header in sorted(set(headers) - set(shown))]
    wrong += [f"docs/api.md: {header} is not in include/lockstep" for header in sorted(set(shown) - set(headers))]
    return wrong + [f"docs/api.md: shows {header} twice" for header in sorted(set(shown)) if shown.count(header) > 1]


def quoted_rows(readme, speed):
    """Rows of README's table of speeds that docs/speed.md does not have."""
    section = readme.split("\n## Speed\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [f"README.md: not in docs/speed.md: {row}" for row in rows if row not in speed.splitlines()]


def installed_differently(pages, prefix, lockstep):
    """What the documentation names and the installed tree lacks; one scenario is run from there."""
    share = prefix / "share"
    wrong = [f"{name}: {file} is not installed" for name, files in named_scenarios(pages).items()
             for file in files if not (share / "lockstep" / file).is_file()]
    places = {name: share / ("lockstep" if name.startswith("scenarios/") else "doc/lockstep") for name in pages}
    wrong += [f"{name} is not installed" for name, place in places.items() if not (place / name).is_file()]
    commands = re.findall(rf"`lockstep run ({INSTALLED}\S+)`", pages["README.md"])
    if not commands:
        wrong.append("README.md: runs no installed scenario")
    installed = prefix / "bin" / "lockstep"
    for path in commands:
        run([installed, "run", path.replace(INSTALLED, f"{prefix}/", 1), "--quiet"], prefix, 1)
    if run([installed, "--version"], prefix, 0) != run([lockstep, "--version"], prefix, 0):
        wrong.append("the installed command is another version")
    return wrong


def text_of(path):
    """What a file of the tree says, or nothing."""
    file = ROOT / path
    return file.read_text(encoding="utf-8") if file.is_file() else None


def self_test():
    """Each rule is shown a page that breaks it."""
    lies = {"docs/a.md": "see `scenarios/zoo/gone.toml` and [b](b.md)"}
    assert len(missing_paths(lies, lambda path: False)) == 2
    assert not missing_paths(lies, {"scenarios/zoo/gone.toml", "docs/b.md"}.__contains__)
    walk = {"docs/b.md": "| `src/a.h` | the class | `Law`, `reads` |\n| `src/b.h` | what is in `Law` |\n"}
    sources = {"src/a.h": "class Law {", "src/b.h": ""}
    assert missing_examples(walk, sources.get) == ["docs/b.md: src/a.h has no reads"]
    assert missing_examples(walk, {"src/b.h": ""}.get) == ["docs/b.md: src/a.h does not exist"]
    table = "| file | what |\n|---|---|\n| `src/a/x.h` | 1 |\n| `src/a/y.h` | 1 |\n| `src/b/z.h` | 1 |\n"
    assert not rooms_entered_twice("p", table)
    assert rooms_entered_twice("p", table + "| `src/a/y.h` | 2 |\n") == ["p: a walk enters src/a again"]
    assert not too_long_to_read("p", "# Ten minutes\n" + "word " * 1190)
    assert too_long_to_read("p", "# Ten minutes\n```cpp\n" + "word " * 1210 + "\n```\n")
    assert not too_long_to_read("p", "# An hour\n" + "word " * 1210)
    order = "\n## Reading order\n[x](x.toml)\n## Rest\n[y](y.toml)\n"
    assert unlisted("p", order, ["x.toml", "y.toml"]) == ["p: has no place for y.toml"]
    shown = "## `a.h`\n## `b.h`\n## `b.h`\n"
    assert other_headers(shown, ["a.h", "c.h"]) == [
        "docs/api.md: does not show c.h", "docs/api.md: b.h is not in include/lockstep", "docs/api.md: shows b.h twice"]
    speed = "| a | 1 |\n"
    assert not quoted_rows("\n## Speed\n\n| a | 1 |\n", speed)
    assert quoted_rows("\n## Speed\n\n| a | 2 |\n", speed)


def main():
    """Checks, or rewrites."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep", nargs="?", type=Path)
    parser.add_argument("--prefix", type=Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()

    pages = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
             for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / LESSONS]}
    wrong = missing_paths(pages, lambda path: (ROOT / path).exists())
    walks = {name: text for name, text in pages.items() if name.startswith(("docs/how_to/", "docs/architecture"))}
    wrong += missing_examples(walks, text_of)
    wrong += rooms_entered_twice("docs/architecture.md", pages["docs/architecture.md"])
    wrong += too_long_to_read("docs/tutorial.md", pages["docs/tutorial.md"])
    lessons = ROOT / "scenarios" / "lessons"
    wrong += unlisted(LESSONS, pages[LESSONS], [file.name for file in lessons.glob("*.toml")])
    wrong += other_headers(pages["docs/api.md"], [path.name for path in (ROOT / "include" / "lockstep").glob("*.h")])
    wrong += quoted_rows(pages["README.md"], pages["docs/speed.md"])
    wrong += installed_differently(pages, arguments.prefix.resolve(), arguments.lockstep.resolve())
    for complaint in wrong:
        print(complaint)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
