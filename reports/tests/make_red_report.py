"""Makes the picture docs/pictures/red-report.png: the beginning of a report in which a sampler failed.

The sampler is a mutant with a bug that real samplers have had. The picture shows the head of the page and the
card of the first cause. The picture leaves out the table of contents, and the card's change to make, which
the head of the page has.

Usage: make_red_report.py FAIRDRAW_BINARY PICTURE [VENV]

  VENV: the environment that has Playwright (./fairdraw test --all makes build/browser-venv)

Exit codes: 0 if the picture was made; 1 if not; 77 if there is no browser or no Playwright here (skipped).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import browser

MUTANT = "mutant:topp-drops-crossing"
SKIPPED = 77
MAX_BYTES = 200_000
WIDTH = 960
LEFT_OUT = ["nav.contents", "#causes .lead", "article .change"]
MARGIN = 8  # pixels shown below the first card


def main():
    binary, picture = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    browser.enter_venv(Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    missing = browser.missing("playwright")
    if missing:
        print(f"skipped: {', '.join(missing)} not installed; ./fairdraw test --all installs them")
        sys.exit(SKIPPED)
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder:
        # The report is not in the repository, because it would change with every commit.
        run = subprocess.run([binary, "verify", "--suite", "smoke", "--sampler", MUTANT, "--seed", "1"],
                             cwd=folder, check=False, capture_output=True, text=True)
        if run.returncode != 1:
            sys.exit(f"{MUTANT} gave exit code {run.returncode}, not 1:\n{run.stdout}{run.stderr}")
        with sync_playwright() as playwright:
            window = browser.launch(playwright)
            page = window.new_page(viewport={"width": WIDTH, "height": 2000}, color_scheme="light")
            page.goto((Path(folder) / "fairdraw-report" / "index.html").as_uri())
            for left_out in LEFT_OUT:
                page.evaluate(f"document.querySelectorAll('{left_out}').forEach((e) => e.remove())")
            box = page.locator("article").first.bounding_box()
            height = min(2000, box["y"] + box["height"] + MARGIN)
            picture.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
            window.close()
    size = picture.stat().st_size
    print(f"{picture.name}: {WIDTH} x {height:.0f} pixels, {size} bytes")
    if size > MAX_BYTES:
        sys.exit(f"{picture.name} has {size} bytes; allowed: {MAX_BYTES}")


if __name__ == "__main__":
    main()
