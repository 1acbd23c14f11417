"""Compares docs/commands with the help page that the program prints for every verb. ./fairdraw shows these
pages before anything has been built.

Usage: help_pages.py FAIRDRAW_BINARY REPOSITORY [--store]

Without --store, the exit code is 1 if a page is missing, belongs to no verb, or differs from the program's
page. Spaces and upper case are ignored, because they differ between versions of the command-line parser.
"""

import pathlib
import subprocess
import sys


def printed(binary, *words):
    return subprocess.run([binary, *words], capture_output=True, text=True, timeout=60,
                          check=True).stdout


def verbs_of(binary):
    """Returns the names in the program's list of verbs."""
    lines = printed(binary, "--help").split("Subcommands:\n", 1)[1].splitlines()
    return [line.split()[0] for line in lines[: lines.index("")]]


def main():
    binary, root = sys.argv[1], pathlib.Path(sys.argv[2])
    folder = root / "docs" / "commands"
    pages = {verb + ".txt": printed(binary, verb, "--help") for verb in verbs_of(binary)}
    stored = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if sys.argv[3:] == ["--store"]:
        folder.mkdir(parents=True, exist_ok=True)
        for name in stored - pages.keys():
            (folder / name).unlink()
        for name, page in pages.items():
            (folder / name).write_text(page, encoding="utf-8")
        return 0
    wrong = [f"{name}: is no verb's page" for name in sorted(stored - pages.keys())]
    wrong += [f"{name}: is missing" for name in sorted(pages.keys() - stored)]
    for name in sorted(stored & pages.keys()):
        text = (folder / name).read_text(encoding="utf-8")
        if text.lower().split() != pages[name].lower().split():
            wrong.append(f"{name}: is not what the program prints")
    for line in wrong:
        print("docs/commands/" + line)
    if wrong:
        print("store them with: python3 suites/command/tests/help_pages.py "
              "build/release/suites/fairdraw . --store")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
