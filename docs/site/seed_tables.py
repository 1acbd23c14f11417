#!/usr/bin/env python3
"""Writes the tables of docs/seeds.md from the records of the gate's runs.

`python -m fairdraw engines seeds` makes python/engines/seeds.json, and `python -m fairdraw engines
matrix` makes python/engines/conformance.json.

Usage: seed_tables.py REPOSITORY
"""

import json
import pathlib
import re
import sys

PAGE = "docs/seeds.md"
#: Engines of conformance.json that draw with the engine's package, with the names that users know.
PACKAGES = {
    "vllm_package": "vLLM, V1, PyTorch path",
    "vllm_triton": "vLLM, V1, Triton kernel",
    "vllm_v2": "vLLM, model runner V2",
    "max_cpu": "MAX on the CPU",
    "llamacpp": "llama.cpp",
    "hf": "transformers",
    "flashinfer_probs": "FlashInfer, probabilities",
    "flashinfer_logits": "FlashInfer, logits",
}
NO_SEEDS = "has no per-request seeds"
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def row(cells):
    return "| " + " | ".join(cells) + " |"


def table(header, rows):
    return [row(header), "|" + "---|" * len(header), *map(row, rows)]


def linked(engine, sources):
    links = ", ".join(f"[{number}]({url})" for number, url in enumerate(sources, 1))
    return f"{engine} ({links})" if links else engine


def answers(seeds, _):
    """Returns a table with one row per rule and one column per question."""
    return table(["engine", *seeds["questions"].values()],
                 [[rule["engine"], *(rule["answers"][name]["tokens"] for name in seeds["questions"])]
                  for rule in seeds["rules"]])


def rules(seeds, _):
    return table(["engine (sources)", "numbers that decide a draw"],
                 [[linked(rule["engine"], rule["sources"]), rule["rule"]] for rule in seeds["rules"]])


def failures(seeds, _):
    """Lists the gate's message for each answer that comes from a failed case."""
    lines = []
    for rule in seeds["rules"]:
        for name, question in seeds["questions"].items():
            failed = [case for case in rule["answers"][name]["cases"] if case["verdict"] == "failed"]
            tokens = rule["answers"][name]["tokens"]
            state = "the same" if tokens == "same" else tokens
            lines += [f'- For {rule["engine"]}, the tokens of "{question}" are {state}. Case '
                      f"`{case['case']}` failed, with this message: `{case['message']}`."
                      for case in failed[-1:]]
    return lines


def counts(verdicts):
    parts = [f"{verdicts[name]} {name}" for name in ("passed", "failed", "underpowered")
             if verdicts.get(name)]
    return ", ".join(parts) or "not judged"


def packages(_, conformance):
    """Returns a table with one row per engine that ran: the checks of batches, of replays and of
    shared random bits."""
    found = {each["engine"]: each for each in conformance["engines"]
             if not each["version"].endswith("interpreter")}
    rows = []
    for name, engine in PACKAGES.items():
        ran = found[name]
        skipped = ran["skip_reasons"].get(NO_SEEDS, 0)
        asked = ran["checks"].get("replay", {})
        seeded = f"no, {skipped} cases skipped" if skipped else "yes" if asked else "not judged"
        rows.append([engine, ran["version"], seeded,
                     *(counts(ran["checks"].get(check, {})) for check in ("replay", "batches", "streams"))])
    return table(["engine", "versions", "seed per request", "`replay`", "`batches`", "`streams`"], rows)


MAKERS = {maker.__name__: maker for maker in (answers, rules, failures, packages)}


def filled(page, seeds, conformance):
    """Returns the page, in which every table between marks has the content of the records."""
    def written(match):
        return match[1] + "\n" + "\n".join(MAKERS[match[2]](seeds, conformance)) + "\n\n" + match[4]
    return TABLE.sub(written, page)


def records(root):
    return [json.loads((root / "python" / "engines" / name).read_text(encoding="utf-8"))
            for name in ("seeds.json", "conformance.json")]


def main():
    root = pathlib.Path(sys.argv[1])
    page = root / PAGE
    page.write_text(filled(page.read_text(encoding="utf-8"), *records(root)), encoding="utf-8")


if __name__ == "__main__":
    main()
