"""Tests fairdraw.verify: correct callables pass, wrong callables fail, and messages describe the
behaviour of wrong callables."""

import ctypes
import gc
import json
import platform
import re
import threading
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import fairdraw
from fairdraw import _core, verification
from samplers import EXACT, EXACT_PROBS, Proposing, Reporting, Textbook, exact, exact_probs

SEED = 1  # the seed of all runs in this file; the expected results were observed with this seed
OPERATIONS = ("softmax", "log_softmax", "top_k_mask_logits", "min_p_mask_logits")
OPERATIONS += ("top_k_renorm_probs", "top_p_renorm_probs")
NO_OPERATIONS = {f"has no operation {name}" for name in OPERATIONS}


def one_case(check, suite="smoke", **more):
    """Returns a case of the check that fits a callable on float32 logits."""
    ids = [case for case in fairdraw.case_ids(suite) if case.startswith(check + "/")]
    return next(c for c in ids if "/probs" not in c and "float16" not in c and "/banned" not in c)


def reasons_for_skips(report):
    return {case.message for case in report.cases if case.verdict == "skipped"}


def test_exact_callable_passes_the_smoke_suite():
    report = fairdraw.verify(exact, suite="smoke", seed=SEED, **EXACT)
    assert report.verdict == "passed", str(report.failures)
    report.raise_for_failures()
    assert reasons_for_skips(report) == {
        *NO_OPERATIONS,
        "keeps no requests",
        "marks no rows by a key alone",
        "marks no rows by a key and a seed",
        "marks no rows by a key alone, marks no rows by a key and a seed, marks no rows by green "
        "lists",
        "takes no bfloat16 logits",
        "takes no logits processing",
        "takes no probabilities",
        "takes no random words",
        "verifies no drafted chains",
        "verifies no requests with drafts",
    }


def test_exact_callable_passes_on_probabilities():
    report = fairdraw.verify(exact_probs, suite="smoke", case="*/probs*", seed=SEED, **EXACT_PROBS)
    assert report.verdict == "passed", str(report.failures)
    assert reasons_for_skips(report) == {
        "takes no bfloat16 logits",
        "takes no random words",
    }


def test_exact_callable_passes_on_torch_tensors():
    pytest.importorskip("torch", reason="torch is not installed")
    able = {**EXACT, "abilities": [*EXACT["abilities"], "bfloat16"]}
    no_probs = {"takes no probabilities"}
    no_requests = {
        *NO_OPERATIONS,
        "keeps no requests",
        "takes no logits processing",
        "verifies no requests with drafts",
    }
    for case, reasons in {"*16/*": no_probs | no_requests, "metamorphic/*": no_probs}.items():
        report = fairdraw.verify(exact, suite="smoke", case=case, seed=SEED, arrays="torch", **able)
        assert report.verdict == "passed", str(report.failures)
        assert reasons_for_skips(report) == reasons


def test_textbook_sampler_passes_and_a_wrong_temperature_does_not():
    case = one_case("chi_squared")
    right = fairdraw.verify(Textbook(), suite="smoke", case=case, seed=SEED)
    assert [c.verdict for c in right.cases] == ["passed"], right.cases
    wrong = fairdraw.verify(Textbook(temperature_error=1.3), suite="smoke", case=case, seed=SEED)
    assert wrong.verdict == "failed" and wrong.exit_code == 1
    with pytest.raises(
        fairdraw.VerificationFailed, match="replay: import fairdraw; fairdraw.verify"
    ):
        wrong.raise_for_failures()


def test_sampler_that_proposes_with_words_of_its_own_passes():
    for case in ("support/*", "chi_squared/gaussian/v1000/top_k_50+top_p_0.9/t0.7/*"):
        report = fairdraw.verify(Proposing(), suite="smoke", case=case, seed=SEED)
        verdicts = [c.verdict for c in report.cases]
        assert "passed" in verdicts and set(verdicts) <= {"passed", "skipped"}, report.cases


@pytest.mark.parametrize("semantics", ["fairdraw", "vllm_torch"])
def test_log_probabilities_in_float32_pass_and_wrong_ones_do_not(semantics):
    def judged(wrong=None):
        report = fairdraw.verify(
            Reporting(wrong), semantics=semantics, suite="smoke", case="logprobs/*/everyday*",
            seed=SEED, **Reporting.CLAIM,
        )  # fmt: skip
        # The callable supports neither 16-bit logits nor processing.
        asked = [c for c in report.cases if "float16" not in c.id and "/processed" not in c.id]
        verdicts = [case.verdict for case in asked]
        return report, set(verdicts)

    right, verdicts = judged()
    assert verdicts == {"passed"}, str(right.failures)
    assert "failed" in judged("rank")[1]
    assert "failed" in judged("temperature")[1]


def test_log_probabilities_do_not_underflow():
    rows = np.zeros((2, 64), np.float32)
    rows[:, 0] = 200  # e^-200 underflows in float32
    assert np.isfinite(fairdraw.sample(rows, logprobs=-1)[1].all).all()


def test_a_result_that_was_kept_can_be_read_after_the_run():
    kept = []

    def keeping(batch):
        kept.append(batch.out_tokens)
        return exact(batch)

    case = one_case("mask")
    report = fairdraw.verify(keeping, suite="smoke", case=case, seed=SEED, **EXACT)
    assert "kept an array of an earlier batch" in report.cases[0].message
    # The read does not crash, because the memory is still mapped.
    assert kept and all(int(tokens.sum()) >= 0 for tokens in kept)


def constant(value):
    return lambda batch: value


def out_of_range(batch):
    return [batch.vocab] * batch.outputs


def raises(batch):
    raise KeyError("weights")


def exits(batch):
    raise SystemExit(0)


class NoText(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises_without_text(batch):
    raise NoText


@pytest.mark.parametrize(
    "function, message",
    [
        (raises, "the callable raised KeyError: 'weights'"),
        (raises_without_text, "the callable raised NoText"),
        (exits, "the callable raised SystemExit: 0"),
        (constant(None), "the callable returned None"),
        (constant("abc"), "returned a str; an array or a list"),
        (constant(3), "returned a int"),
        (constant([]), "returned 0 tokens"),
        (lambda b: [1.0] * b.outputs, "returned a float at position 0; token ids are integers"),
        (lambda b: ["1"] * b.outputs, "returned a str at position 0"),
        (lambda b: [2**40] * b.outputs, "returned id 1099511627776 at position 0"),
        (lambda b: [[1, 2]] * b.outputs, "returned 2 samples of an output; 1 are needed"),
        (lambda b: np.zeros(b.outputs, np.float32), "returned float32 values"),
        (lambda b: np.zeros(b.outputs, bool), "returned bool values"),
        (lambda b: np.zeros(b.outputs - 1, int), r"returned tokens of shape \[\d+\]; \[\d+\] is"),
        (lambda b: np.zeros((b.outputs, 2), int), r"returned tokens of shape \[\d+, 2\]"),
        (lambda b: np.full(b.outputs, -(2**40)), "returned id -1099511627776"),
        (lambda b: np.zeros(b.outputs, object), "returned a ndarray"),
    ],
)
def test_bad_results_fail_the_case_by_name(function, message):
    report = fairdraw.verify(
        function, suite="smoke", case=one_case("support"), seed=SEED, name="bad"
    )
    (case,) = report.cases
    assert case.verdict == "failed"
    assert re.search(message, case.message), case.message
    assert case.replay.endswith(
        f', semantics="fairdraw", suite="smoke", case="{case.id}", seed={SEED}, name="bad")'
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="which bits they are is the machine's")
def test_traps_that_a_callable_leaves_fail_the_case_and_stay_there():
    def traps(batch):
        invalid, division_by_zero = 1, 4
        ctypes.CDLL("libm.so.6").feenableexcept(invalid | division_by_zero)
        return [0] * batch.outputs

    case = one_case("support")
    report = fairdraw.verify(traps, suite="smoke", case=case, seed=SEED, name="traps")
    assert [c.verdict for c in report.cases] == ["failed"]
    says = "left floating-point exceptions unmasked (invalid operation, division by zero)"
    assert says in report.cases[0].message
    with np.errstate(divide="ignore"):
        assert np.isinf(np.float32(1) / np.zeros(1, np.float32)).all()


@pytest.mark.parametrize("check", ["support", "chi_squared"])
@pytest.mark.parametrize("function", [out_of_range, lambda b: [-5] * b.outputs])
def test_ids_outside_the_vocabulary_fail(function, check):
    report = fairdraw.verify(function, suite="smoke", case=one_case(check), seed=SEED, name="bad")
    assert [case.verdict for case in report.cases] == ["failed"]


def test_a_failing_callable_fails_each_case_and_the_run_goes_on():
    calls = []

    def sometimes(batch):
        calls.append(batch.rows)
        if len(calls) == 1:
            raise RuntimeError("the first call only")
        return np.argmax(batch.logits, axis=1)

    report = fairdraw.verify(sometimes, suite="smoke", case="support/*", seed=SEED, jobs=1)
    verdicts = [case.verdict for case in report.cases if case.verdict != "skipped"]
    assert verdicts[0] == "failed" and "passed" in verdicts


def test_arrays_are_lent_and_not_copied():
    seen = []

    def look(batch):
        address = batch.logits.__array_interface__["data"][0]
        again = batch.logits.__array_interface__["data"][0]
        seen.append(address == again and not batch.logits.flags.writeable)
        seen.append(batch.logits.flags.owndata is False)
        with pytest.raises(ValueError, match="read-only"):
            batch.logits[0, 0] = 1
        batch.out_tokens[:, 0] = np.argmax(batch.logits, axis=1)
        return batch

    report = fairdraw.verify(look, suite="smoke", case=one_case("support"), seed=SEED)
    assert report.verdict == "passed" and seen and all(seen)


def test_keeping_an_array_is_a_failure_that_says_so():
    kept = []

    def keep(batch):
        kept.append(batch.temperature)
        return np.argmax(batch.logits, axis=1)

    report = fairdraw.verify(keep, suite="smoke", case="support/*", seed=SEED)
    red = [case for case in report.cases if case.verdict != "skipped"]
    assert red and all("kept an array of an earlier batch" in case.message for case in red)
    assert len(kept) == 1  # no second call, because the callable could read memory that was freed
    kept.clear()


def test_a_batch_that_is_over_says_so():
    kept = []

    def keep(batch):
        kept.append(batch)
        return np.argmax(batch.logits, axis=1)

    report = fairdraw.verify(keep, suite="smoke", case=one_case("support"), seed=SEED)
    assert report.verdict == "passed"
    with pytest.raises(RuntimeError, match="the call of this batch has ended"):
        _ = kept[0].logits
    gc.collect()


def test_one_call_at_a_time_whatever_jobs_is():
    inside = threading.Semaphore(1)

    def alone(batch):
        assert inside.acquire(blocking=False), "two calls at once"
        try:
            return Textbook()(batch)
        finally:
            inside.release()

    report = fairdraw.verify(alone, suite="smoke", case="support/*", seed=SEED, jobs=4)
    assert not any("two calls at once" in case.message for case in report.cases)
    assert "passed" in {case.verdict for case in report.cases}


def test_same_seed_same_report_whatever_jobs_is():
    def records(jobs):
        report = fairdraw.verify(
            "cpu:scalar", suite="smoke", case="support/*", seed=SEED, jobs=jobs
        )
        return [{**case.raw, "seconds": 0} for case in report.cases]

    assert records(1) == records(3)


def test_report_files(tmp_path):
    report = fairdraw.verify("cpu:scalar", suite="smoke", case=one_case("support"), seed=SEED)
    folder = report.write(tmp_path / "report")
    names = {path.name for path in folder.iterdir()}
    assert names == {"index.html", "summary.md", "junit.xml", "report.json"}
    assert (folder / "report.json").read_text() == report.to_json()
    assert json.loads(report.to_json())["seed"]["value"] == str(SEED)
    assert "1 passed" in str(report) and "passed" in repr(report)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(RuntimeError, match="cannot write"):
        report.write(blocked)


def test_progress_sees_every_case_and_its_exception_ends_the_run():
    lines = []
    report = fairdraw.verify(
        "cpu:scalar",
        suite="smoke",
        case="support/*",
        seed=SEED,
        progress=lambda line, done, all_cases: lines.append((done, all_cases)),
    )
    count = len(report.cases)
    assert lines == [(i + 1, count) for i in range(count)]

    def stop(line, done, all_cases):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fairdraw.verify(Textbook(), suite="smoke", case="support/*", seed=SEED, progress=stop)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"sampler": 3}, TypeError, "sampler: a callable or the name"),
        ({"sampler": "cpu:avx3"}, ValueError, "unknown sampler 'cpu:avx3'"),
        ({"semantics": "vlm_torch"}, ValueError, "did you mean 'vllm_torch'"),
        ({"suite": "gates"}, ValueError, "did you mean 'gate'"),
        ({"abilities": ["indexes"]}, ValueError, "did you mean 'indices'"),
        ({"abilities": "indices"}, TypeError, "abilities is 'indices'; allowed: a sequence"),
        ({"abilities": None}, TypeError, "abilities is None; allowed: a sequence of names"),
        ({"logits": "a.npy"}, TypeError, "logits is 'a.npy'; allowed: a sequence of paths"),
        ({"logits": 3}, TypeError, "logits is 3; allowed: a sequence of paths"),
        ({"logits": [3]}, TypeError, r"logits\[0\] is 3; allowed: a path, or \(path, dtype\)"),
        ({"randomness": ["seed"]}, ValueError, "did you mean 'seeds'"),
        ({"abilities": ["indices", 3]}, ValueError, r"abilities\[1\] is 3; allowed: 'active_rows'"),
        (
            {"lacks": ["topk"]},
            ValueError,
            r"lacks\[0\] is 'topk'; did you mean 'top_k'\? allowed: ",
        ),
        ({"arrays": "tensor"}, ValueError, "arrays is 'tensor'; allowed: 'numpy', 'torch'"),
        ({"device": "tpu"}, ValueError, "device is 'tpu'; allowed: 'cpu'"),
        ({"device": "cuda:99"}, ValueError, "device is 'cuda:99'; allowed: 'cpu'"),
        ({"semantics": None}, ValueError, "semantics is None; allowed: "),
        ({"suite": 1}, ValueError, "suite is 1; allowed: 'smoke', 'gate', 'nightly'"),
        ({"name": 1}, TypeError, "name is 1; allowed: a string, or None"),
        ({"version": 2.0}, TypeError, "version is 2.0; allowed: a string"),
        ({"case": 3}, TypeError, "case is 3; allowed: a string, or None"),
        ({"seed_from": 3}, TypeError, "seed_from is 3; allowed: a string, or None"),
        ({"seed": "7"}, TypeError, "seed is '7'; allowed: an integer, 0 to 2"),
        ({"seed": 2**64}, ValueError, "seed is 18446744073709551616; allowed: 0 to 2"),
        ({"jobs": 1.5}, TypeError, "jobs is 1.5; allowed: an integer, >= 0"),
        ({"progress": "yes"}, TypeError, "progress is 'yes'; allowed: True, False"),
        ({"case": "support/none"}, ValueError, "unknown case 'support/none'"),
        ({"seed": -1}, ValueError, r"seed is -1; allowed: 0 to 2\^64 - 1"),
        ({"seed": 1, "seed_from": "x"}, ValueError, "seed and seed_from are both given"),
        ({"logits": ["/nowhere.npy"]}, ValueError, "nowhere.npy"),
        ({"jobs": -1}, ValueError, "jobs is -1"),
        ({"require": "seeds"}, TypeError, "require is 'seeds'; allowed: a sequence of names"),
        ({"require": ["seedz"]}, ValueError, r"require\[0\] is 'seedz'; did you mean 'seeds'"),
        ({"require": ["top_p", "top_p"]}, ValueError, r"require\[1\] is 'top_p'; allowed: each"),
        ({"max_skipped": "few"}, TypeError, "max_skipped is 'few'; allowed: a percentage"),
        ({"max_skipped": 101}, ValueError, "max_skipped is 101; allowed: 0 to 100"),
        ({"max_skipped": float("nan")}, ValueError, "max_skipped is nan; allowed: 0 to 100"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    call = {"sampler": exact, "suite": "smoke", "case": "support/*", **arguments}
    with pytest.raises(error, match=message):
        fairdraw.verify(**call)


@pytest.mark.parametrize(
    "names, known",
    [
        (verification.Suite, _core.suite_names()),
        (verification.Ability, _core.ability_names()),
        (verification.Filter, _core.filter_names()),
        (verification.Declinable, _core.declinable_names()),
        (verification.ProcessingStep, _core.processing_step_names()),
        (verification.Promise, _core.promise_names()),
    ],
)
def test_types_of_arguments_name_what_the_module_knows(names, known):
    assert sorted(get_args(names)) == sorted(known)


def test_what_was_not_judged_is_said_and_may_be_required():
    how = {"suite": "smoke", "case": "*/gaussian_wide/v1000/*alone", "seed": SEED}

    def tokens(batch):
        return fairdraw.sample(
            batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p
        )

    report = fairdraw.verify(tokens, lacks=["min_p"], **how)
    assert report.verdict == "passed"
    features = {one["name"]: one for one in report.coverage["features"]}
    assert features["top_p"]["judged"] and features["top_p"]["ran"] > 0
    assert {"min_p", "masks", "seeds"} <= set(report.not_judged)
    # An ability that the callable does not claim is not a gap in the coverage.
    assert features["exact_integer"]["claim"] and "exact_integer" not in report.not_judged
    lacks = {one["ability"]: one for one in report.coverage["undeclared"]}
    assert "seeds" in lacks["per_request_seeds"]["features"]
    assert lacks["min_p"]["features"] == ["min_p"]
    assert report.coverage["ran"] == sum(case.verdict == "passed" for case in report.cases)

    assert fairdraw.verify(tokens, lacks=["min_p"], require=["top_p"], **how).verdict == "passed"
    weak = fairdraw.verify(tokens, lacks=["min_p"], require=["top_p", "min_p"], **how)
    assert weak.verdict == "underpowered" and weak.exit_code == 3
    with pytest.raises(
        fairdraw.VerificationFailed, match="NOT JUDGED: tokens: min_p was not judged"
    ):
        weak.raise_for_failures()
    skipped = 100 * report.coverage["skipped"] / report.coverage["cases"]
    for limit, verdict in ((skipped, "passed"), (skipped - 0.1, "underpowered")):
        assert fairdraw.verify(tokens, lacks=["min_p"], max_skipped=limit, **how).verdict == verdict


def test_case_ids_name_what_they_refuse():
    with pytest.raises(
        ValueError, match=r"suite is 'gates'; did you mean 'gate'\? allowed: 'smoke'"
    ):
        fairdraw.case_ids("gates")
    with pytest.raises(TypeError, match="logits is 3; allowed"):
        fairdraw.case_ids("smoke", logits=3)


def test_stub_names_what_the_module_has():
    stub = (Path(fairdraw.__file__).parent / "_core.pyi").read_text()
    for name in dir(_core):
        if not name.startswith("__"):
            known = (f"def {name}(", f"class {name}:", f"class {name}(", f"\n{name}: ")
            assert any(text in stub for text in known), name
    for name in {*dir(fairdraw.Batch), *dir(fairdraw.DraftBatch)}:
        if not name.startswith("__"):
            assert f"\n    {name}: Final[" in stub, name


def test_torch_batches():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    types = set()

    def greedy(batch):
        types.add((batch.logits.dtype, batch.seed.dtype, batch.allowed))
        return batch.logits.argmax(dim=1)

    report = fairdraw.verify(
        greedy, suite="smoke", case="support/*", seed=SEED, arrays="torch", abilities=["bfloat16"]
    )
    assert "passed" in {case.verdict for case in report.cases}
    assert (torch.float32, torch.int64, None) in types


def test_torch_writes_into_inputs_are_seen():
    pytest.importorskip("torch", reason="torch is not installed")

    def scales_in_place(batch):
        return batch.logits.div_(2).argmax(dim=1)

    report = fairdraw.verify(
        scales_in_place, suite="smoke", case=one_case("support"), seed=SEED, arrays="torch"
    )
    assert [case.verdict for case in report.cases] == ["failed"]
    assert "changed logits, which it may only read" in report.cases[0].message


@pytest.mark.parametrize("takes_seeds", [True, False])
def test_a_callable_that_claims_nothing_passes(takes_seeds):
    # Runs only cases for which such a sampler has enough draws, and which need no ability that the
    # sampler lacks.
    def tokens(batch):
        scalar = batch.seed_is_scalar
        seeds = {
            "seed": int(batch.seed[0]) if scalar else batch.seed,
            "offset": int(batch.offset[0]) if scalar else batch.offset,
        }
        return fairdraw.sample(
            batch.logits,
            batch.temperature,
            batch.top_k,
            batch.top_p,
            batch.min_p,
            **(seeds if takes_seeds else {}),
        )

    report = fairdraw.verify(tokens, suite="smoke", seed=SEED)
    assert report.verdict == "passed", str(report.failures)
    checks = {case.check for case in report.cases if case.verdict == "passed"}
    assert checks >= {"support", "streams", "chi_squared", "bets", "binomial", "pit", "global"}
