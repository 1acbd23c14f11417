"""Judges a served model from outside, or the stored records of an earlier audit:
`python -m fairdraw audit`.

    python -m fairdraw audit --base-url http://localhost:8000/v1 --model M --temperature 0.7 --top-p 0.9

Exit codes: 0 if all checks passed; 1 if a check failed; 2 for bad usage; 3 if too little was judged
(a server that ignores a claimed filter would pass), if requests failed, or if the audit was
interrupted. Ctrl-C stops the requests, and the responses that have arrived are judged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from fairdraw import __version__

from .client import Transport, Unreachable, gather, planned
from .judge import judge
from .plan import BadSetting, Settings, tokens_of
from .records import BadRecord, Record, RecordFile, read_records
from .report import EXIT_CODES, summary, to_json, withdraw, write

#: Default folder of the report, if there is no option --report.
REPORT = Path("fairdraw-audit")


class _Progress:
    """A progress bar on a terminal's stderr, which is redrawn after each response."""

    def __init__(self, settings: Settings) -> None:
        items = planned(settings)
        self.requests, self.tokens = len(items), tokens_of(items)
        self.done = 0
        self.shown = sys.stderr.isatty()

    def add(self, record: Record) -> None:
        self.done += 1
        if self.shown:
            filled = min(30 * self.done // self.requests, 30)
            bar = "#" * filled + "-" * (30 - filled)
            text = f"\r[{bar}] {self.done}/{self.requests} requests, to {self.tokens} tokens"
            print(text, end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self.shown:
            print(file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    defaults = {each.name: each.default for each in fields(Settings)}
    parser = argparse.ArgumentParser(
        prog="python -m fairdraw audit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server = parser.add_argument_group("the server")
    server.add_argument(
        "--base-url", metavar="URL", help="address of the server, with /v1 at its end"
    )
    server.add_argument("--model", help="name of the model in requests")
    server.add_argument("--endpoint", default="completions", help="completions or chat")
    server.add_argument("--api-key-env", default="OPENAI_API_KEY", metavar="NAME",
        help="environment variable with the key, which is never recorded")  # fmt: skip
    server.add_argument("--concurrency", type=int, default=8, help="number of requests in parallel")
    server.add_argument(
        "--retries", type=int, default=4, help="maximum number of repeats after a temporary error"
    )
    server.add_argument("--timeout", type=float, default=120.0, metavar="SECONDS")
    server.add_argument("--extra", default="{}", metavar="JSON",
        help="further fields of each request, such as {\"ignore_eos\": true}")  # fmt: skip
    server.add_argument("--top-k-off", default="0", metavar="VALUE",
        help="value that turns top_k off: 0, -1, or omit to send neither top_k nor min_p")  # fmt: skip
    claim = parser.add_argument_group("the claim")
    for name, kind, text in (
        ("temperature", float, "0: only greedy"),
        ("top_k", int, "0: off"),
        ("top_p", float, "1: off"),
        ("min_p", float, "0: off"),
    ):
        claim.add_argument(
            f"--{name.replace('_', '-')}", type=kind, default=defaults[name], help=text
        )
    claim.add_argument("--order", default=",".join(Settings.order), metavar="STEPS",
        help="order of temperature and filters (default: %(default)s)")  # fmt: skip
    claim.add_argument("--logprobs", default="auto",
        help="raw (before temperature and filters), processed, or auto: the audit finds out")  # fmt: skip
    for name, kind, text in (
        ("top_logprobs", int, "log-probabilities per position"),
        ("noise", float, "maximum error of a reported log-probability"),
        ("divergence", float, "rate per position at which noise may make equal requests differ"),
        ("vocab", int, "upper bound of the vocabulary size"),
        ("alpha", float, "maximum rate of false alarms of the whole audit"),
    ):
        claim.add_argument(f"--{name.replace('_', '-')}", type=kind, default=defaults[name],
            help=f"{text} (default: %(default)s)")  # fmt: skip
    spent = parser.add_argument_group("the budget")
    for name in ("budget_requests", "budget_tokens", "max_tokens"):
        spent.add_argument(f"--{name.replace('_', '-')}", type=int, default=defaults[name],
            help="(default: %(default)s)")  # fmt: skip
    spent.add_argument(
        "--seed",
        type=int,
        default=1,
        help="seed of the first request; the next requests have the next seeds",
    )
    spent.add_argument(
        "--prompt", action="append", metavar="TEXT", help="prompt of requests; may be repeated"
    )
    spent.add_argument("--bias-tokens", default="100,101", metavar="ID,ID",
        help="two ids for the check of logit_bias; neither may end a text")  # fmt: skip
    files = parser.add_argument_group("files")
    files.add_argument("--report", type=Path, default=REPORT, metavar="DIR")
    files.add_argument("--records", type=Path, metavar="FILE",
        help="file for requests and responses (default: records.jsonl in the report)")  # fmt: skip
    files.add_argument("--replay", type=Path, metavar="FILE",
        help="judge these records again by their own settings, without a server")  # fmt: skip
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        extra = json.loads(arguments.extra)
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        raise BadSetting(f"extra is {arguments.extra!r}; allowed: a JSON object")
    ids = arguments.bias_tokens.split(",")
    if len(ids) != 2 or not all(each.isdigit() for each in ids) or ids[0] == ids[1]:
        raise BadSetting(f"bias_tokens is {arguments.bias_tokens!r}; allowed: two ids, ID,ID")
    values: dict[str, Any] = {
        each.name: getattr(arguments, each.name)
        for each in fields(Settings)
        if hasattr(arguments, each.name)
    }
    values |= {
        "order": tuple(arguments.order.split(",")),
        "extra": extra,
        "bias_tokens": (int(ids[0]), int(ids[1])),
    }
    if arguments.prompt:
        values["prompts"] = tuple(arguments.prompt)
    return Settings(**values)


def _gather(
    settings: Settings, transport: Transport, path: Path, started: str
) -> tuple[list[Record], str]:
    """Returns the records, and the reason why they are incomplete."""
    try:
        import httpx
    except ImportError:
        raise BadSetting("httpx is not installed: pip install httpx") from None
    try:
        httpx.URL(transport.base_url)
    except httpx.InvalidURL as error:
        raise BadSetting(f"base_url is {transport.base_url!r}: {error}") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {
        "fairdraw_audit": 1,
        "version": __version__,
        "started": started,
        "base_url": transport.base_url,
        "settings": settings.to_json(),
    }
    records: list[Record] = []
    kept, progress = RecordFile(path, header), _Progress(settings)

    def keep(record: Record) -> None:
        kept.add(record)
        records.append(record)
        progress.add(record)

    why = ""
    try:
        asyncio.run(gather(settings, transport, keep))
    except KeyboardInterrupt:
        why = f"interrupted after {len(records)} of {progress.requests} requests"
    except Unreachable as error:
        why = f"{error}; {progress.requests - len(records)} requests were not sent"
    finally:
        kept.close()
        progress.end()
    return records, why


def _folder_of(words: Sequence[str] | None) -> Path:
    """Returns the report folder to use for a command line that cannot be parsed."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--report", nargs="?", type=Path)
    return parser.parse_known_args(words)[0].report or REPORT


def main(words: Sequence[str] | None = None) -> int:
    parser = _parser()
    try:
        arguments = parser.parse_args(words)
    except SystemExit as refused:
        if refused.code:
            withdraw(_folder_of(words))
        raise
    try:
        withdraw(arguments.report)
        if arguments.replay:
            header, records = read_records(arguments.replay)
            settings = Settings.from_json(header["settings"])
            base_url, path, why = str(header.get("base_url", "")), arguments.replay, ""
            started = str(header.get("started", ""))
            if len(records) < len(planned(settings)):
                why = f"the records have {len(records)} of {len(planned(settings))} requests"
        else:
            for name in ("base_url", "model"):
                if not getattr(arguments, name):
                    parser.error(f"--{name.replace('_', '-')} is needed")
            settings = _settings(arguments)
            base_url = arguments.base_url
            transport = Transport(
                base_url,
                os.environ.get(arguments.api_key_env, ""),
                arguments.concurrency,
                arguments.retries,
                arguments.timeout,
            )
            path = arguments.records or arguments.report / "records.jsonl"
            started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            records, why = _gather(settings, transport, path, started)
        findings = judge(settings, records)
        report = to_json(findings, settings, base_url, started, str(path), why)
        write(report, arguments.report)
    except (BadSetting, BadRecord, OSError) as error:
        parser.error(str(error))
    for check in findings.failed:
        print(f"failed {check.id}: {check.message}")
    print(summary(findings) + (f"; incomplete: {why}" if why else ""))
    print(f"report: {arguments.report / 'index.html'}; records: {path}")
    code = EXIT_CODES[findings.verdict]
    return code if code == 1 or not why else 3
