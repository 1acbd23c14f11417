"""The test requires that the sample reports are valid, and that every change that the schema forbids is
detected: by a validator of JSON Schema, and by the command that reads reports."""

import argparse
import copy
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema


def fields(schema, path=(), required=True):
    """Yields (path, schema, whether it is required) for every value that the schema describes. '*' in a path
    is any item of an array or any value of a map."""
    yield path, schema, required
    for name, child in schema.get("properties", {}).items():
        yield from fields(child, path + (name,), name in schema["required"])
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], path + ("*",))


def places(value, path):
    """Yields (container, key) for the values of a report at the path of a field."""
    head, rest = path[0], path[1:]
    if head == "*":
        keys = list(value) if isinstance(value, dict) else range(len(value))
    else:
        keys = [head]
    for key in keys:
        if isinstance(value, dict) and key not in value:
            continue  # an optional field
        if rest:
            yield from places(value[key], rest)
        else:
            yield value, key


def wrong_values(schema):
    """Yields values that the field must not have, one value for each keyword of its schema."""
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    examples = {"string": "text", "number": 0.5, "object": {}, "array": [], "boolean": True}
    for name, example in examples.items():
        if name not in types:
            yield example
    if "null" not in types:
        yield None
    if "enum" in schema:
        yield "maybe"
    if "const" in schema:
        yield schema["const"] + 1 if isinstance(schema["const"], int) else "other"
    if "minimum" in schema:
        yield schema["minimum"] - 1
    if "maximum" in schema:
        yield schema["maximum"] + 1
    if schema.get("minLength"):
        yield ""
    if "minItems" in schema:
        yield from ([], [0.0] * (schema["maxItems"] + 1))
    if "pattern" in schema:
        yield from ("", "-1", "1/0", "0/1", "01", " 1", "1e3")


def broken_reports(schema, report):
    """Yields a description of each change that makes the report invalid, and the changed report."""
    for path, field, required in fields(schema):
        if not path:
            continue
        if "description" not in field:
            sys.exit(f"{'.'.join(path)}: the schema does not describe it")
        for wrong in wrong_values(field):
            broken = copy.deepcopy(report)
            found = list(places(broken, path))
            for container, key in found[:1]:
                container[key] = wrong
                yield f"{'.'.join(path)} = {wrong!r}", broken
        if not list(places(report, path)):
            sys.exit(f"{'.'.join(path)}: the sample has no such field")
        if required and "*" not in path[-1:]:
            broken = copy.deepcopy(report)
            for container, key in list(places(broken, path))[:1]:
                del container[key]
                yield f"{'.'.join(path)} removed", broken
        if field.get("additionalProperties") is False:
            broken = copy.deepcopy(report)
            for container, key in list(places(broken, path))[:1]:
                container[key]["unknown"] = 1
                yield f"{'.'.join(path)} with an unknown field", broken
    broken = copy.deepcopy(report)
    broken["unknown"] = 1
    yield "an unknown field", broken


def reading_problem(fairdraw, what, broken, folder):
    """Returns the fault in the way `fairdraw report` treats an invalid report; None if it rejects the report
    and gives the reason."""
    path = Path(folder) / "broken.json"
    path.write_text(json.dumps(broken), encoding="utf-8")
    result = subprocess.run([fairdraw, "report", str(path), str(Path(folder) / "rendered")],
                            capture_output=True, text=True)
    if result.returncode == 2 and "report: " in result.stderr:
        return None
    return f"read by the command line, with exit code {result.returncode}: {what}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schema", type=Path, required=True)
    parser.add_argument("--samples", required=True, help="the program that prints the samples")
    parser.add_argument("--fairdraw", required=True, help="the command line")
    arguments = parser.parse_args()

    schema = json.loads(arguments.schema.read_text(encoding="utf-8"))
    validator_class = jsonschema.Draft202012Validator
    validator_class.check_schema(schema)
    validator = validator_class(schema)
    output = subprocess.run([arguments.samples], check=True, capture_output=True).stdout
    samples = {name: json.loads(sample["report"]) for name, sample in json.loads(output).items()}

    problems = []
    for name, report in samples.items():
        for error in validator.iter_errors(report):
            problems.append(f"{name}: {error.json_path}: {error.message}")
    # Keys must be in the order of the schema, which is the order of the format.
    for name, report in samples.items():
        if list(report) != [key for key in schema["properties"] if key in report]:
            problems.append(f"{name}: top-level keys are out of order: {list(report)}")
        for case in report["cases"]:
            known = schema["properties"]["cases"]["items"]["properties"]
            if list(case) != [key for key in known if key in case]:
                problems.append(f"{name}: keys of a case are out of order: {list(case)}")
    broken_count = 0
    with tempfile.TemporaryDirectory() as folder:
        if reading_problem(arguments.fairdraw, "small", samples["small"], folder) is None:
            problems.append("the command line refuses the sample itself")
        for what, broken in broken_reports(schema, samples["small"]):
            broken_count += 1
            if validator.is_valid(broken):
                problems.append(f"not found: {what}")
            problem = reading_problem(arguments.fairdraw, what, broken, folder)
            problems += [problem] if problem else []
    # Each field of the schema gives at least one invalid report, in which the field is missing.
    if broken_count < sum(1 for _ in fields(schema)):
        problems.append(f"only {broken_count} broken reports were made")
    for problem in problems:
        print(problem)
    print(f"{len(samples)} reports, {broken_count} broken ones, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
