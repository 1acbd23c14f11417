"""Tests that fairdraw.fuzz finds the defects of a wrong callable, and finds no defect in a correct
callable."""

import os
import signal
import threading

import numpy as np
import pytest

import fairdraw

CASES = 200


def right(batch):
    return fairdraw.sample(
        batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
        seed=batch.seed, offset=batch.offset,
    )  # fmt: skip


def test_a_right_callable_passes():
    found = fairdraw.fuzz(right, abilities=["per_request_seeds"], cases=CASES, seed=1)
    assert found.verdict == "passed" and not found.findings, str(found)
    assert found.cases == CASES and found.judged > CASES / 4
    assert found.seed == 1 and found.seed_source
    found.raise_for_failures()


def test_the_distribution_too():
    found = fairdraw.fuzz(right, abilities=["per_request_seeds"], cases=5, seed=1, statistical=True)
    assert found.verdict == "passed", str(found)


def test_a_wrong_one_is_found_and_the_call_is_shrunk():
    def first(batch):  # gives rows without a token an id instead of -1
        return batch.logits.argmax(-1)

    lacks = ["top_k", "top_p", "min_p"]
    found = fairdraw.fuzz(first, lacks=lacks, cases=CASES, seed=1)
    assert found.verdict == "failed"
    (finding,) = found.findings
    assert finding.message and finding.shrunk
    again = fairdraw.fuzz(first, lacks=lacks, first_case=finding.case, cases=1, seed=1)
    assert again.findings == [finding]
    with pytest.raises(fairdraw.VerificationFailed, match=finding.property):
        found.raise_for_failures()


def test_what_raises_is_a_finding_and_ctrl_c_is_not():
    def broken(batch):
        raise ArithmeticError("no luck")

    found = fairdraw.fuzz(broken, cases=20, seed=1)
    assert "ArithmeticError: no luck" in found.findings[0].message

    ctrl_c = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    ctrl_c.start()
    found = fairdraw.fuzz(right, abilities=["per_request_seeds"], seconds=60, seed=1)
    ctrl_c.join()
    assert not found.findings and found.seconds < 60
    assert found.incomplete == "interrupted by Ctrl-C" and found.verdict == "underpowered"


def test_the_rows_of_a_finding_run_in_python_alone():
    def wrong(batch):  # fails if there is a single token, or no row
        if batch.vocab == 1 or batch.rows == 0:
            raise ArithmeticError(f"no luck with {batch.rows} x {batch.logits.shape[1]}")
        return right(batch)

    found = fairdraw.fuzz(wrong, abilities=["per_request_seeds"], cases=2000, seed=1)
    (finding,) = found.findings
    assert "ArithmeticError: no luck with" in finding.message
    assert "import fairdraw" not in finding.python_call and finding.c_call.startswith("#include")
    with pytest.raises(ArithmeticError) as raised:
        exec(finding.python_call, {"sampler": wrong})  # noqa: S102
    assert f"{raised.value}" in finding.message
    with pytest.raises(fairdraw.VerificationFailed) as failed:
        found.raise_for_failures()
    assert finding.python_call in str(failed.value)
    exec(finding.python_call, {"sampler": lambda batch: batch.out_tokens})  # noqa: S102


def test_a_search_shows_infinities_as_each_language_has_them():
    def picky(batch):
        if np.isneginf(batch.logits).any():
            raise ArithmeticError("a banned token")
        return right(batch)

    found = fairdraw.fuzz(picky, abilities=["per_request_seeds"], cases=2000, seed=1)
    (finding,) = found.findings
    assert "-inf" in finding.python_call and "-INFINITY" in finding.c_call
    with pytest.raises(ArithmeticError, match="a banned token"):
        exec(finding.python_call, {"sampler": picky})  # noqa: S102


def test_built_in_samplers_by_name():
    assert fairdraw.fuzz("cpu", cases=50, seed=2).verdict == "passed"
    assert fairdraw.fuzz("cpu", cases=50, seed=2, property="mask.*").judged > 0


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"sampler": 3}, TypeError, "sampler: a callable or the name"),
        ({"sampler": None}, TypeError, "sampler: a callable or the name"),
        ({"seconds": 0}, ValueError, "seconds is 0; allowed: a number above 0, or None"),
        ({"seconds": float("inf")}, ValueError, "seconds is inf; allowed"),
        ({"cases": 0}, ValueError, "cases is 0; allowed: 1 to 2"),
        ({"first_case": -1}, ValueError, "first_case is -1; allowed: 0 to 2"),
        ({"property": 3}, TypeError, "property is 3; allowed: a string"),
        ({"property": "no_such"}, ValueError, "no_such"),
        ({"abilities": ["indexes"]}, ValueError, "did you mean 'indices'"),
        ({"semantics": "vlm_torch"}, ValueError, "did you mean 'vllm_torch'"),
        ({"seed": 1, "seed_from": "x"}, ValueError, "seed and seed_from are both given"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    call = {"sampler": right, "cases": 1, **arguments}
    with pytest.raises(error, match=message):
        fairdraw.fuzz(**call)


def test_arrays_are_those_that_are_asked_for():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    seen = []

    def tokens(batch):
        seen.append(type(batch.logits))
        return np.zeros(len(batch.temperature), np.int32)

    fairdraw.fuzz(tokens, arrays="torch", cases=3, seed=1)
    assert set(seen) == {torch.Tensor}
