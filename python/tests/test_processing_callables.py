"""Tests the judgement of callables that process logits: batch.processing, steps that a sampler lacks,
and filters of samplers that do not claim exact integers."""

import dataclasses

import pytest

import fairdraw

CASES = "processing/*/v3?/*"
ABILITIES = (
    "allowed_mask", "history_rules", "probability_filters", "processing", "reports_mask",
    "reports_probs", "top_n_sigma",
)  # fmt: skip


def sampler(change=lambda processing: processing):
    """Returns a sampler that draws right after changing each row's processing."""

    def sample(batch):
        processing = batch.processing and [change(row) for row in batch.processing]
        rows = (batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p)
        drawn = fairdraw.sample(
            *rows, seed=batch.seed, offset=batch.offset, allowed=batch.allowed,
            processing=processing, return_details=True,
        )  # fmt: skip
        if batch.out_mask is not None:
            batch.out_mask[...] = drawn.mask
        if batch.out_probs is not None:
            batch.out_probs[...] = drawn.probs
        return drawn.tokens

    return sample


def judged(change=lambda processing: processing, case=CASES, abilities=ABILITIES, **more):
    report = fairdraw.verify(
        sampler(change), "fairdraw", "smoke", abilities=abilities, case=case, seed=1, **more
    )
    return [result for result in report.cases if result.verdict != "skipped"]


def test_a_right_sampler_passes():
    results = judged()
    assert len(results) > 2 and {result.verdict for result in results} == {"passed"}
    assert all("faulty lists have no form here" in result.message for result in results)
    exact = [*ABILITIES, "exact_integer", "per_request_seeds"]
    (result,) = fairdraw.verify(
        sampler(), "fairdraw", "smoke", abilities=exact, case="processing/gaussian/v33/unfiltered"
    ).cases
    assert result.verdict == "passed", result.message


def test_a_batch_without_processing_has_none():
    seen = []

    def sample(batch):
        seen.append(batch.processing)
        return sampler()(batch)

    fairdraw.verify(sample, "hf", "smoke", abilities=ABILITIES, case="support/gaussian_wide/*")
    assert seen and set(seen) == {None}


#: Wrong steps, and the same step left out of what the judge asks for.
MISTAKES = {
    "typical_p": lambda row: row.typical_p**2,
    "xtc": lambda row: row.xtc_probability * 0,
    "chain_top_k": lambda row: row.chain_top_k + 1,
    "dynatemp": lambda row: row.dynatemp_range / 2,
    "penalty_window": lambda row: -1,
    "dry": lambda row: row.dry_multiplier * 0,
    "presence_penalty": lambda row: row.presence_penalty * 1.01,
}
FIELDS = {"xtc": "xtc_probability", "dynatemp": "dynatemp_range", "dry": "dry_multiplier"}


@pytest.mark.parametrize("step", MISTAKES)
def test_a_wrong_step_fails_unless_the_sampler_lacks_it(step):
    def change(row):
        return dataclasses.replace(row, **{FIELDS.get(step, step): MISTAKES[step](row)})

    case = "processing/gaussian/v33/unfiltered"
    (result,) = judged(change, case)
    assert result.verdict == "failed", result.message
    if step == "penalty_window":
        change = lambda row: row  # noqa: E731  # the wrong value is that of a row without the step
    elif step == "chain_top_k":
        return  # a row without the step gets a top_k of 1
    (result,) = judged(change, case, lacks=[step])
    assert result.verdict == "passed", result.message
    assert f"without {step};" in result.message


def test_an_unknown_step_is_refused():
    with pytest.raises(ValueError, match="lacks.0. is 'typical'; did you mean 'typical_p'"):
        judged(lacks=["typical"])


def test_the_processing_of_a_call_is_that_of_its_rows():
    rows = []

    def sample(batch):
        rows.extend(batch.processing or [])
        return sampler()(batch)

    abilities = [a for a in ABILITIES if a not in ("history_rules", "probability_filters")]
    fairdraw.verify(sample, "hf", "smoke", abilities=abilities, case="processing/gaussian/v31/*")
    assert all(isinstance(row, fairdraw.RequestProcessing) for row in rows)
    assert any(row.bias for row in rows) and any(row.bad_words for row in rows)
    assert any(row.top_n_sigma > 0 for row in rows)
    assert all(row.typical_p == 1 and row.dry_multiplier == 0 for row in rows)
