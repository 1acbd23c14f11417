"""The files of reports/ci: every verb and option of ours that they name exists, YAML is YAML."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import yaml

COMMAND = re.compile(r'(?:\./fairdraw|"\$FAIRDRAW")\s+(\w+)|reports/ci/(nightly)')
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")


def scripts(node):
    """The texts of all "run" and "script" keys below `node`."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "run":
                yield value
            elif key == "script":
                yield "\n".join(value)
            else:
                yield from scripts(value)
    elif isinstance(node, list):
        for value in node:
            yield from scripts(value)


def problems_of(name, text, help_of):
    """help_of(verb): its help, or None where there is no such verb."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"{name}: {error}"]
    problems = []
    for script in scripts(tree):
        if "${{" in script:
            problems.append(f"{name}: an expression in a script, which a name could break out of")
        problems += problems_of_script(name, script, help_of)
    found = any(COMMAND.search(script) for script in scripts(tree))
    return problems or ([] if found else [f"{name}: runs nothing of ours"])


def problems_of_script(name, text, help_of):
    """The same of a shell script: each command of ours with the options on its lines."""
    problems = []
    for script in re.split(r"\n(?=\S)", text):
        verbs = ["".join(groups) for groups in COMMAND.findall(script)]
        helps = [help_of(verb) for verb in verbs]
        problems += [f"{name}: no verb {verb}" for verb, text in zip(verbs, helps) if text is None]
        for option in OPTION.findall(script) if verbs else []:
            if not any(text and re.search(rf"{option}\b", text) for text in helps):
                problems.append(f"{name}: {verbs} have no {option}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="reports/ci")
    parser.add_argument("--fairdraw", required=True, help="the command line")
    arguments = parser.parse_args()

    nightly = arguments.folder / "nightly"
    launcher = arguments.folder.parent.parent / "fairdraw"

    def help_of(verb):
        command = [arguments.fairdraw, verb, "--help"]
        if verb == "nightly":
            command = [str(nightly), "--help"]
        elif verb == "test":  # the launcher's own
            command = [str(launcher), "--help"]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.stdout if result.returncode == 0 else None

    files = sorted(arguments.folder.rglob("*.yml"))
    problems = [] if len(files) == 4 else [f"{len(files)} files"]
    problems += problems_of_script(nightly.name, nightly.read_text(encoding="utf-8"), help_of)
    for path in files:
        problems += problems_of(path.name, path.read_text(encoding="utf-8"), help_of)
    # The check must be able to fail.
    right = "job:\n  script:\n    - ./fairdraw verify --suite gate\n"
    for wrong in (
        right.replace("verify", "prove"),
        right.replace("--suite", "--suit-of"),
        right.replace("./fairdraw", "./other"),
        right.replace("gate", "${{ x }}"),
        right + "  :: [",
    ):
        if problems_of("right", right, help_of) or not problems_of("wrong", wrong, help_of):
            problems.append(f"accepted: {wrong!r}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
