"""The test reads the sample reports as page.js draws them, without a browser. Node.js runs the script on a
document that page_test.js looks at, and Python's parser reads the result.

Exit codes: 0 if all checks passed; 1 if some failed; 77 if there is no Node.js here (skipped).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_pages import drawn_problems

SKIPPED = 77


def node(venv):
    """Returns the Node.js of the machine, or the one inside Playwright."""
    brought = venv.glob("lib/python*/site-packages/playwright/driver/node") if venv else []
    return shutil.which("node") or next(map(str, brought), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", required=True, help="the program that writes the sample reports")
    parser.add_argument("--script", required=True, help="page.js")
    parser.add_argument("--venv", type=Path, help="the environment that has Playwright, if any")
    arguments = parser.parse_args()
    program = node(arguments.venv)
    if program is None:
        print("skipped: no Node.js; ./fairdraw test --all installs one with Playwright")
        return SKIPPED
    problems = []
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([arguments.samples, name], check=True)
        test = Path(__file__).with_name("page_test.js")
        if subprocess.run([program, test, arguments.script, name], check=False).returncode != 0:
            problems.append("page_test.js")
        for page in sorted(Path(name).glob("*/drawn.html")):
            report = json.loads((page.parent / "report.json").read_text(encoding="utf-8"))
            html = page.read_text(encoding="utf-8")
            problems += [f"{page.parent.name}: {problem}" for problem in drawn_problems(html, report)]
            if page.parent.name != "small":
                continue
            # Invalid pages show that the checks can fail.
            for spoiled in ("<script src=x></script>", "<b onclick=x></b>", "</p>", "\u202e"):
                if not drawn_problems(html.replace("</main>", spoiled + "</main>"), report):
                    problems.append(f"{page.parent.name}: a page with {spoiled!r} was accepted")
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
