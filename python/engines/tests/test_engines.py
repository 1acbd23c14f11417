"""Tests the adapters of other engines, each by its own profile, and the matrix made from the
results.

An engine whose package or device is missing is skipped, and the reason names the missing part.
"""

import importlib
import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest

from fairdraw.verification import Ability, profile_names
from fairdraw_engines import (
    ENGINES,
    DraftEngine,
    OperationEngine,
    RunningEngine,
    Unavailable,
    __main__,
    _engine,
    _marks,
    llamacpp_chain,
    matrix,
    why_not,
)

SEED = 1
BASELINE = Path(__file__).parents[1] / "conformance.json"

#: The cases of each engine: one case of a mask and one case of a distribution. Engines without
#: filters have only the case of a distribution.
CASES = [
    "mask/gaussian/v1000/edges",
    "mask/mass_exactly_p/v31/partial_sums",
    "support/ties_at_k/v1000/everyday",
    "status/gaussian/v31/everyday",
    "chi_squared/gaussian/v1000/top_k_50+top_p_0.9/t0.7/n100000",
    "chi_squared/gaussian_wide/v1000/none/t1/n100000",
]


def engine_or_skip(name):
    engine = ENGINES[name]
    reason = why_not(engine)
    if reason:
        pytest.skip(f"{name}: {reason}")
    return engine


#: Engines that are expected to follow their profile. Rules that break it have tests of their own
#: (test_from_source.py).
KEEPING = {name: engine for name, engine in ENGINES.items() if not engine.source}
SAMPLERS = [
    name
    for name, engine in KEEPING.items()
    if not isinstance(engine, OperationEngine | DraftEngine | RunningEngine)
    and engine.cases not in (_marks.CASES, llamacpp_chain.CASES)
]
WATERMARKS = [name for name, engine in ENGINES.items() if engine.cases == _marks.CASES]
#: The reasons why engines fail the cases of marked rows.
WRONG_MARKS = {"hf_green_list": "repeated contexts: green_list, "}
#: Globs of cases with extremes of every parameter, ties, and tokens without probability.
OPERATION_CASES = [f"*/{family}/v1000/edges" for family in ("gaussian_wide", "masked", "ties_at_k")]


@pytest.mark.parametrize("name", [n for n, e in ENGINES.items() if isinstance(e, OperationEngine)])
def test_operations_keep_their_profile(name):
    engine = engine_or_skip(name)
    record = matrix.run_engine(engine, "smoke", OPERATION_CASES, SEED)
    assert record["red"] == []
    judged = {check for check, counts in record["checks"].items() if counts.get("passed")}
    assert judged == {glob.partition("/")[0] for glob in engine.cases}


@pytest.mark.parametrize("name", [n for n, e in KEEPING.items() if isinstance(e, DraftEngine)])
def test_verifiers_of_drafts_keep_their_profile(name):
    engine = engine_or_skip(name)
    exact, law = engine.checks()
    # Triton's interpreter takes minutes for a distribution.
    slow = "interpreter" in engine.version()
    cases = ["verify/gaussian/v33/unfiltered"] if slow else [f"{exact}/*/v5/*", f"{law}/*/v5/*"]
    record = matrix.run_engine(engine, "smoke", cases, SEED)
    assert record["red"] == []
    assert sum(counts.get("passed", 0) for counts in record["checks"].values()) >= 1


@pytest.mark.parametrize("name", SAMPLERS)
def test_engine_keeps_its_profile(name):
    engine = engine_or_skip(name)
    record = matrix.run_engine(engine, "smoke", CASES, SEED)
    assert record["red"] == []
    verdicts = Counter()
    for counts in record["checks"].values():
        verdicts.update(counts)
    assert verdicts.total() == len(CASES) and set(verdicts) <= {"passed", "skipped"}
    if engine.cases == ("*",) and "reports_mask" in engine.abilities:
        assert verdicts["passed"] == len(CASES)
    assert verdicts["passed"] >= 1


@pytest.mark.parametrize("name", WATERMARKS)
def test_watermarks_follow_key_and_context(name):
    engine = engine_or_skip(name)
    record = matrix.run_engine(engine, "smoke", ["marks/gaussian/v31/unfiltered"], SEED)
    (counts,) = record["checks"].values()
    if name in WRONG_MARKS:
        assert counts == {"failed": 1}
        assert record["red"][0]["message"].startswith(WRONG_MARKS[name])
    else:
        assert counts == {"passed": 1}, record["red"]


@pytest.mark.parametrize("engine", ENGINES.values(), ids=lambda engine: engine.name)
def test_engine_says_what_it_is(engine):
    assert engine.semantics in profile_names()
    assert set(engine.abilities) <= set(get_args(Ability))
    module = engine.make.func if hasattr(engine.make, "func") else engine.make
    page = importlib.import_module(module.__module__).__doc__
    assert f"`{engine.semantics}`" in page and engine.calls


def test_the_tests_of_engines_can_fail():
    # There are two engines: one drops the token that crosses p, and one keeps it. Each of the two
    # engines fails by the other's profile.
    engine = engine_or_skip("rosellm")
    case = "mask/mass_exactly_p/v31/partial_sums"
    filters = "chi_squared/gaussian/v1000/top_k_50+top_p_0.9/t0.7/n100000"
    record = matrix.run_engine(engine, "smoke", [case, filters], SEED, semantics="hf")
    assert [red["verdict"] for red in record["red"]] == ["failed", "failed"]
    assert not record["own_profile"]


def tilted(seed):
    """Draws by numpy's choice from weights that are half of the right weights for odd ids."""

    def sample(batch):
        weights = np.exp(batch.logits.astype(np.float64) / batch.temperature[:, None])
        weights[:, 1::2] /= 2
        random = np.random.default_rng(seed)
        rows = np.arange(batch.rows) if batch.indices is None else batch.indices
        tokens = np.empty((batch.outputs, batch.num_samples), np.int64)
        for output, row in enumerate(rows):
            law = weights[row] / weights[row].sum()
            tokens[output] = random.choice(batch.vocab, size=batch.num_samples, p=law)
        return tokens

    return sample


def version_0():
    return "0"


def engine_of(make, **more):
    fields = {"name": "numpy_choice", "semantics": "fairdraw", "calls": "a test's sampler"}
    return _engine.Engine(
        **fields, version=version_0, make=make, arrays="numpy",
        abilities=("indices", "num_samples"), **more
    )  # fmt: skip


def test_a_red_case_comes_with_the_command_that_repeats_it(monkeypatch, capsys):
    case = "chi_squared/gaussian_wide/v1000/none/t1/n100000"
    wrong = engine_of(tilted)
    record = matrix.run_engine(wrong, "smoke", [case], SEED)
    (red,) = record["red"]
    monkeypatch.setitem(ENGINES, wrong.name, wrong)
    words = red["replay"].replace("'", "").split()[4:]
    assert red["replay"].startswith("python -m fairdraw engines run numpy_choice ")
    assert __main__.main(words) == 1
    assert f"numpy_choice failed {case}: {red['message']}" in capsys.readouterr().out


def test_matrix_counts_every_case_and_says_why_some_were_left_out(tmp_path):
    def missing():
        raise Unavailable("no such package")

    absent = _engine.Engine("absent", "hf", "nothing", missing, tilted)
    without = engine_of(tilted, cases=("*/none/t*",))
    globs = ["chi_squared/*", "replay/*"]
    judged, skipped = (matrix.run_engine(e, "smoke", globs, SEED) for e in (without, absent))
    made = matrix.updated(None, [judged, skipped])
    total = sum(sum(counts.values()) for counts in judged["checks"].values())
    assert total == len(matrix.matching_cases("smoke", globs)) > 4
    assert sum(judged["skip_reasons"].values()) == sum(
        counts.get("skipped", 0) for counts in judged["checks"].values()
    )
    assert skipped["skipped_because"] == "no such package" and not skipped["checks"]
    page = matrix.write(made, tmp_path / "m.json").read_text()
    assert json.loads((tmp_path / "m.json").read_text()) == made
    assert "## Not run: 1" in page and "| absent | no such package |" in page
    assert all(red["replay"] in page for red in judged["red"]) and judged["red"]
    again = matrix.updated(made, [{**skipped, "skipped_because": "still none"}])
    assert [r["skipped_because"] for r in again["engines"]] == ["", "still none"]


def test_time_ends_an_engines_cases_and_says_so():
    globs = ["chi_squared/*", "replay/*"]
    record = matrix.run_engine(engine_of(tilted), "smoke", globs, SEED, seconds=0)
    cases = len(matrix.matching_cases("smoke", globs))
    assert record["skip_reasons"] == {matrix.OUT_OF_TIME: cases}
    assert not record["red"]


def judged_and_skipped(record):
    return sum(sum(counts.values()) for counts in record["checks"].values())


def test_a_process_that_dies_leaves_what_it_has_found(tmp_path, monkeypatch):
    cases = matrix.matching_cases("smoke", [CASES[2], CASES[5]])
    made = []

    def dies_in_its_second_case(seed):
        made.append(seed)
        return tilted(seed) if len(made) == 1 else lambda batch: os._exit(7)

    engine = engine_of(dies_in_its_second_case)
    monkeypatch.setitem(ENGINES, engine.name, engine)
    file = tmp_path / "part.json"
    globs = [word for case in cases for word in ("--case", case)]
    child = os.fork()
    if child == 0:
        __main__.main(["matrix", engine.name, "--suite", "smoke", *globs, "--out", str(file)])
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    (left,) = json.loads(file.read_text())["engines"]
    assert left["running"] == [cases[1]]
    assert judged_and_skipped(left) == 1
    record = matrix.ended(left)
    assert record["running"] == [] and matrix.ended(record) == record
    assert judged_and_skipped(record) == 2
    assert record["skip_reasons"][matrix.NOT_ENDED + cases[1]] == 1
    assert cases[1] in matrix.to_markdown(matrix.updated(None, [record]))


def test_merge_puts_records_in_the_place_of_older_ones(tmp_path, capsys):
    def record(engine, date):
        made = matrix.run_engine(engine_of(tilted), "smoke", ["replay/*"], SEED, seconds=0)
        return {**made, "engine": engine, "date": date}

    files = [tmp_path / name for name in ("all.json", "one.json", "two.json")]
    matrix.write(matrix.updated(None, [record("a", "old"), record("b", "old")]), files[0])
    matrix.write(matrix.updated(None, [record("b", "new")]), files[1])
    absent = {**record("a", "new"), "skipped_because": "no such package"}
    matrix.write(matrix.updated(None, [record("c", "new"), absent]), files[2])
    assert __main__.main(["merge", *map(str, files)]) == 0
    merged = json.loads(files[0].read_text())
    found = [(r["engine"], r["date"]) for r in merged["engines"]]
    assert found == [("a", "old"), ("b", "new"), ("c", "new")]
    # A record of Triton's interpreter does not replace a GPU's record.
    interpreted = {**record("b", "newer"), "version": f"triton 3, {_engine.INTERPRETER}"}
    both = matrix.updated(matrix.updated(merged, [interpreted]), [record("b", "newest")])
    assert [r["date"] for r in both["engines"]] == ["old", "newest", "new", "newer"]
    assert f"| b in {_engine.INTERPRETER} | fairdraw |" in matrix.to_markdown(both)
    assert files[0].with_suffix(".md").read_text() == matrix.to_markdown(merged)
    assert str(files[0].with_suffix(".md")) in capsys.readouterr().out


def test_masks_are_written_where_the_judge_reads_them():
    vocab, rows = 70, 3
    kept = np.random.default_rng(1).random((rows, vocab)) < 0.5
    words = np.zeros((rows, (vocab + 31) // 32), np.uint32)
    sizes = np.zeros(2, np.int32)
    batch = SimpleNamespace(
        rows=rows, vocab=vocab, out_mask=words, out_support_size=sizes, indices=np.array([2, 0])
    )
    _engine.report_kept(batch, kept)
    bits = [[(int(words[r, t // 32]) >> (t % 32)) & 1 for t in range(vocab)] for r in range(rows)]
    assert np.array_equal(np.array(bits, bool), kept)
    assert sizes.tolist() == [kept[2].sum(), kept[0].sum()]
    batch.allowed = words
    assert np.array_equal(_engine.allowed_ids(batch), kept)
    batch.allowed = None
    assert _engine.allowed_ids(batch) is None


def test_committed_page_is_that_of_the_committed_matrix():
    made = json.loads(BASELINE.read_text())
    assert BASELINE.with_suffix(".md").read_text() == matrix.to_markdown(made)
    ran = {record["engine"] for record in made["engines"] if record["checks"]}
    assert len(ran) >= 4
    for record in made["engines"]:
        reds = sum(
            count
            for counts in record["checks"].values()
            for verdict, count in counts.items()
            if verdict not in ("passed", "skipped")
        )
        assert reds == len(record["red"])


@pytest.mark.parametrize(
    "words, message",
    [
        (["run", "nothing"], "unknown engine 'nothing'"),
        (["run", "hf", "--case", "none/*"], "no case of suite smoke matches none/"),
        (["run", "hf", "--semantics", "hff"], "unknown profile 'hff'"),
        (["matrix", "hf", "--suite", "all"], "invalid choice"),
    ],
)
def test_bad_words_are_named(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        __main__.main(words)
    assert message in capsys.readouterr().err + str(ended.value)


def test_list_names_every_engine(capsys):
    assert __main__.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()[::2]
    assert [line.split()[0] for line in lines] == list(ENGINES)
    here = [name for name, engine in ENGINES.items() if not why_not(engine)]
    assert [line.split()[0] for line in lines if "not here:" not in line] == here


@pytest.mark.parametrize(
    "wheel, message",
    [
        ("", "names no wheel"),
        ("nothing-1.0-py3-none-any.whl", "not named as a wheel of vllm"),
        ("vllm-1.0-py3-none-any.whl", "No such file"),
    ],
)
def test_a_wheel_that_is_not_there_is_named(wheel, message, tmp_path, monkeypatch):
    from fairdraw_engines import _vllm_wheel

    monkeypatch.setenv(_vllm_wheel.WHEEL, str(tmp_path / wheel) if wheel else "")
    with pytest.raises(Unavailable, match=message):
        _vllm_wheel.wheel_source("vllm/__init__.py")
