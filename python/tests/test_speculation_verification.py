"""Tests `verify_speculation`: the textbook's verifier and this package's own verifiers pass, and
wrong verifiers fail."""

import draft_verifiers as verifiers
import numpy as np
import pytest

import fairdraw

SEED = 3
#: Globs of cases with rows of few tokens, for which a verifier in NumPy makes its draws in a
#: second.
LAWS = {"logits": "verify_law/gaussian/v5/*", "probs": "chain_law/gaussian/v5/*"}
REPLAYS = ("seeds", "offsets", "outputs", "samples", "replays")


def judged(verifier, case="*", target="logits", **options):
    options = {
        "suite": "smoke",
        "acceptance_rule": "token_wise",
        "abilities": ("per_request_seeds",),
        "randomness": REPLAYS,
        **options,
    }
    return fairdraw.verify_speculation(verifier, target=target, case=case, seed=SEED, **options)


def cause(report):
    """Returns the first cause of the report."""
    return report.raw["causes"][0]["name"]


@pytest.mark.parametrize("rule", ["token_wise", None])
@pytest.mark.parametrize("target", ["logits", "probs"])
def test_the_textbook_passes(target, rule):
    report = judged(verifiers.Textbook(), target=target, acceptance_rule=rule)
    assert report.verdict == "passed", report.failures
    assert LAWS[target][:-2] in " ".join(case.id for case in report.cases)


def test_the_textbook_passes_with_filters_and_all_that_it_takes():
    abilities = ("per_request_seeds", "allowed_mask", "float16", "counts_all_positions")
    for target, case in (
        ("logits", "verify_law/gaussian/v8/top_p_0.9/*"),
        ("logits", "verify/*/v[1-9]*"),
        ("probs", "chain_law/gaussian_wide/v8/none/t1/n300000"),
    ):
        report = judged(
            verifiers.Textbook(),
            case,
            target,
            suite="gate",
            drafts=("unknown", "probs", "logits") if target == "logits" else None,
            abilities=abilities[: 4 if target == "probs" else 3],
        )
        assert report.verdict == "passed", report.failures


def test_probabilities_sum_to_1_where_the_profile_asks_for_it():
    sums = []

    def noting(batch):
        sums.append(batch.target.sum(axis=-1))
        return verifiers.Textbook()(batch)

    for profile, sum_to_1 in (("flashinfer", True), ("fairdraw", False)):
        sums.clear()
        report = judged(noting, "chain*/v5/*", "probs", semantics=profile)
        assert report.verdict == "passed", report.failures
        near = (
            max(np.abs(a - 1).max() for a in sums) < 1e-6
        )  # five additions of float32 are off by 6e-7
        assert near == sum_to_1


def of_probabilities(batch):
    """Adapts fairdraw.chain_speculative_sampling to the verifier's contract."""
    scalar = batch.seed_is_scalar
    tokens, passed, emitted = fairdraw.chain_speculative_sampling(
        batch.draft_probs,
        batch.draft_tokens,
        batch.target,
        seed=int(batch.seed[0]) if scalar else batch.seed,
        offset=int(batch.offset[0]) if scalar else batch.offset,
    )
    if batch.out_passed is not None:
        batch.out_passed[...] = passed
    return tokens, emitted


def test_this_packages_own_are_exact():
    abilities = ("exact_integer", "per_request_seeds", "bad_drafts", "float16")
    report = judged(
        verifiers.Library(),
        suite="gate",
        drafts=("unknown", "probs", "logits"),
        abilities=(
            *abilities,
            "active_rows",
            "allowed_mask",
            "joint_order",
            "lowest_id_ties",
            "reports_status",
        ),
    )
    assert report.verdict == "passed", report.failures
    assert {"top_k", "top_p", "min_p", "speculation"}.isdisjoint(report.not_judged)
    report = judged(
        of_probabilities, target="probs", abilities=(*abilities, "counts_all_positions")
    )
    assert report.verdict == "passed", report.failures


def test_this_packages_blocks_are_right():
    by_block = verifiers.Library("block")
    report = judged(by_block, LAWS["logits"], drafts=("probs", "logits"), acceptance_rule="block")
    assert report.verdict == "passed", report.failures
    # The same tokens are wrong if they are declared as token-wise.
    report = judged(by_block, LAWS["logits"], drafts=("probs",))
    assert report.verdict == "failed"


#: A wrong verifier, and the causes that the report names for targets of logits and of
#: probabilities.
WRONG = {
    verifiers.AcceptsAlways: "every draft is accepted",
    verifiers.RatioInverted: "the acceptance test divides the draft by the target",
    verifiers.AcceptsByTarget: "a draft is accepted with the target's probability alone",
    verifiers.ResidualNotSubtracted: "the draft is not subtracted after a rejection",
    verifiers.BonusOfTheDraft: "the bonus token comes from the draft",
    verifiers.BonusOfTheRowBefore: "the bonus token comes from the row before its own",
    verifiers.OneWordForAll: "the token after a rejection",
    verifiers.RejectedDraftsStay: "tokens past the end",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_verifier_of_probabilities_is_named(wrong):
    report = judged(wrong(), LAWS["probs"], "probs")
    assert report.verdict == "failed"
    assert cause(report) == f"speculative decoding: {WRONG[wrong]}"
    assert judged(wrong(), LAWS["probs"], "probs", acceptance_rule=None).verdict == "failed"


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_wrong_verifier_over_logits_is_named(wrong):
    report = judged(wrong(), LAWS["logits"], drafts=("probs",))
    assert report.verdict == "failed"
    assert cause(report) == f"speculative decoding: {WRONG[wrong]}"
    assert judged(wrong(), LAWS["logits"], acceptance_rule=None).verdict == "failed"


@pytest.mark.parametrize("target", ["logits", "probs"])
def test_seeds_that_are_ignored_are_seen(target):
    report = judged(verifiers.SeedsIgnored(), target=target)
    assert report.verdict == "failed"
    assert cause(report) == "speculative decoding: the same call gives something else"
    # A verifier that ignores seeds passes if it does not claim to use seeds.
    honest = judged(verifiers.SeedsIgnored(), target=target, abilities=(), randomness=REPLAYS[:-1])
    assert honest.verdict == "passed", honest.failures


def test_only_what_is_declared_is_asked_for():
    seen = set()

    def noting(batch):
        known = "probs" if batch.draft_probs is not None else "unknown"
        seen.add("logits" if batch.draft_logits is not None else known)
        assert (
            batch.draft_tokens[np.arange(batch.max_draft) < batch.draft_lengths[:, None]] >= 0
        ).all()
        return verifiers.Textbook()(batch)

    for drafts in (("unknown",), ("probs",), ("logits",), ("unknown", "logits")):
        seen.clear()
        assert judged(noting, "*/v5/*", drafts=drafts).verdict == "passed"
        assert seen == set(drafts)


MESSAGES = {
    "raises": (lambda batch: 1 / 0, "the callable raised ZeroDivisionError: division by zero"),
    "nothing": (lambda batch: None, "returned None; token ids are needed"),
    "shape": (
        lambda batch: np.zeros((batch.requests, batch.max_draft + 2), int),
        "of shape [4096, 4]; [4096, 3] is needed",
    ),
    "floats": (
        lambda batch: np.zeros((batch.requests, batch.max_draft + 1)),
        "returned float64 values; token ids are int32 or int64",
    ),
    "three": (lambda batch: (1, 2, 3), "returned a tuple of 3; tokens and numbers of accepted"),
    "counts": (
        lambda batch: (
            np.zeros((batch.requests, batch.max_draft + 1), int),
            [1.5] * batch.requests,
        ),
        "returned a float at position 0; numbers of accepted drafts are integers",
    ),
    "too large": (
        lambda batch: np.full((batch.requests, batch.max_draft + 1), 2**40),
        "returned id 1099511627776 at position 0, which is outside int32",
    ),
    "no tokens": (
        lambda batch: np.full((batch.requests, batch.max_draft + 1), batch.vocab),
        "5 5 5",
    ),
    "none emitted": (
        lambda batch: np.full((batch.requests, batch.max_draft + 1), -1),
        "-1 -1 -1",
    ),
    "writes": (lambda batch: batch.target.fill(0), "raised ValueError: assignment destination"),
}


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("target", ["logits", "probs"])
def test_what_a_callable_does_wrong_is_the_message_of_its_case(name, target):
    verifier, message = MESSAGES[name]
    report = judged(verifier, LAWS[target], target)
    assert message in report.failures[0].message


def test_arrays_are_lent_for_one_call():
    kept = []

    def keeps(batch):
        kept.append(batch.target)
        return verifiers.Textbook()(batch)

    report = judged(keeps, LAWS["logits"])
    assert "kept an array of an earlier batch" in report.failures[0].message
    assert len(kept) == 1


def test_torch():
    torch = pytest.importorskip("torch")

    def in_torch(batch):
        assert batch.target.dtype == getattr(torch, batch.dtype)
        assert batch.seed.dtype == torch.int64
        arrays = ("target", "draft_probs", "draft_tokens", "draft_lengths", "temperature", "top_k")
        arrays += ("top_p", "min_p", "seed", "offset")
        return torch.from_numpy(
            verifiers.Textbook()(verifiers.NumpyBatch(batch, arrays))[0].astype(np.int32)
        )

    report = judged(in_torch, arrays="torch")
    assert report.verdict == "passed", report.failures

    def writes(batch):
        batch.target.zero_()
        return torch.zeros(batch.requests, batch.max_draft + 1, dtype=torch.int32)

    assert "target" in judged(writes, LAWS["logits"], arrays="torch").failures[0].message


def test_a_failure_comes_with_the_call_that_repeats_it():
    report = judged(verifiers.AcceptsAlways(), LAWS["probs"], "probs", name="mine")
    assert report.failures[0].replay.startswith(
        "import fairdraw; fairdraw.verify_speculation(mine, "
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "rows"}, "target is 'rows'"),
        ({"target": "probs", "drafts": ("unknown",)}, "allowed where target is 'probs'"),
        ({"drafts": ()}, "drafts is empty"),
        ({"drafts": ("known",)}, r"drafts\[0\] is 'known'"),
        ({"acceptance_rule": "typical"}, "acceptance_rule is 'typical'"),
        ({"abilities": ("indices",)}, r"abilities\[0\] is 'indices'"),
        ({"abilities": ("counts_all_positions",)}, "one where target is 'probs'"),
        ({"case": "mask/*"}, "allowed for logits: cases of checks verify and verify_law"),
        ({"require": ("speculations",)}, r"require\[0\] is 'speculations'"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        judged(verifiers.Textbook(), **options)


def test_what_was_not_judged_is_part_of_the_verdict():
    report = judged(verifiers.Textbook(), "verify_law/*", require=("speculation",))
    assert report.verdict == "passed"
    report = judged(verifiers.Textbook(), "verify/*", require=("allowed_mask",))
    assert report.verdict == "underpowered"
