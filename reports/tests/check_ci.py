"""The test checks the files of reports/ci and .github/workflows. Every fairdraw command and option in them
exists, and their YAML is valid. Actions are pinned by the hash of a commit, a command that writes a report is
followed by a command that requires the report, and jobs that run the program get the program that another job
has built."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

COMMAND = re.compile(r'(?:\./fairdraw|"\$FAIRDRAW")\s+(\w+)|(reports/ci/nightly|python/wheels/\w+|\.ci/run)')
LAUNCHER_VERBS = {"build", "test"}
PROGRAM = "build/release/suites/fairdraw"
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")
LOCAL = re.compile(r"uses: \./")
OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z-]+)")


def scripts(node):
    """Yields the texts of all "run" and "script" keys below `node`."""
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


def problems_of_pins(name, text):
    """Finds actions that are not pinned: a tag or a branch can be moved to other code after somebody has read
    the code."""
    lines = [line.strip().removeprefix("- ") for line in text.splitlines()]
    return [f"{name}: not pinned by the hash of a commit, with its version as a comment: {line}"
            for line in lines
            if line.startswith("uses:") and not PINNED.match(line) and not LOCAL.match(line)]


def problems_of_report(name, texts):
    """Requires that a command that writes a report names its run, and that a later command requires the
    report of that run. A report left by an earlier run could be taken for the report of this run."""
    commands = []  # entries are (verb, line, script that contains it)
    for text in texts:
        for line in text.replace("\\\n", " ").splitlines():
            commands += [(groups[0], line, text) for groups in COMMAND.findall(line) if groups[0]]
    problems = []
    for place, (verb, line, text) in enumerate(commands):
        if verb not in ("verify", "merge"):
            continue
        if "--run-id" not in text if verb == "verify" else "--require-run-id" not in line:
            problems.append(f"{name}: names no run: {line.strip()}")
        if not any(later == "report" and "--require-run-id" in its_line
                   for later, its_line, _ in commands[place + 1:]):
            problems.append(f"{name}: nothing requires the report of: {line.strip()}")
    return problems


def jobs_of(tree):
    """Returns the jobs of a GitHub workflow or a GitLab pipeline by name."""
    if "jobs" in tree:
        return tree["jobs"]
    return {name: job for name, job in tree.items() if isinstance(job, dict) and "script" in job}


def steps_that_use(job, action):
    return [step for step in job.get("steps", []) if step.get("uses", "").startswith(action)]


def programs_run(job):
    """Returns the programs that the job's fairdraw commands run: a file, or None for a program that the
    commands build. The result is empty for a job without such commands."""
    programs = {step.get("with", {}).get("program")
                for step in steps_that_use(job, "./reports/ci/verify")}
    verbs = {verb for script in scripts(job) for verb, _ in COMMAND.findall(script) if verb}
    if verbs - LAUNCHER_VERBS:
        programs.add(job.get("env", job.get("variables", {})).get("FAIRDRAW_PROGRAM"))
    return programs


def places_of_the_program(builder, job):
    """Returns the path of the program in a job that gets the program from `builder`; empty if the job does
    not get it."""
    needs = job.get("needs", [])
    if builder["name"] not in ([needs] if isinstance(needs, str) else needs):
        return set()
    if PROGRAM in builder["job"].get("artifacts", {}).get("paths", []):  # GitLab preserves paths
        return {PROGRAM}
    artifacts = {step["with"]["name"] for step in steps_that_use(builder["job"],
                                                                 "actions/upload-artifact@")
                 if step["with"]["path"] == PROGRAM}
    return {step["with"]["path"] + "/fairdraw"
            for step in steps_that_use(job, "actions/download-artifact@")
            if step["with"].get("name") in artifacts}


def problems_of_building(name, tree):
    """Requires that all jobs use one build, because a build takes minutes and the bytes of two builds may
    differ."""
    jobs = jobs_of(tree)
    runners = {key: job for key, job in jobs.items() if programs_run(job)}
    builders = [{"name": key, "job": job} for key, job in jobs.items()
                if any("./fairdraw build program" in script for script in scripts(job))]
    if len(runners) < 2 and not builders:
        return []
    if len(builders) != 1:
        return [f"{name}: {len(runners)} jobs run the program, and {len(builders)} build it"]
    return [f"{name}: job {key} does not run the program that job {builders[0]['name']} built"
            for key, job in runners.items()
            if not programs_run(job) <= places_of_the_program(builders[0], job)]


def problems_of(name, text, help_of):
    """Returns the problems of a file. help_of(verb) returns the verb's help, or None if there is no such
    verb."""
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"{name}: {error}"]
    problems = problems_of_pins(name, text) + problems_of_report(name, scripts(tree))
    problems += problems_of_building(name, tree)
    for script in scripts(tree):
        if "${{" in script:
            problems.append(f"{name}: an expression in a script, which a name could break out of")
        problems += problems_of_script(name, script, help_of)
    found = any(COMMAND.search(script) for script in scripts(tree))
    return problems or ([] if found else [f"{name}: runs nothing of ours"])


def problems_of_script(name, text, help_of):
    """Returns the problems of a shell script; checks each fairdraw command with the options on its lines."""
    problems = []
    for script in re.split(r"\n(?=\S)", text):
        verbs = ["".join(groups) for groups in COMMAND.findall(script)]
        helps = [help_of(verb) for verb in verbs]
        problems += [f"{name}: no verb {verb}" for verb, text in zip(verbs, helps) if text is None]
        for option in OPTION.findall(script) if verbs else []:
            if not any(text and re.search(rf"{option}\b", text) for text in helps):
                problems.append(f"{name}: {verbs} have no {option}")
    return problems


def problems_of_requirement(action, fairdraw):
    """Runs the action's step that requires the report in a shell. The step must fail if there is no report,
    or if the report is of another run; it must pass on the report of its own run."""
    tree = yaml.safe_load(action.read_text(encoding="utf-8"))
    scripts_of_steps = [step["run"] for step in tree["runs"]["steps"]
                        if "--require-run-id" in step.get("run", "")]
    if len(scripts_of_steps) != 1:
        return [f"{action.name}: {len(scripts_of_steps)} steps require a report"]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, REPORT=folder, RUN_ID="7", FAIRDRAW=fairdraw)

        def code():
            return subprocess.run(["bash", "-e", "-c", scripts_of_steps[0]], cwd=folder,
                                  env=environment, capture_output=True).returncode

        def verify(run_id):
            subprocess.run([fairdraw, "verify", "--suite", "smoke", "--sampler", "cpu", "--case",
                            "mask/*/v31/*", "--report", folder, "--run-id", run_id],
                           cwd=folder, check=True, capture_output=True)

        codes = [code()]
        verify("6")
        codes.append(code())
        verify("7")
        codes.append(code())
    return [] if codes == [2, 2, 0] else [f"{action.name}: no report, another, this one: {codes}"]


def problems_of_slurm(folder, help_of):
    # in the order in which a run uses the scripts
    jobs = [folder / name for name in ("verify.sbatch", "merge.sbatch")]
    problems = problems_of_report("slurm", [job.read_text(encoding="utf-8") for job in jobs])
    for job in jobs:
        problems += problems_of_script(job.name, job.read_text(encoding="utf-8"), help_of)
        if not COMMAND.search(job.read_text(encoding="utf-8")):
            problems.append(f"{job.name}: runs nothing of ours")
        if not re.search(r"^#SBATCH --time=", job.read_text(encoding="utf-8"), re.MULTILINE):
            problems.append(f"{job.name}: gives Slurm no options")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--folder", type=Path, help="reports/ci")
    what.add_argument("--slurm", type=Path, help="a folder of Slurm's jobs, and nothing else")
    parser.add_argument("--fairdraw", required=True, help="the command line")
    arguments = parser.parse_args()

    launcher = Path(__file__).resolve().parents[2] / "fairdraw"

    def help_of(verb):
        if verb == ".ci/run":  # skipped: this script takes no options, and would run
            return ""
        command = [arguments.fairdraw, verb, "--help"]
        if "/" in verb:  # a script
            command = [str(launcher.parent / verb), "--help"]
        elif verb in LAUNCHER_VERBS:
            command = [str(launcher), "--help"]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.stdout if result.returncode == 0 else None

    if arguments.slurm:
        problems = problems_of_slurm(arguments.slurm, help_of)
        print(*problems, sep="\n")
        return 1 if problems else 0
    nightly = arguments.folder / "nightly"
    workflows = launcher.parent / ".github" / "workflows"
    files = sorted(arguments.folder.rglob("*.yml")) + sorted(workflows.glob("*.yml"))
    problems = [] if len(files) == 7 else [f"{len(files)} files"]
    script = nightly.read_text(encoding="utf-8")
    problems += problems_of_script(nightly.name, script, help_of)
    problems += problems_of_report(nightly.name, [script])
    for path in files:
        problems += problems_of(path.name, path.read_text(encoding="utf-8"), help_of)
    problems += problems_of_requirement(arguments.folder / "verify" / "action.yml",
                                        arguments.fairdraw)
    # Wrong inputs show that the checks can fail.
    pinned = "actions/checkout@" + "1a" * 20 + "  # v4.2.2"
    right = f"""job:
  uses: {pinned}
  script:
    - ./fairdraw verify --suite gate --report x --run-id "$ID"
    - ./fairdraw report x/report.json x --require-run-id "$ID"
"""
    for wrong in (
        right.replace("verify", "prove"),
        right.replace("--suite", "--suit-of"),
        right.replace("./fairdraw", "./other"),
        right.replace("gate", "${{ x }}"),
        right.replace(pinned, "actions/checkout@v4"),
        right.replace(pinned, pinned.removesuffix("  # v4.2.2")),
        right.replace(pinned, pinned.replace("1a1a", "", 1)),
        right.replace(' --run-id "$ID"', ""),
        right.replace(' --require-run-id "$ID"', ""),
        right.replace("fairdraw report", "fairdraw merge"),
        "\n".join(right.splitlines()[:-1]),
        right + "  :: [",
    ):
        if problems_of("right", right, help_of) or not problems_of("wrong", wrong, help_of):
            problems.append(f"accepted: {wrong!r}")
    handed_on = f"""program:
  script: [./fairdraw build program]
  artifacts:
    paths: [{PROGRAM}]
verify:
  needs: [program]
  variables:
    FAIRDRAW_PROGRAM: {PROGRAM}
  script:
    - ./fairdraw verify --report x --run-id "$ID"
    - ./fairdraw report x/report.json x --require-run-id "$ID"
"""
    for wrong in (
        handed_on.replace("needs: [program]", "needs: []"),
        handed_on.replace(f"FAIRDRAW_PROGRAM: {PROGRAM}", "FAIRDRAW_PROGRAM: fairdraw"),
        handed_on.replace(f"paths: [{PROGRAM}]", "paths: [x]"),
        handed_on.replace("  variables:\n    FAIRDRAW_PROGRAM", "  x:\n    FAIRDRAW_PROGRAM"),
        handed_on.replace("./fairdraw build program", "./fairdraw list profiles"),
    ):
        if problems_of("right", handed_on, help_of) or not problems_of("wrong", wrong, help_of):
            problems.append(f"accepted: {wrong!r}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
