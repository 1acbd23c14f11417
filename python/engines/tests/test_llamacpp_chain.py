"""Tests the gate's judgement of llama.cpp's whole chain: of the library where llama-cpp-python is
installed, and of its description in NumPy everywhere."""

import functools
import importlib.util

import numpy as np
import pytest

import fairdraw
from fairdraw import LlamaCppRequest, RequestProcessing
from fairdraw_engines import ENGINES, llamacpp_chain, llamacpp_described, matrix
from fairdraw_engines.llamacpp import CANDIDATE
from fairdraw_engines.llamacpp_chain import Call

SEED = 1
SMOKE = matrix.matching_cases("smoke", ["processing/*"])
#: A case for each of the steps.
CASES = ("processing/gaussian_wide/v1000/everyday", "processing/gaussian/v33/unfiltered")

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama-cpp-python is not installed"
)
ALL = [
    "llamacpp_described",
    pytest.param("llamacpp_chain", marks=needs_library),
]


#: Cases in which repetition penalties of 2^-64 make logits beyond 3.4e8, which llama.cpp's sort by
#: buckets puts last.
HUGE = {
    "processing/gaussian_wide/v1000/everyday",
    "processing/gaussian_wide/v1003/everyday/banned",
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("case", SMOKE)
def test_the_chain_follows_the_definitions(name, case):
    engine = ENGINES[name]
    (result,) = matrix.judge(engine, "llamacpp", "smoke", case, SEED).cases
    if name == "llamacpp_chain" and case in HUGE:
        assert result.verdict == "failed"
        return
    assert result.verdict == "passed", result.message
    assert "without min_tokens, bad_words" in result.message


def logits_of(change):
    """Returns a sampler that changes the arguments of another one."""

    def make(sampler):
        def changed(candidates, ids, *arguments):
            return sampler(candidates, *change(ids, *arguments))

        return changed

    return make


def sample_deviation(candidates, ids, sigmas):
    finite = int((candidates["logit"] > -np.inf).sum())
    factor = (finite / max(finite - 1, 1)) ** 0.5
    return llamacpp_described.top_n_sigma(candidates, ids, sigmas * factor * 1.05)


def keeps_no_choice(candidates, ids, probability, threshold, least, seed):
    candidates = llamacpp_described.xtc(candidates, ids, probability, threshold, least, seed)
    return candidates[1:] if len(candidates) > 1 else candidates


#: Wrong samplers: the sampler, and how its arguments or itself change.
MISTAKES = {
    "penalties of one token fewer": (
        "penalties",
        logits_of(lambda ids, last, *penalties: (ids[:-1], last, *penalties)),
    ),
    "penalties of the whole history": (
        "penalties",
        logits_of(lambda ids, last, *penalties: (ids, len(ids), *penalties)),
    ),
    "a bias without its last entry": ("logit_bias", logits_of(lambda ids, *e: (ids, *e[:-1]))),
    "a repetition allowed to be longer": (
        "dry",
        logits_of(lambda ids, m, base, allowed, last: (ids, m, base, allowed + 1, last)),
    ),
    "another deviation": ("top_n_sigma", lambda _: sample_deviation),
    "xtc without its last choice": ("xtc", lambda _: keeps_no_choice),
    "one token more": ("top_k", logits_of(lambda ids, k: (ids, k + 1 if k > 0 else k))),
    "a square of min_p": ("min_p", logits_of(lambda ids, p, least: (ids, p * p, least))),
    "a temperature that ignores the exponent": (
        "temp_ext",
        logits_of(lambda ids, t, reach, exponent: (ids, t, reach, 1.0)),
    ),
    "half the range of temperatures": (
        "temp_ext",
        logits_of(lambda ids, t, reach, exponent: (ids, t, reach / 2, exponent)),
    ),
    "a target a quarter nearer to 0": (
        "adaptive_p",
        logits_of(lambda ids, target, *others: (ids, 0.75 * target, *others)),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_sampler_of_the_chain_fails(mistake):
    name, change = MISTAKES[mistake]
    wrong = {**llamacpp_described.SAMPLERS, name: change(llamacpp_described.SAMPLERS[name])}
    functions = functools.partial(llamacpp_described.described, wrong)
    engine = llamacpp_chain.engine("wrong", "a test's chain", lambda: "1", functions)
    verdicts = []
    for case in CASES:
        (result,) = matrix.judge(engine, "llamacpp", "smoke", case, SEED).cases
        verdicts.append(result.verdict)
    assert "failed" in verdicts and set(verdicts) <= {"passed", "failed"}


def candidates_of(logits):
    made = np.zeros(len(logits), CANDIDATE)
    made["id"] = np.arange(len(logits))
    made["logit"] = logits
    return made


def row_of(random, vocab=40):
    return random.normal(0, 3, vocab).astype(np.float32)


def left_of(functions, calls, logits):
    apply, draw = functions()
    left, _ = draw(apply(calls, candidates_of(logits)))
    return dict(zip(left["id"].tolist(), left["p"].tolist(), strict=True))


SAMPLERS = (
    Call("typical", (0.7, 1)), Call("top_n_sigma", (1.5,)), Call("xtc", (1.0, 0.1, 1, 1)),
    Call("top_k", (12,)), Call("top_p", (0.8, 1)), Call("min_p", (0.05, 1)), Call("temp", (0.7,)),
    Call("temp_ext", (1.2, 0.6, 0.5)), Call("penalties", (6, 1.3, 0.4, 0.2), (1, 2, 3, 1, 2, 5, 1)),
    Call("dry", (0.8, 1.75, 2, 30), (4, 5, 6, 7, 4, 5, 6, 7, 4, 5)),
    Call("logit_bias", ((3, 2.5), (7, -4.0))),
)  # fmt: skip


@needs_library
@pytest.mark.parametrize("target", [0.0, 0.05, 0.5, 1.0])
def test_adaptive_p_is_described_as_the_library_has_it(target):
    """In units of 2^-24, a probability of 12 tokens is off by 21: 12 additions, 8 roundings of a
    weight, and the quotient. So a logit is off by 21 times 100/3, the formula's steepness, and 8
    roundings of numbers below 128, and the probability by this and 21 more, in both."""
    calls = [Call("top_k", (12,)), Call("adaptive_p", (target, 0.0, 1))]
    logits = row_of(np.random.default_rng(7))
    found = left_of(llamacpp_chain.library, calls, logits)
    described = left_of(llamacpp_described.described, calls, logits)
    assert found == pytest.approx(described, rel=2 * (21 * 100 / 3 + 8 * 128 + 21) * 2**-24)


@needs_library
@pytest.mark.parametrize("seed", range(20))
def test_the_description_is_that_of_the_library(seed):
    random = np.random.default_rng(seed)
    calls = [SAMPLERS[place] for place in random.permutation(len(SAMPLERS))[:5]]
    calls.sort(key=lambda call: call.name == "top_n_sigma")  # others cannot read what it leaves
    logits = row_of(random)
    found = left_of(llamacpp_chain.library, calls, logits)
    described = left_of(llamacpp_described.described, calls, logits)
    assert found.keys() == described.keys()
    # 40 additions, 8 more roundings of a weight, and 5 steps with a rounding each, in both.
    assert found == pytest.approx(described, rel=2 * 53 * 2**-23 * 10)


def described_beyond(limit):
    """Returns the library's functions, which the description replaces for rows with larger logits."""
    library, draw = llamacpp_chain.library()
    described, _ = llamacpp_described.described()

    def apply(calls, candidates):
        finite = candidates["logit"][np.isfinite(candidates["logit"])]
        is_beyond = bool((np.abs(finite) > limit).any())
        return (described if is_beyond else library)(calls, candidates)

    return apply, draw


@needs_library
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_the_sort_by_buckets_alone_fails():
    """Beyond 2^31 / 6.4 = 3.4e8, the library's number of a bucket fits no int."""
    case = "processing/gaussian/v1000/everyday"
    functions = functools.partial(described_beyond, 3.3e8)
    engine = llamacpp_chain.engine("described", "a test's chain", lambda: "1", functions)
    verdicts = [
        matrix.judge(one, "llamacpp", "gate", case, SEED).cases[0].verdict
        for one in (llamacpp_chain.ENGINE, engine)
    ]
    assert verdicts == ["failed", "passed"]


@needs_library
def test_typical_p_alone_fails():
    """The gate meets rows in which a probability is 0 in float32 (a bias of 100)."""
    case = "processing/gaussian/v33/unfiltered"
    (result,) = matrix.judge(llamacpp_chain.TYPICAL, "llamacpp", "smoke", case, SEED).cases
    assert result.verdict == "failed" and "the mask" in result.message


@needs_library
def test_typical_p_with_a_banned_token_keeps_other_tokens():
    """llama.cpp's entropy of a row with a logit of -inf is NaN, so that nothing is sorted by it."""
    logits = np.log(np.array([0.4, 0.2, 0.2, 0.2], np.float32))
    typical = [Call("typical", (0.5, 1))]
    assert left_of(llamacpp_chain.library, typical, logits).keys() == {1, 2, 3}
    banned = left_of(llamacpp_chain.library, typical, [*logits, -np.inf])
    assert 0 in banned
    # top_n_sigma leaves what it drops at -inf.
    sigma, far = Call("top_n_sigma", (1.0,)), [*logits, -30.0]
    assert left_of(llamacpp_chain.library, [sigma], far)[4] == 0
    assert left_of(llamacpp_chain.library, typical, far).keys() == {1, 2, 3}
    assert 0 in left_of(llamacpp_chain.library, [sigma, *typical], far)


@pytest.mark.parametrize("functions", [
    llamacpp_described.described,
    pytest.param(llamacpp_chain.library, marks=needs_library),
])  # fmt: skip
@pytest.mark.parametrize("seed", range(12))
def test_a_translated_request_leaves_what_its_chain_leaves(functions, seed):
    """Compares `from_llama_cpp` in the exact order with the request's own chain of samplers."""
    random = np.random.default_rng(seed)
    vocab, history = 40, tuple(random.integers(0, 40, 20).tolist())
    samplers = ["penalties", "dry", *random.permutation(
        ["top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]
    ).tolist()]  # fmt: skip
    request = LlamaCppRequest(
        samplers=samplers, temp=0.8, top_k=15, top_p=0.9, min_p=0.02, typ_p=0.9, top_n_sigma=2.5,
        xtc_probability=1.0, xtc_threshold=0.2, penalty_last_n=8, penalty_repeat=1.2,
        penalty_freq=0.3, penalty_present=0.1, dry_multiplier=0.8, dry_penalty_last_n=16,
        dry_breakers=(), logit_bias={3: 1.5},
    )  # fmt: skip
    logits = row_of(random, vocab)
    sampling = fairdraw.from_llama_cpp(request, vocab, exact_order=True)
    asked = sampling.batch_request(history, fresh_seed=1)
    fields = RequestProcessing.__dataclass_fields__.keys() - {"output"}
    processing = RequestProcessing(**{name: getattr(asked, name) for name in fields})
    drawn = fairdraw.sample(
        logits[None], sampling.temperature, sampling.top_k, sampling.top_p, sampling.min_p,
        seed=1, processing=[processing], return_details=True,
    )  # fmt: skip
    own = {
        "penalties": Call("penalties", (8, 1.2, 0.3, 0.1), history),
        "dry": Call("dry", (0.8, request.dry_base, request.dry_allowed_length, 16), history),
        "top_n_sigma": Call("top_n_sigma", (2.5,)),
        "top_k": Call("top_k", (15,)),
        "typ_p": Call("typical", (0.9, 1)),
        "top_p": Call("top_p", (0.9, 1)),
        "min_p": Call("min_p", (0.02, 1)),
        "xtc": Call("xtc", (1.0, 0.2, 1, 1)),
        "temperature": Call("temp", (0.8,)),
    }
    apply, _ = functions()
    left = candidates_of(logits)
    for call in (Call("logit_bias", ((3, 1.5),)), *(own[name] for name in samplers)):
        # llama.cpp leaves what top_n_sigma drops at -inf, which typ_p cannot read.
        left = apply([call], left)
        left = left[left["logit"] > -np.inf]
    kept = np.flatnonzero(drawn.probs[0] > 0)
    assert sorted(left["id"].tolist()) == kept.tolist()


@needs_library
@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_keeps_what_the_library_keeps(version):
    """Follows a request of 50 tokens with the library's tokens: after each, both have one limit."""
    random = np.random.default_rng(version)
    vocab, tau, eta = 200, 4.0, 0.1
    made = {
        1: Call("mirostat", (vocab, 1, tau, eta, 100)), 2: Call("mirostat_v2", (1, tau, eta))
    }[version]  # fmt: skip
    step = llamacpp_chain.stateful(made)
    state = fairdraw.Mirostat(tau, eta)
    sizes = set()
    for _ in range(50):
        logits = row_of(random, vocab)
        logprobs = logits - np.logaddexp.reduce(logits.astype(np.float64))
        if version == 1:
            largest = np.sort(logprobs)[::-1][:100].astype(np.float32)
            chain = {"filter_chain": ("top_k",), "chain_top_k": state.top_k(largest, vocab)}
        else:
            cutoff = {"epsilon_cutoff": state.epsilon_cutoff()}
            chain = {"filter_chain": ("epsilon_cutoff",), **cutoff}
        drawn = fairdraw.sample(
            logits[None], seed=1, processing=[RequestProcessing(**chain)], return_details=True
        )
        left, place = step(candidates_of(logits))
        kept = np.flatnonzero(drawn.probs[0] > 0)
        assert sorted(left["id"].tolist()) == kept.tolist()
        sizes.add(len(kept))
        state.observe(float(np.log(drawn.probs[0][left["id"][place]])))
    assert len(sizes) > 5  # the limit moves
