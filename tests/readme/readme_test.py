#!/usr/bin/env python3
"""README.md is true: what it shows is written to files, built, run, and compared with what it shows.

    readme_test.py LOCKSTEP --prefix PREFIX [--prefix-path PATHS] [--generator G]   checks everything
    readme_test.py LOCKSTEP --prefix PREFIX --update                                rewrites the outputs
    readme_test.py --self-test                                                      shows each rule a lie

Blocks are found by the line `<!-- readme: NAME -->` above them. PREFIX is where Lockstep was installed: the C++
program is built against that and nothing else, and scenarios and pages that the documentation names must be there.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BLOCK = r"<!-- readme: {} -->\n```\w*\n(.*?)```\n"
SCENARIO_PATH = re.compile(r"\bscenarios/[\w./-]+\.toml\b")
INSTALLED = "/usr/local/"  # Where README says that Lockstep is, without another --prefix.


def block(text, name):
    """The text between the fences of one marked block."""
    found = re.search(BLOCK.format(re.escape(name)), text, re.DOTALL)
    if not found:
        raise SystemExit(f"README.md: no block '{name}'")
    return found.group(1)


def with_block(text, name, content):
    """README with the content of one block replaced."""
    old = block(text, name)
    start = re.search(BLOCK.format(re.escape(name)), text, re.DOTALL).start(1)
    return text[:start] + content + text[start + len(old):]


def masked(text):
    """A trace digest covers call sites, line numbers of the library included."""
    return re.sub(r"trace digest [0-9a-f]{16}", "trace digest (16 digits)", text)


def run(words, folder, expected_code):
    """What a program prints. Stops if it exits with a different code."""
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "NO_COLOR": "1"}, timeout=280, check=False)
    if done.returncode != expected_code:
        raise SystemExit(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def scenario_output(text, lockstep, folder):
    """What README's scenario prints."""
    (folder / "hello.toml").write_text(block(text, "hello.toml"), encoding="utf-8")
    return "$ lockstep run hello.toml\n" + run([lockstep, "run", "hello.toml"], folder, 1)


def program_output(text, arguments, folder):
    """What README's program prints, built as README says, against the installed Lockstep."""
    for name in ("main.cc", "CMakeLists.txt"):
        (folder / name).write_text(block(text, name), encoding="utf-8")
    paths = ";".join(filter(None, [str(arguments.prefix), arguments.prefix_path]))
    run(["cmake", "-S", ".", "-B", "build", "-G", arguments.generator, f"-DCMAKE_PREFIX_PATH={paths}",
         "-DCMAKE_BUILD_TYPE=Release"], folder, 0)
    run(["cmake", "--build", "build"], folder, 0)
    return "$ ./hello\n" + run([folder / "build" / "hello"], folder, 1)


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
    wrong += [f"{name} is not installed" for name in pages if not (share / "doc" / "lockstep" / name).is_file()]
    commands = re.findall(rf"`lockstep run ({INSTALLED}\S+)`", pages["README.md"])
    if not commands:
        wrong.append("README.md: runs no installed scenario")
    installed = prefix / "bin" / "lockstep"
    for path in commands:
        run([installed, "run", path.replace(INSTALLED, f"{prefix}/", 1), "--quiet"], prefix, 1)
    if run([installed, "--version"], prefix, 0) != run([lockstep, "--version"], prefix, 0):
        wrong.append("the installed command is another version")
    return wrong


def self_test():
    """Each rule is shown a page that breaks it."""
    page = "a\n<!-- readme: x -->\n```\nold\n```\nb\n"
    assert block(page, "x") == "old\n"
    assert block(with_block(page, "x", "new\n"), "x") == "new\n"
    assert masked("trace digest 0123456789abcdef,") == "trace digest (16 digits),"
    lies = {"docs/a.md": "see `scenarios/zoo/gone.toml` and [b](b.md)"}
    assert len(missing_paths(lies, lambda path: False)) == 2
    assert not missing_paths(lies, {"scenarios/zoo/gone.toml", "docs/b.md"}.__contains__)
    speed = "| a | 1 |\n"
    assert not quoted_rows("\n## Speed\n\n| a | 1 |\n", speed)
    assert quoted_rows("\n## Speed\n\n| a | 2 |\n", speed)


def main():
    """Checks, or rewrites."""
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep", nargs="?", type=Path)
    parser.add_argument("--prefix", type=Path)
    parser.add_argument("--prefix-path", default="")
    parser.add_argument("--generator", default="Ninja")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()

    text = README.read_text(encoding="utf-8")
    lockstep = arguments.lockstep.resolve()
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        outputs["output of hello.toml"] = scenario_output(text, lockstep, Path(folder))
        if arguments.prefix:
            arguments.prefix = arguments.prefix.resolve()
            outputs["output of main.cc"] = program_output(text, arguments, Path(folder))
    wrong = []
    for name, output in outputs.items():
        if masked(block(text, name)) == masked(output):
            continue
        text = with_block(text, name, output)
        wrong.append(f"README.md: the {name} is:\n{output}")
    if arguments.update:
        README.write_text(text, encoding="utf-8")
        return 0

    pages = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
             for page in [README, *(ROOT / "docs").rglob("*.md")]}
    wrong += missing_paths(pages, lambda path: (ROOT / path).exists())
    wrong += quoted_rows(text, pages["docs/speed.md"])
    if arguments.prefix:
        wrong += installed_differently(pages, arguments.prefix, lockstep)
    for complaint in wrong:
        print(complaint)
    if wrong:
        print("tests/readme/readme_test.py LOCKSTEP --prefix PREFIX --update rewrites the outputs")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
