"""Tests fairdraw.verify on objects that keep requests. Correct objects pass, wrong objects fail,
and messages describe the behaviour of a wrong object."""

import gc
import re

import numpy as np
import pytest

import fairdraw
from running_batches import (
    EXACT,
    InPython,
    KeepsTheOutputOfTheEvicted,
    OfTheLibrary,
    ParametersOfTheFormerRequest,
    StartsTheOffsetAgain,
)
from samplers import Textbook, exact
from test_verify import one_case

SEED = 1
CASES = "sequences/*"
#: The declarations lack EXACT's arithmetic, so that the running batch is compared with itself.
OWN_ARITHMETIC = {
    **EXACT,
    "abilities": [name for name in EXACT["abilities"] if name != "exact_integer"],
}


def judged(running_batch, case=CASES, seed=SEED, suite="smoke", claim=EXACT, **more):
    return fairdraw.verify(
        running_batch=running_batch, suite=suite, case=case, seed=seed, **{**claim, **more}
    )


def verdicts(report):
    return {case.verdict for case in report.cases if case.verdict != "skipped"}


@pytest.mark.parametrize("claim", [EXACT, OWN_ARITHMETIC], ids=["exact", "own arithmetic"])
@pytest.mark.parametrize("right", [OfTheLibrary, InPython])
def test_a_right_one_passes(right, claim):
    report = judged(right, claim=claim)
    assert verdicts(report) == {"passed"}, str(report.failures)
    # The cases for running batches need no ability that the object lacks except bfloat16.
    skipped = [case.message for case in report.cases if case.verdict == "skipped"]
    assert set(skipped) == {"takes no bfloat16 logits"}
    restored = [case.raw["measures"]["restored"] for case in report.cases if case.draws > 0]
    assert len(restored) == len(report.cases) - len(skipped) and min(restored) > 0


def test_bfloat16_in_numpy_is_its_bits():
    types = set()

    class Bits(OfTheLibrary):
        def begin(self, slots, vocab, dtype, *rules):
            self.dtype = dtype
            super().begin(slots, vocab, dtype, *rules)

        def step(self, slots, logits, allowed):
            types.add((self.dtype, logits.dtype))
            if self.dtype == "bfloat16":
                logits = (logits.astype(np.uint32) << 16).view(np.float32)
            return super().step(slots, logits, allowed)

    report = judged(Bits, abilities=[*EXACT["abilities"], "bfloat16"])
    assert verdicts(report) == {"passed"}, str(report.failures)
    assert not [case for case in report.cases if case.verdict == "skipped"]
    assert types == {("float32", np.dtype(np.float32)), ("bfloat16", np.dtype(np.uint16))}


def test_torch_tensors_and_bfloat16():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    types = set()

    class Tensors(OfTheLibrary):
        def step(self, slots, logits, allowed):
            types.add((slots.dtype, logits.dtype, None if allowed is None else allowed.dtype))
            mask = None if allowed is None else allowed.numpy().view(np.uint32)
            tokens, statuses = super().step(slots.numpy(), logits, mask)
            return tokens, statuses

    able = [*EXACT["abilities"], "bfloat16"]
    report = judged(Tensors, arrays="torch", abilities=able)
    assert verdicts(report) == {"passed"}, str(report.failures)
    assert not [case for case in report.cases if case.verdict == "skipped"]
    assert (torch.int32, torch.bfloat16, torch.int32) in types


@pytest.mark.parametrize("claim", [EXACT, OWN_ARITHMETIC], ids=["exact", "own arithmetic"])
@pytest.mark.parametrize(
    "wrong", [KeepsTheOutputOfTheEvicted, StartsTheOffsetAgain, ParametersOfTheFormerRequest]
)
def test_a_wrong_one_fails(wrong, claim):
    report = judged(wrong, claim=claim)
    assert "failed" in verdicts(report), str(report)
    (first, *_) = report.failures
    # The token is wrong, and the message names the token's request.
    assert re.search(r"step \d+, row \d+ of \d+: slot \d+, request \d+", first.message)


def test_one_without_processing_gets_requests_without_it():
    seen = []

    class Filters(InPython):
        def add(self, slot, request):
            seen.append((request.prompt, request.bias, request.presence_penalty))
            super().add(slot, request)

    able = [name for name in EXACT["abilities"] if name != "processing"]
    report = judged(Filters, abilities=able)
    assert verdicts(report) == {"passed"}, str(report.failures)
    assert seen and set(map(str, seen)) == {"((), {}, 0.0)"}


def test_it_agrees_with_the_sampler_next_to_it():
    def with_next_seed(batch):
        return fairdraw.sample(
            batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
            seed=batch.seed + np.uint64(1), offset=batch.offset,
        )  # fmt: skip

    claim = {"abilities": ["per_request_seeds"], "randomness": EXACT["randomness"]}

    class TokensAlone(InPython):
        def step(self, *rows):
            return super().step(*rows)[0]

    def report_of(sampler):
        return fairdraw.verify(
            sampler, running_batch=TokensAlone, suite="smoke", case=CASES, seed=SEED, **claim
        )

    assert verdicts(report_of(exact_tokens)) == {"passed"}
    report = report_of(with_next_seed)
    assert verdicts(report) == {"failed"}
    assert "in a call that has all values of the request" in report.failures[0].message
    replay = report.failures[0].replay
    assert "fairdraw.verify(with_next_seed, running_batch=TokensAlone, " in replay


def exact_tokens(batch):
    return fairdraw.sample(
        batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p,
        seed=batch.seed, offset=batch.offset,
    )  # fmt: skip


def test_a_sampler_without_one_keeps_no_requests():
    report = fairdraw.verify(exact, suite="smoke", case=CASES, seed=SEED)
    assert {case.message for case in report.cases} == {"keeps no requests"}


def test_other_cases_are_not_for_a_running_batch_alone():
    report = judged(OfTheLibrary, case="se*")
    assert {case.check for case in report.cases} == {"sequences"}
    with pytest.raises(ValueError, match="case is 'support/\\*'; allowed without a sampler"):
        judged(OfTheLibrary, case="support/*")


def test_other_cases_are_for_the_sampler_next_to_it():
    report = fairdraw.verify(
        Textbook(), running_batch=OfTheLibrary, suite="smoke", case=one_case("support"), seed=SEED,
        abilities=["processing"],
    )  # fmt: skip
    assert [case.verdict for case in report.cases] == ["passed"]
    processed = fairdraw.verify(
        Textbook(), running_batch=OfTheLibrary, suite="smoke", case="processing/*", seed=SEED,
        abilities=["processing"],
    )  # fmt: skip
    # Batches for callables have no processing.
    assert {case.verdict for case in processed.cases} == {"skipped"}


class NoStatuses(OfTheLibrary):
    def step(self, *rows):
        return super().step(*rows)[0]


class Raises(OfTheLibrary):
    def restore(self, slot, request, output):
        raise KeyError(slot // 8)


class WritesIntoLogits(OfTheLibrary):
    def step(self, slots, logits, allowed):
        logits[0, 0] = 1


class NoEnd(OfTheLibrary):
    end = None


def answers(change):
    class Changed(OfTheLibrary):
        def step(self, slots, logits, allowed):
            return change(*super().step(slots, logits, allowed))

    return Changed


@pytest.mark.parametrize(
    "bad, message",
    [
        (Raises, r"\(restore\): call refused: the running batch's restore raised KeyError: 0"),
        (WritesIntoLogits, r"\(step\): .*step raised ValueError: assignment destination is read-only"),
        (NoEnd, r"event 1 \(begin\): .*running_batch\(\) returned a NoEnd, which has no method end"),
        (lambda: 3, r"running_batch\(\) returned a int, which has no method begin"),
        (lambda: 1 / 0, r"running_batch\(\) raised ZeroDivisionError: division by zero"),
        (NoStatuses, r"step returned a ndarray; a tuple \(tokens, statuses\) is needed"),
        (answers(lambda tokens, _: (tokens[:-1], [])), r"returned tokens of shape \[\d+\]; \[\d+\] is"),
        (answers(lambda tokens, _: (tokens[None], [])), r"returned tokens of shape \[1, \d+\]; \[\d+\]"),
        (answers(lambda tokens, _: (tokens / 2, [])), "returned float64 values; token ids are int32"),
        (answers(lambda tokens, _: (tokens, None)), "step returned None; statuses are needed"),
        (answers(lambda tokens, _: (tokens, [0])), "step returned 1 statuses; [2-8] are needed"),
        (
            answers(lambda tokens, all: (tokens, all * 1.0)),
            "step returned float64 values; statuses are int32 or int64",
        ),
        (
            answers(lambda tokens, all: (tokens.tolist()[:-1] + [2**31], all)),
            r"step returned id 2147483648 at position \d+, which is outside int32",
        ),
    ],
)  # fmt: skip
def test_what_is_bad_fails_the_case_by_name(bad, message):
    report = judged(bad, case=one_case("sequences"))
    (case,) = report.cases
    assert case.verdict == "failed"
    assert re.search(message, case.message), case.message


def test_the_arrays_of_a_step_are_lent_and_the_request_is_not():
    requests = []

    class KeepsRequests(OfTheLibrary):
        def restore(self, slot, request, output):
            requests.append((request, output))
            super().restore(slot, request, output)

    assert verdicts(judged(KeepsRequests)) == {"passed"}
    gc.collect()
    assert all(isinstance(output, list) for _, output in requests)
    assert any(output for _, output in requests) and all(r.top_k >= -1 for r, _ in requests)

    kept = []

    class KeepsLogits(OfTheLibrary):
        def step(self, slots, logits, allowed):
            kept.append(logits)
            return super().step(slots, logits, allowed)

    report = judged(KeepsLogits)
    assert verdicts(report) == {"failed"}
    says = "the running batch's step kept an array of an earlier step"
    assert all(says in case.message for case in report.cases if case.verdict == "failed")
    assert len(kept) == 1  # no second call, because the object could read memory that was freed
    kept.clear()


def test_each_case_has_one_of_its_own():
    made = []

    class Counted(OfTheLibrary):
        def __init__(self):
            made.append(self)

    report = judged(Counted, jobs=4)
    ran = [case for case in report.cases if case.verdict != "skipped"]
    assert verdicts(report) == {"passed"} and len(made) == len(ran) > 1


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"running_batch": None}, TypeError, "a sampler or a running_batch is needed"),
        ({"running_batch": OfTheLibrary()}, TypeError, "running_batch: a class or a function"),
        ({"sampler": "cpu"}, TypeError, "running_batch: needs a callable as sampler"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    call = {"running_batch": OfTheLibrary, "suite": "smoke", "case": CASES, **arguments}
    with pytest.raises(error, match=message):
        fairdraw.verify(**call)
