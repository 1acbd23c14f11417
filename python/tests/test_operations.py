"""Tests `verify_operations`: operations of NumPy, torch and this package pass, and wrong operations
fail."""

import numpy as np
import pytest

import fairdraw

CASES = "*/gaussian_wide/v1000/edges"
SEED = 5


def column(parameter):
    return parameter[:, None] if np.ndim(parameter) == 1 else parameter


def softmax(logits, temperature):
    """Computes the textbook's softmax in float64. With temperature 0 the result is one-hot."""
    x = logits.astype(np.float64)
    t = np.broadcast_to(column(temperature), (len(x), 1)).astype(np.float64)
    greedy = np.zeros_like(x)
    greedy[np.arange(len(x)), x.argmax(axis=1)] = 1
    scaled = np.divide(x, t, where=t > 0, out=np.zeros_like(x))
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return np.where(t > 0, weights / weights.sum(axis=1, keepdims=True), greedy)


def log_softmax(logits):
    x = logits - logits.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def kth_largest(values, top_k):
    """Returns [rows, 1]: the k-th largest value, or the smallest value if top_k is off."""
    vocab = values.shape[1]
    k = np.broadcast_to(np.asarray(top_k), (len(values),)).astype(np.int64)
    place = np.where((k <= 0) | (k > vocab), vocab, k) - 1
    return np.take_along_axis(-np.sort(-values, axis=1), place[:, None], axis=1)


def top_k_mask_logits(logits, top_k):
    return np.where(logits >= kth_largest(logits, top_k), logits, -np.inf)


def min_p_mask_logits(logits, min_p):
    relative = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.where(relative >= column(min_p), logits, -np.inf)


def top_k_renorm_probs(probs, top_k):
    kept = np.where(probs >= kth_largest(probs, top_k), probs, 0).astype(np.float64)
    return kept / kept.sum(axis=1, keepdims=True)


def top_p_renorm_probs(probs, top_p):
    p = probs.astype(np.float64)
    order = np.argsort(-p, axis=1, kind="stable")
    ranked = np.take_along_axis(p, order, axis=1)
    inclusive = ranked.cumsum(axis=1)
    first_of_tie = np.concatenate(
        [np.ones((len(p), 1), bool), ranked[:, 1:] != ranked[:, :-1]], axis=1
    )
    above = np.where(first_of_tie, inclusive - ranked, -1.0)
    above = np.maximum.accumulate(above, axis=1)
    limit = np.asarray(column(top_p), np.float64)
    stays = (above < limit * inclusive[:, -1:]) | (limit == 1)
    stays[:, 0] = True
    stays[:, 1:] &= np.broadcast_to(limit > 0, stays[:, 1:].shape)
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, np.where(stays, ranked, 0), axis=1)
    return kept / kept.sum(axis=1, keepdims=True)


TEXTBOOK = {
    function.__name__: function
    for function in (
        softmax,
        log_softmax,
        top_k_mask_logits,
        min_p_mask_logits,
        top_k_renorm_probs,
        top_p_renorm_probs,
    )
}


def verdicts(operations, case=CASES, **options):
    report = fairdraw.verify_operations(operations, suite="smoke", case=case, seed=SEED, **options)
    return {case.check: case for case in report.cases}


@np.errstate(all="ignore")
def test_textbook_operations_pass():
    for case in (CASES, "*/ties_at_k/v1000/edges", "*/masked/v1000/edges", "*/v31/edges"):
        for check, found in verdicts(TEXTBOOK, case).items():
            assert found.verdict == "passed", (check, found.message)


@np.errstate(all="ignore")
def test_an_operation_is_judged_by_its_own_parameter():
    # The profile hf refuses a top_k of 0; softmax takes no top_k, so that its cases run.
    found = verdicts({"softmax": softmax, "log_softmax": log_softmax}, semantics="hf")
    assert {check: case.verdict for check, case in found.items()} == {
        "softmax": "passed",
        "log_softmax": "passed",
    }


def test_those_of_this_package_pass():
    names = ("softmax", "top_k_mask_logits", "top_k_renorm_probs", "top_p_renorm_probs")
    operations = {name: getattr(fairdraw, name) for name in names}
    found = verdicts(operations, exact_integer=True)
    assert {check: case.verdict for check, case in found.items()} == dict.fromkeys(names, "passed")


def test_small_probabilities_of_this_package_pass_as_floats():
    # Rows that reach far below the smallest weight of the integer arithmetic are judged like any
    # float32 softmax.
    operations = {
        name: getattr(fairdraw, name)
        for name in ("softmax", "top_k_renorm_probs", "top_p_renorm_probs")
    }
    report = fairdraw.verify_operations(operations, suite="smoke", seed=SEED)
    failed = [(case.id, case.message) for case in report.cases if case.verdict == "failed"]
    assert failed == []
    passed = {case.check for case in report.cases if case.verdict == "passed"}
    assert passed == set(operations)


def test_torch_in_its_own_dtypes():
    torch = pytest.importorskip("torch")

    def softmax(logits, temperature):
        t = temperature[:, None] if torch.is_tensor(temperature) else temperature
        return torch.softmax(logits.float() / t, dim=-1).to(logits.dtype)

    def log_softmax(logits):
        return torch.log_softmax(logits.float(), dim=-1).to(logits.dtype)

    report = fairdraw.verify_operations(
        {"softmax": softmax, "log_softmax": log_softmax},
        semantics="hf",  # refuses temperature 0
        suite="smoke",
        case="*softmax/gaussian_wide/v1000/*edges",
        arrays="torch",
        dtypes=("float32", "float16", "bfloat16"),
        keep_dtype=True,
        seed=SEED,
    )
    assert [(c.verdict, c.message) for c in report.cases if c.verdict != "passed"] == []
    assert len(report.cases) == 6


def without_last_tie(logits, top_k):
    kept = top_k_mask_logits(logits, top_k)
    for row, k in zip(kept, np.broadcast_to(np.asarray(top_k), (len(kept),)), strict=True):
        if 0 < k < np.isfinite(row).sum():
            row[np.argsort(-row, kind="stable")[k:]] = -np.inf
    return kept


WRONG = {
    "temperature upside down": ("softmax", lambda x, t: softmax(x, 1 / column(t)), "token"),
    "log2": ("log_softmax", lambda x: log_softmax(x) / np.log(2), "expected"),
    "a clamp": ("softmax", lambda x, t: np.maximum(softmax(x, t), 1e-9), "expected 0"),
    "ties dropped": ("top_k_mask_logits", without_last_tie, "masked"),
    "not renormalised": (
        "top_k_renorm_probs",
        lambda x, k: np.where(x >= kth_largest(x, k), x, 0),
        "expected",
    ),
    "raises": ("log_softmax", lambda x: 1 / 0, "log_softmax raised ZeroDivisionError"),
    "a shape": ("log_softmax", lambda x: x[:, :-1], "returned shape"),
    "None": ("log_softmax", lambda x: None, "returned a NoneType"),
    "integers": ("log_softmax", lambda x: x.astype(np.int64), "int64 values"),
}


@np.errstate(all="ignore")
@pytest.mark.parametrize("what", WRONG)
def test_wrong_operations_are_found(what):
    name, function, text = WRONG[what]
    family = "masked" if what == "a clamp" else "ties_at_k" if what == "ties dropped" else None
    case = f"{name}/{family or 'gaussian_wide'}/v1000/edges"
    (found,) = verdicts({name: function}, case).values()
    assert found.verdict == "failed" and text in found.message, found.message
    assert "; fairdraw.verify_operations({" in found.replay


def test_kept_rows_end_the_calls():
    kept = []

    def keeps(logits):
        kept.append(logits)
        return log_softmax(logits)

    (found,) = verdicts({"log_softmax": keeps}).values()
    assert found.verdict == "failed" and "kept an array" in found.message


def test_bad_arguments_are_refused():
    for operations, error, text in (
        ({}, TypeError, "at least one"),
        ({"softmaxx": softmax}, ValueError, "softmax"),
        ({"softmax": 3}, TypeError, r"operations\['softmax'\] is 3"),
    ):
        with pytest.raises(error, match=text):
            fairdraw.verify_operations(operations)
    with pytest.raises(ValueError, match="dtypes is"):
        fairdraw.verify_operations(TEXTBOOK, dtypes=["float16"])
    with pytest.raises(ValueError, match="profile|semantics"):
        fairdraw.verify_operations(TEXTBOOK, "no_such_profile")
    with pytest.raises(ValueError, match="operations that are given"):
        fairdraw.verify_operations({"softmax": softmax}, case="mask/*", suite="smoke")
