"""Tests reports: causes, the terminal's text, calls that repeat a case, notebooks, and Ctrl-C."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fairdraw
from fairdraw import _core
from samplers import EXACT, exact

SEED = 1
CASE = "support/peaked/v1000/everyday"


def ends_at_zero(batch):
    """A batch in which other arrays replace some of its arrays."""
    return np.zeros(batch.outputs, int)


def drafts_nothing(batch):
    return np.full((batch.requests, batch.max_draft + 1), -1)


def no_softmax(logits, temperature):
    return np.zeros(logits.shape, np.float32)


def failing(function=ends_at_zero, **more):
    how = {"suite": "smoke", "case": "support/*", "seed": SEED, **more}
    return fairdraw.verify(function, **how)


def test_causes_are_those_of_the_record_and_of_the_text():
    report = fairdraw.verify(
        ends_at_zero, suite="smoke", case="chi_squared/*", seed=SEED, lacks=["top_k"]
    )
    causes = report.causes
    assert causes and [cause.name for cause in causes] == [c["name"] for c in report.raw["causes"]]
    failed = {case.id for case in report.cases if case.verdict == "failed"}
    assert {case for cause in causes for case in cause.cases} <= failed
    text = str(report)
    assert all(cause.sentence in text and cause.change in text for cause in causes)
    assert text.count("replay: ") == len(report.groups)
    assert text.splitlines()[-1].startswith("fairdraw: ") and text.splitlines()[-1] in repr(report)
    with pytest.raises(fairdraw.VerificationFailed) as raised:
        report.raise_for_failures()
    assert str(raised.value) == text


def test_the_text_is_what_the_terminal_prints(tmp_path):
    report = fairdraw.verify(
        "profile:hf", semantics="fairdraw", suite="smoke", case="mask/*edges*", seed=SEED
    )
    assert report.verdict == "failed"
    path = tmp_path / "report.json"
    path.write_text(report.to_json())
    shown = subprocess.run(
        [sys.executable, "-m", "fairdraw", "report", str(path), str(tmp_path / "page")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # The report that the verb writes itself has another path, and the text of a Python call has no
    # command.
    assert str(report) in shown.stdout, shown.stdout + shown.stderr


def test_causes_are_those_that_the_command_line_names(tmp_path):
    how = ["--semantics", "fairdraw", "--suite", "smoke", "--seed", str(SEED)]
    subprocess.run(
        [sys.executable, "-m", "fairdraw", "verify", "--sampler", "profile:hf", *how, "--case",
         "mask/*", "--report", str(tmp_path)], capture_output=True, check=False,
    )  # fmt: skip
    told = json.loads((tmp_path / "report.json").read_text())["causes"]
    report = fairdraw.verify(
        "profile:hf", semantics="fairdraw", suite="smoke", case="mask/*", seed=SEED
    )
    assert [cause.sentence for cause in report.causes] == [one["sentence"] for one in told]
    assert report.raw["samplers"][0]["seen"]["differences"]


class Altered:
    """A batch in which some arrays are replaced."""

    def __init__(self, batch, **others):
        self._batch, self._others = batch, others

    def __getattr__(self, name):
        return self._others[name] if name in self._others else getattr(self._batch, name)


def forgets_temperature_with_top_k(batch):
    if batch.temperature is None or batch.top_k is None:
        return exact(batch)
    filtered = (batch.top_k > 0) & (batch.top_k < batch.vocab)
    exact(Altered(batch, temperature=np.where(filtered, np.float32(1), batch.temperature)))
    return batch


def test_the_first_sentence_says_in_which_rows():
    report = failing(forgets_temperature_with_top_k, case="*/v1000/*", **EXACT)
    assert report.raw["samplers"][0]["conditions"][0]["text"] == "rows with top_k"
    assert "Only in rows with top_k" in report.causes[0].sentence


def passed_and_message(report):
    (case,) = report.cases
    return case.verdict, case.message


@pytest.mark.parametrize(
    "judge",
    [
        lambda: failing(case=CASE),
        lambda: failing(case=CASE, abilities=["num_samples"], version="2", name="mine"),
        lambda: failing("profile:hf", case="mask/*/edges", semantics="fairdraw"),
        lambda: fairdraw.verify_operations(
            {"softmax": no_softmax}, suite="smoke", case="softmax/gaussian*", seed=SEED
        ),
    ],
)
def test_a_replay_call_runs_where_it_is_pasted(judge):
    red = judge().failures[0]
    program = (
        f"report = []\n{red.replay.replace('; fairdraw.', '; report = fairdraw.', 1)}\n"
        "import json; print(json.dumps([report.cases[0].id, report.cases[0].message]))"
    )
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, red.replay + "\n" + run.stderr
    assert json.loads(run.stdout) == [red.id, red.message]


@pytest.mark.skipif(not _core.HAS_SERVING, reason="it is of serving")
def test_a_replay_call_of_drafts_runs_where_it_is_pasted():
    red = fairdraw.verify_speculation(
        drafts_nothing, suite="smoke", case="chain_law/*", target="probs", seed=SEED
    ).failures[0]
    session = {}
    exec(red.replay.replace("; fairdraw.", "; report = fairdraw.", 1), session)  # noqa: S102
    assert passed_and_message(session["report"]) == ("failed", red.message)


def test_a_replay_call_of_something_local_goes_by_its_name():
    def local(batch):
        return np.zeros(batch.outputs, int)

    for function, name in ((local, "local"), (lambda batch: local(batch), "sampler")):
        red = failing(function, case=CASE).failures[0]
        session = {name: function}
        exec(red.replay.replace("; fairdraw.", "; report = fairdraw.", 1), session)  # noqa: S102
        assert passed_and_message(session["report"]) == ("failed", red.message)
    named = failing(lambda batch: local(batch), case=CASE, name="mine")
    assert "fairdraw.verify(mine, " in named.failures[0].replay


def raises_markup(batch):
    raise RuntimeError("<script>alert(1)</script> \x1b[31m")


def test_a_notebook_shows_the_text_and_no_markup_of_others():
    report = failing(raises_markup, case=CASE, name="<b>mine</b>")
    html = report._repr_html_()
    assert "<script" not in html and "<b>mine" not in html and "\x1b" not in html
    assert "&lt;b&gt;mine" in html and "&lt;script&gt;alert(1)" in html
    green = fairdraw.verify(exact, suite="smoke", case=CASE, seed=SEED, **EXACT)
    assert "The only case passed." in green._repr_html_()


def test_a_long_exception_is_cut_in_every_file(tmp_path):
    def long(batch):
        raise RuntimeError("x" * 500_000)

    report = failing(long)
    red = report.failures
    assert len(red) >= 10 and all("(500" in c.message and "bytes in all)" in c.message for c in red)
    folder = report.write(tmp_path / "report")
    # Up to 2000 bytes of the exception appear in report.json, at most twice per case (message and
    # observation). The rest of the report is as long as without an exception.
    usual = len(failing().to_json())
    assert len(report.to_json()) < usual + 2 * 2100 * len(report.cases)
    for path in folder.iterdir():
        assert path.stat().st_size < 4 * 2100 * len(report.cases) + 400_000, path.name
    assert max(map(len, str(report).splitlines())) < 700


def test_long_names_are_refused_and_long_values_are_cut():
    for field in ("name", "version"):
        with pytest.raises(ValueError, match=f"{field} has 201 letters; allowed: up to 200"):
            failing(case=CASE, **{field: "x" * 201})
    with pytest.raises(ValueError, match="semantics is 'xxx") as raised:
        failing(semantics="x" * 100_000)
    assert "(100002 letters)" in str(raised.value) and len(str(raised.value)) < 5000


def test_ctrl_c_keeps_what_was_run_and_says_so(tmp_path):
    def interrupts(batch):
        calls.append(batch.rows)
        if len(calls) == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return np.argmax(batch.logits, axis=1)

    calls = []
    report = failing(interrupts, case="*", jobs=1)
    assert "interrupted by Ctrl-C" in report.incomplete
    assert 0 < len(report.cases) < len(fairdraw.case_ids("smoke"))
    assert "INCOMPLETE: interrupted by Ctrl-C" in str(report) and report.verdict != "passed"
    assert not any("interrupted" in case.message for case in report.cases)
    written = json.loads((report.write(tmp_path / "report") / "report.json").read_text())
    assert written["incomplete"] == report.incomplete


def test_ctrl_c_ends_a_search_with_what_it_judged():
    def interrupts(batch):
        calls.append(batch.rows)
        if len(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return fairdraw.sample(
            batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
            seed=batch.seed, offset=batch.offset,
        )  # fmt: skip

    calls = []
    found = fairdraw.fuzz(interrupts, abilities=["per_request_seeds"], cases=10**6, seed=SEED)
    assert found.incomplete == "interrupted by Ctrl-C" and found.cases > 0
    assert found.verdict == "underpowered" and "INCOMPLETE" in str(found)


PROGRAM = """
import fairdraw, numpy as np
def mine(batch):
    return np.argmax(batch.logits, axis=1)
fairdraw.verify(mine, suite="smoke", case="support/*", seed=1)
"""


def test_progress_is_one_line_on_a_terminal_and_nothing_elsewhere():
    def stderr_of(terminal):
        main, side = pty.openpty()
        where = side if terminal else subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=where) as process:
            os.close(side)
            text = b""
            try:
                while part := os.read(main, 4096) if terminal else process.stderr.read():
                    text += part
            except OSError:  # the reader of the terminal has closed it
                pass
        os.close(main)
        assert process.returncode == 0
        return text.decode()

    shown = stderr_of(terminal=True)
    assert "\r\x1b[K[1/" in shown and shown.endswith("\r\x1b[K") and "\n" not in shown
    assert stderr_of(terminal=False) == ""


def test_identify_says_what_the_command_says():
    found = fairdraw.identify("profile:hf", seed=SEED)
    assert found.profiles and not found.unanswered and found.raw["sampler"] == "profile:hf"
    command = subprocess.run(
        [sys.executable, "-m", "fairdraw", "identify", "--sampler", "profile:hf", "--seed", str(SEED)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert command.returncode == 0, command.stderr
    # The first line differs, because it says where the seed comes from.
    assert str(found).splitlines()[1:] == command.stdout.rstrip("\n").splitlines()[1:]
    mine = fairdraw.identify(exact, seed=SEED, **EXACT)
    assert "fairdraw" in mine.profiles[:2] and set(mine.choices) == set(found.choices)
    differing = {name for name, value in mine.choices.items() if value != found.choices[name]}
    assert differing  # equal profiles would test nothing
    silent = fairdraw.identify(raises_markup, seed=SEED)
    assert silent.unanswered and not silent.profiles and "cannot find" in str(silent)
