#!/usr/bin/env python3
"""Opens HTML reports in a headless Chromium: nothing may appear on its console, in light and in dark.

Not run, and said so, where there is no browser.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NOT_RUN = 77  # What the test runner counts as "not run", never as passed.
LIGHT, DARK = "--blink-settings=preferredColorScheme=1", "--blink-settings=preferredColorScheme=0"


def open_page(browser, path, *options):
    """What the browser made of the page, and the lines on its console."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
             f"--user-data-dir={profile}", "--dump-dom", *options, f"file://{path}"],
            capture_output=True, text=True, timeout=120)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def main():
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("not run: no browser")
        sys.exit(NOT_RUN)
    with tempfile.TemporaryDirectory() as name:
        page = Path(name) / "page.html"
        done = subprocess.run(
            [sys.argv[1], "test", str(ROOT / "scenarios/zoo/two_comm_cycle.toml"),
             str(ROOT / "scenarios/lessons/weights_2_and_200.toml"), "--report", str(page)], capture_output=True)
        assert done.returncode == 0, done.stderr
        for scheme in (LIGHT, DARK):
            shown, complaints = open_page(browser, page, scheme)
            assert "Who waits for whom" in shown and "replicas-equal" in shown, "the page is shown"
            assert not complaints, complaints
        # The same page with a script in it: the page's own policy must refuse it, aloud.
        page.write_text(page.read_text(encoding="utf-8").replace("</main>", "<script>1</script></main>"),
                        encoding="utf-8")
        _, complaints = open_page(browser, page)
        assert any("Content Security Policy" in line for line in complaints), "a forbidden script is noticed"
    print("no complaints on the console, in light and in dark")


main()
