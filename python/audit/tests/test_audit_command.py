"""Tests `python -m fairdraw audit` over HTTP on the loopback interface: the requests, records and
files."""

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from faulty_server import FAULTS, LoopbackServer, Server

from fairdraw_audit.client import Transport, gather
from fairdraw_audit.command import main
from fairdraw_audit.judge import judge
from fairdraw_audit.plan import BadSetting, Settings, first_stages, last_stage, tokens_of
from fairdraw_audit.records import BadRecord, Record, choices_of, read_records
from fairdraw_audit.report import FILES

pytest.importorskip("httpx", reason="httpx is not installed")

CLAIM = ["--temperature", "0.7", "--top-k", "8", "--top-p", "0.9", "--min-p", "0.05"]
#: The budget is a few tokens per check, because these tests do not test power.
SMALL = ["--budget-tokens", "1600", "--max-tokens", "4"]


def audit(server, folder, *words, claim=tuple(CLAIM)):
    with LoopbackServer(server) as there:
        address = ["--base-url", there.base_url, "--model", "tiny"]
        return main([*address, *claim, "--report", str(folder), *words])


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_a_right_server_passes_and_its_records_say_so_again(tmp_path, capfd, endpoint):
    server = Server(noise=1e-3)
    before = datetime.now(timezone.utc).replace(microsecond=0)
    assert audit(server, tmp_path / "first", "--endpoint", endpoint) == 0
    first = capfd.readouterr().out
    records = tmp_path / "first" / "records.jsonl"
    asked = server.requests
    assert main(["--replay", str(records), "--report", str(tmp_path / "again")]) == 0
    assert server.requests == asked
    again = capfd.readouterr().out
    (line,) = [line for line in first.splitlines() if line.startswith("passed: ")]
    assert line in again.splitlines()
    reports = [json.loads((tmp_path / f / "report.json").read_text()) for f in ("first", "again")]
    for report in reports:
        began = datetime.strptime(report["environment"]["started"], "%Y-%m-%dT%H:%M:%SZ")
        assert before <= began.replace(tzinfo=timezone.utc) <= datetime.now(timezone.utc)
        report["cases"] = [{**case, "replay": ""} for case in report["cases"]]
    assert reports[0] == reports[1]
    header, kept = read_records(records)
    assert len(kept) == asked and header["settings"]["endpoint"] == endpoint
    assert "api_key" not in records.read_text()


@pytest.mark.parametrize("fault", ["neighbours", "top_k_keeps_one_more", "seed_ignored"])
def test_a_fault_is_named_over_http(tmp_path, capfd, fault):
    assert audit(Server(fault, noise=1e-3), tmp_path) == 1
    report = json.loads((tmp_path / "report.json").read_text())
    failed = [case for case in report["cases"] if case["verdict"] == "failed"]
    assert failed and report["summary"]["failed"] == len(failed)
    assert "; cause: " in capfd.readouterr().out
    settings = Settings.from_json(read_records(tmp_path / "records.jsonl")[0]["settings"])
    found = judge(settings, read_records(tmp_path / "records.jsonl")[1])
    assert found.cause == FAULTS[fault]
    junit = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert len(junit.findall(".//failure")) == len(failed)
    assert "Not judged" in (tmp_path / "index.html").read_text()


def test_no_request_beyond_the_budget():
    for tokens, requests in ((2000, 1000), (5000, 150)):
        settings = Settings("m", 0.7, 8, 0.9, max_tokens=8)
        settings = replace(settings, budget_tokens=tokens, budget_requests=requests)
        items = [item for stage in first_stages(settings) for item in stage.items]
        server = Server()
        greedy = [
            choices_of(replace(item, response=server.respond(item.body)), 20)[0]
            for item in items
            if item.phase == "greedy"
        ]
        last = last_stage(settings, greedy, len(items))
        items += last.items
        assert len(last.items) == 2
        assert len(items) <= requests and tokens_of(items) <= tokens
        assert [item.id for item in items] == list(range(len(items)))


def test_refused_requests_are_sent_again(tmp_path):
    server = Server()
    server.refusals = 3
    audit(server, tmp_path, *SMALL, "--retries", "5")
    _, records = read_records(tmp_path / "records.jsonl")
    assert server.requests == len(records) + 3
    assert all(record.error == "" for record in records)


def test_a_server_that_refuses_all_is_no_verdict(tmp_path, capfd):
    server = Server()
    server.refusals = 10**6
    assert audit(server, tmp_path, *SMALL, "--retries", "0") == 3
    report = json.loads((tmp_path / "report.json").read_text())
    (error,) = [case for case in report["cases"] if case["id"] == "audit/requests"]
    assert error["verdict"] == "error" and "HTTP 503" in error["message"]
    assert report["summary"]["passed"] == 0
    assert "not judged: " in capfd.readouterr().out


@pytest.fixture
def pauses(monkeypatch):
    """Records the requested seconds of each pause, and skips the pause."""
    found, sleep = [], asyncio.sleep

    async def paused(seconds):
        found.append(seconds)
        await sleep(0)

    monkeypatch.setattr("fairdraw_audit.client.asyncio.sleep", paused)
    return found


def why_incomplete(answer, folder, *words):
    """Returns the reason why an audit ends early if every request gets this answer."""
    with LoopbackServer(Server(), answer) as there:
        address = ["--base-url", there.base_url, "--model", "tiny", "--report", str(folder)]
        assert main([*address, *SMALL, "--retries", "1", *words]) == 3
    report = json.loads((folder / "report.json").read_text(), parse_constant=pytest.fail)
    assert f"16 requests in a row to {there.base_url} failed: " in report["incomplete"]
    return report["incomplete"]


def plainly(status, headers, body):
    def answer(handler, _):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


YESTERDAY, TOMORROW = (
    format_datetime(datetime.now(timezone.utc) + timedelta(days=days), usegmt=True)
    for days in (-1, 1)
)


@pytest.mark.parametrize(
    "status, headers, body, sentence, pause",
    [
        (503, {"Retry-After": "2"}, b"busy", "HTTP 503: busy (2 tries)", 2),
        (503, {"Retry-After": "\u00b2"}, b"busy", "HTTP 503: busy (2 tries)", 0.5),
        (503, {"Retry-After": "86400"}, b"busy", "busy; the server asks to wait 86400 s", None),
        (503, {"Retry-After": TOMORROW}, b"busy", "busy; the server asks to wait 86", None),
        (503, {"Retry-After": YESTERDAY}, b"busy", "HTTP 503: busy (2 tries)", 0),
        (503, {"Retry-After": "Sat, 99 Nov 2026"}, b"busy", "HTTP 503: busy (2 tries)", 0.5),
        (200, {"Content-Encoding": "gzip"}, b"no gzip", "DecodingError: ", 0.5),
        (200, {}, b"\xff", "UnicodeDecodeError: ", 0.5),
        (200, {}, b"[" * 100_000, "RecursionError: ", 0.5),
        (200, {}, b"[]", "TypeError: ", None),
    ],
)
def test_answers_that_are_none_end_in_a_sentence(
    tmp_path, pauses, status, headers, body, sentence, pause
):
    assert sentence in why_incomplete(plainly(status, headers, body), tmp_path)
    assert pauses == ([] if pause is None else [pause] * 16)


@pytest.mark.parametrize(
    "number, sentence",
    [
        (math.nan, "is nan; allowed: up to 700"),
        (math.inf, "is inf; allowed: up to 700"),
        (-math.inf, "the largest log-probability of a position is -inf"),
        (None, "TypeError: "),
    ],
)
def test_log_probabilities_that_are_no_numbers_end_in_a_sentence(
    tmp_path, pauses, number, sentence
):
    def answer(handler, body):
        names, tops = ["a", "b"], [{"a": number, "b": number}] * 2
        logprobs = {"tokens": names, "token_logprobs": [number] * 2, "top_logprobs": tops}
        handler.answer(200, {"choices": [{"text": "ab", "logprobs": logprobs}]})

    assert sentence in why_incomplete(answer, tmp_path)


def test_logits_in_place_of_log_probabilities_are_named(tmp_path):
    class Logits(Server):
        def shaped(self, body, text, entries):
            raw = [
                (t, own + 600, names, [v + 600 for v in many]) for t, own, names, many in entries
            ]
            return super().shaped(body, text, raw)

    assert audit(Logits(), tmp_path, *SMALL) == 1
    report = json.loads((tmp_path / "report.json").read_text(), parse_constant=pytest.fail)
    (kind,) = [case for case in report["cases"] if case["id"] == "audit/logprobs/kind"]
    assert kind["verdict"] == "failed" and "the largest sum of probabilities is" in kind["message"]


def test_a_server_that_trickles_is_given_up(tmp_path, pauses):
    def answer(handler, _):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b" ")
                time.sleep(0.05)

    why = why_incomplete(answer, tmp_path, "--timeout", "0.2")
    assert "no whole answer within 0.2 s (2 tries)" in why


def test_a_refused_connection_ends_at_once(tmp_path, capfd, pauses):
    with socket.socket() as unused:  # nobody listens there
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        words = ["--base-url", url, "--model", "tiny", "--report", str(tmp_path), *CLAIM]
        assert main(words) == 3
    assert f"no server at {url}: " in capfd.readouterr().out and pauses == []
    assert "no server at" in json.loads((tmp_path / "report.json").read_text())["incomplete"]


def test_a_server_that_goes_away_ends_the_audit(tmp_path, capfd):
    class Mortal(Server):
        def respond(self, body):
            if self.requests == 30:
                there.http.shutdown()
                there.http.server_close()
            return super().respond(body)

    with LoopbackServer(Mortal()) as there:
        words = ["--base-url", there.base_url, "--model", "tiny", "--report", str(tmp_path)]
        assert main([*words, *CLAIM, *SMALL, "--retries", "1"]) == 3
    out = capfd.readouterr().out
    assert f"no server at {there.base_url}: " in out and "requests were not sent" in out
    assert len(read_records(tmp_path / "records.jsonl")[1]) >= 29


def test_an_interrupt_keeps_what_was_gathered(tmp_path):
    records = tmp_path / "records.jsonl"

    class Slow(Server):
        def respond(self, body):
            time.sleep(0.05)
            return super().respond(body)

    with LoopbackServer(Slow()) as there:
        words = ["audit", "--base-url", there.base_url, "--model", "tiny", "--report", tmp_path]
        process = subprocess.Popen(
            [sys.executable, "-m", "fairdraw", *words, *CLAIM],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            deadline = time.monotonic() + 60
            while not records.exists() or len(records.read_text().splitlines()) < 20:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 3, err
    assert "interrupted after" in out and "Traceback" not in err
    header, kept = read_records(records)
    assert len(kept) >= 19
    report = json.loads((tmp_path / "report.json").read_text())
    assert "interrupted after" in report["incomplete"]
    assert main(["--replay", str(records), "--report", str(tmp_path / "again")]) == 3


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--temperature", "-1"], "temperature is -1.0; allowed: 0 to 100"),
        (["--top-p", "0"], "top_p is 0.0; allowed: above 0, to 1"),
        (["--min-p", "nan"], "min_p is nan; allowed: 0 (off) to 1"),
        (["--top-k", "-2"], "top_k is -2; allowed: 0 (off) to 2^31 - 1"),
        (["--order", "top_k"], "order is top_k; allowed: each of temperature,min_p,top_k,top_p"),
        (["--endpoint", "chats"], "endpoint is 'chats'; allowed: completions, chat"),
        (["--logprobs", "cooked"], "logprobs is 'cooked'; allowed: auto, raw, processed"),
        (["--extra", "[]"], "extra is '[]'; allowed: a JSON object"),
        (["--bias-tokens", "7"], "bias_tokens is '7'; allowed: two ids, ID,ID"),
        (["--budget-tokens", "10"], "budget_tokens is 10; allowed: "),
        (["--budget-requests", "10"], "budget_requests is 10; allowed: "),
        (["--concurrency", "1"], "concurrency is 1; allowed: 2 to 1024"),
        (["--retries", "-1"], "retries is -1; allowed: 0 to 100"),
        (["--noise", "2"], "noise is 2.0; allowed: 0 to 1"),
        (["--alpha", "0"], "alpha is 0.0; allowed: above 0, to 0.5"),
        (
            ["--base-url", "localhost"],
            "base_url is 'localhost'; allowed: http://... or https://...",
        ),
        (["--model", ""], "--model is needed"),
        (["--replay", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_bad_arguments_are_named(words, complaint, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["--base-url", "http://127.0.0.1:9/v1", "--model", "m", *words])
    assert ended.value.code == 2
    assert complaint in capfd.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "words",
    [
        ["--top-p", "0"],
        ["--top-p", "x"],
        ["--no-such-option"],
        ["--replay", "nowhere.jsonl"],
        ["--base-url", "localhost"],
    ],
)
@pytest.mark.parametrize("folder", [["--report", "mine"], ["--report=mine"], []])
def test_an_audit_that_ends_badly_leaves_no_earlier_report(words, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    there = tmp_path / ("mine" if folder else "fairdraw-audit")
    there.mkdir()
    for name in (*FILES, "records.jsonl"):
        (there / name).write_text("of an earlier audit")
    with pytest.raises(SystemExit) as ended:
        main(["--base-url", "http://127.0.0.1:9/v1", "--model", "m", *folder, *words])
    assert ended.value.code == 2
    assert os.listdir(there) == ["records.jsonl"]


@pytest.mark.parametrize("name", FILES)
def test_no_audit_passes_without_its_report(name, tmp_path, capfd):
    (tmp_path / name).mkdir()
    (tmp_path / name / "in the way").touch()
    with pytest.raises(SystemExit) as ended:
        audit(Server(noise=1e-3), tmp_path, *SMALL)
    assert ended.value.code == 2
    assert name in capfd.readouterr().err
    assert sorted(os.listdir(tmp_path)) == sorted([name, "records.jsonl"])


def test_records_in_a_pipe_are_refused_and_not_waited_for(tmp_path, capfd):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SystemExit) as ended:
        main(["--replay", str(tmp_path / "pipe"), "--report", str(tmp_path / "report")])
    assert ended.value.code == 2
    assert "pipe: is no regular file" in capfd.readouterr().err


def test_records_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "records.jsonl"
    path.write_text("{}\n")
    with pytest.raises(BadRecord, match="records.jsonl:1: the first line is no header"):
        read_records(path)
    path.write_text(
        '{"fairdraw_audit": 1}\n{"id": 0, "phase": "plain", "key": 0, "body": {}, "x": 1}\n'
    )
    with pytest.raises(BadRecord, match="records.jsonl:2: .*'x'"):
        read_records(path)
    with pytest.raises(BadSetting, match="setting 'colour' is unknown"):
        Settings.from_json({"model": "m", "colour": 1})
    record = Record(3, "plain", 0, {}, {"choices": [{"logprobs": {"tokens": 4}}]})
    with pytest.raises(BadRecord, match="response 3: "):
        choices_of(replace(record, response={"choices": 4}), 20)


def test_a_server_without_numbers_is_not_passed(tmp_path):
    assert audit(Server(numbers="none"), tmp_path, *SMALL) == 3
    report = json.loads((tmp_path / "report.json").read_text())
    verdicts = {case["id"]: case["verdict"] for case in report["cases"]}
    assert verdicts["audit/logprobs/kind"] == "error"
    assert not any(v == "passed" for k, v in verdicts.items() if "stream" in k or "greedy" in k)


def test_neighbours_are_there_when_a_server_is_loaded():
    most = 0

    class Counting(Server):
        def respond(self, body):
            nonlocal most
            most = max(most, self.flying)
            return super().respond(body)

    settings = Settings("m", 0.7, budget_tokens=1400, max_tokens=4)
    alone = []
    with LoopbackServer(Counting()) as there:
        lock = threading.Lock()

        def keep(record):
            with lock:
                if record.phase in ("alone", "again"):
                    alone.append(most)

        asyncio.run(gather(settings, Transport(there.base_url), keep))
    assert max(alone) == 1 and most > 1
