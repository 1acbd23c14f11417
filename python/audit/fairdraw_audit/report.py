"""Writes the report of an audit, in the format and with the pages of all of fairdraw's reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairdraw import __version__
from fairdraw.__main__ import main as fairdraw_command

from .causes import CAUSES, change, sentence
from .findings import Check, Findings
from .plan import Settings

#: Version of the report format written here, as in reports/report.h.
SCHEMA_VERSION = "3.3"
#: Files of a report.
FILES = ("index.html", "summary.md", "junit.xml", "report.json")
#: Exit codes of the command line, by verdict.
EXIT_CODES = {"passed": 0, "failed": 1, "error": 3, "underpowered": 3}
LIMITS = (
    "Judged from outside, by the numbers that the server reports: each may be wrong by {noise:g},"
    " and a token that is drawn has to be reported. Not judged: whether these numbers are the "
    "model's, tokens that no response showed, and structured output. Two requests may part by "
    "noise with probability {divergence:g} per position."
)


def _case(check: Check, findings: Findings, settings: Settings, replay: str) -> dict[str, Any]:
    message = check.message
    evidence: dict[str, Any] = {}
    if check.verdict == "failed":
        # The fault that explains all streams together, and the likeliest fault of the single
        # stream.
        faults = [findings.cause, check.fault] if check.by_fault else [check.fault]
        evidence["suspects"] = [
            {"bug": CAUSES[fault], "reason": message} for fault in dict.fromkeys(faults)
        ]
        message = f"{sentence(check.fault)} {message[:1].upper()}{message[1:]}"
    measures = dict(check.measures)
    if check.log_e is not None:
        # ln(10) nats are one decimal digit of evidence.
        measures["log10_e"] = check.log_e / 2.302585092994046
        measures["log10_e_of_alarm"] = findings.log_threshold / 2.302585092994046
    return {
        "id": f"audit/{check.id}",
        "suite": "gate",
        "check": check.id.partition("/")[0],
        "sampler": settings.model,
        "semantics": "openai",
        "filter": "",
        "verdict": check.verdict,
        "draws": check.tokens,
        "rows": check.tokens,
        "vocab": 0,
        "statistic": None,
        "dof": None,
        "p_value": None,
        "total_variation": None,
        "min_discrepancy": check.min_discrepancy,
        "seconds": 0.0,
        "message": message,
        "watch": "",
        "replay": replay,
        "measures": measures,
        **({"evidence": evidence} if evidence else {}),
    }


def summary(findings: Findings) -> str:
    """Returns the verdict in one line, with the cause."""
    judged = sum(check.verdict in ("passed", "failed") for check in findings.checks)
    skipped = [check.id for check in findings.checks if check.verdict == "skipped"]
    text = f"{findings.verdict}: {judged} of {len(findings.checks)} checks judged"
    text += f" on {findings.tokens} tokens of {findings.answered} responses"
    if findings.cause:
        text += f"; cause: {sentence(findings.cause)} Change: {change(findings.cause)}"
    if skipped:
        text += f"; not judged: {', '.join(skipped)}"
    return text


def to_json(
    findings: Findings,
    settings: Settings,
    base_url: str,
    started: str,
    records: str,
    incomplete: str,
) -> dict[str, Any]:
    """Returns the text of report.json, as defined by reports/schema/report.schema.json. `started`
    is a time in UTC, or "" in old records."""
    replay = f"python -m fairdraw audit --replay {records}"
    cases = [_case(check, findings, settings, replay) for check in findings.checks]
    counts = {v: 0 for v in ("passed", "failed", "underpowered", "skipped", "error")}
    for case in cases:
        counts[case["verdict"]] += 1
    notes = [LIMITS.format(noise=settings.noise, divergence=settings.divergence)]
    notes.append(f"The reported log-probabilities are {findings.kind}.")
    if findings.cause:
        notes.insert(0, f"Cause: {sentence(findings.cause)}")
    report: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "fairdraw", "version": __version__},
        "environment": {"server": base_url, "endpoint": settings.endpoint, "started": started},
        "seed": {"value": str(settings.seed), "source": "--seed"},
        "suite": "gate",
        "commit": "",
        "shard": "1/1",
        "selection": "",
        "options": "".join(
            f" --{name.replace('_', '-')} {value}"
            for name, value in settings.to_json().items()
            if name in ("temperature", "top_k", "top_p", "min_p", "noise", "budget_tokens")
        ),
        "incomplete": incomplete,
        "error_budget": {
            "false_alarm_rate": settings.alpha,
            "spent": settings.alpha,
            "statistical_cases": sum(check.log_e is not None for check in findings.checks),
        },
        "samplers": [
            {"name": settings.model, "version": "", "semantics": "openai", "notes": notes}
        ],
        "small_mistakes": [
            {
                "mistake": note.text,
                "id": f"audit/{note.check}",
                "discrepancy": note.size,
                "draws": note.tokens,
                "needed": note.needed,
            }
            for note in findings.unnoticed
        ],
        "cases": cases,
        "draws": sum(case["draws"] for case in cases),
        "seconds": 0.0,
        "summary": counts,
    }
    if not started:
        del report["environment"]["started"]
    if not incomplete:
        del report["incomplete"]
    if not findings.unnoticed:
        del report["small_mistakes"]
    return report


def withdraw(folder: Path) -> None:
    """Removes an earlier report, so that after a failed call nobody takes the earlier report for
    the new report."""
    for name in FILES:
        if not (folder / name).is_dir():
            (folder / name).unlink(missing_ok=True)


def write(report: dict[str, Any], folder: Path) -> None:
    """Writes the files of a report. If a file cannot be written, raises OSError and leaves no
    file."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "report.json"
    try:
        source.write_text(json.dumps(report, allow_nan=False), encoding="utf-8")
        if fairdraw_command(["report", str(source), str(folder)]) not in EXIT_CODES.values():
            raise OSError(f"the report in '{folder}' could not be written")
    except BaseException:
        withdraw(folder)
        raise
