"""Tests how the gate judges callables that mark tokens with a key."""

from functools import cache

import numpy as np
import pytest
from marking import Marking

import fairdraw

SEED = 3
SCHEMES = ("marks_by_key", "marks_by_key_and_seed", "marks_green_lists")
HOW = {"suite": "smoke", "seed": SEED, "lacks": ["bad_rows"]}


def judged(sampler, *abilities, case="*mark*"):
    """Returns the report of the cases with marked rows, or of other cases."""
    promises = ("seeds", "offsets", "outputs", "replays")
    able = ("per_request_seeds", *abilities)
    return fairdraw.verify(sampler, case=case, abilities=able, randomness=promises, **HOW)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_right_marks_pass(scheme):
    report = judged(Marking(), scheme)
    assert report.verdict == "passed", str(report)
    ran = {case.id for case in report.cases if case.verdict == "passed"}
    assert sum(case.startswith("marks/") for case in ran) == 2
    # A green list changes the distribution, so that only its equalities are judged.
    assert sum("/marked_" in case for case in ran) == (scheme != "marks_green_lists")


def test_a_green_list_that_changes_few_tokens_passes():
    class Weak(Marking):
        # Few tokens of 64 rows change with the key, and often none.
        green_bias = 0.01

    report = judged(Weak(), "marks_green_lists", case="marks/*")
    assert report.verdict == "passed", str(report)


def test_a_race_without_seeds_of_requests_passes():
    class OwnDraws(Marking):
        def coin(self, batch, row):
            return self.random.random()

    report = fairdraw.verify(OwnDraws(), case="marks/*", abilities=["marks_by_key"], **HOW)
    assert report.verdict == "passed", str(report)


def test_a_callable_without_marks_is_not_asked_for_them():
    def sampler(batch):
        assert batch.mark_key is None and batch.mark_output is None
        return fairdraw.sample(
            batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p
        )

    report = judged(sampler)
    assert {case.verdict for case in report.cases} == {"skipped"}
    reasons = {case.message for case in report.cases if case.check == "marks"}
    assert reasons == {
        "marks no rows by a key alone, marks no rows by a key and a seed, marks no rows by green lists"
    }
    assert "marks" in report.not_judged
    assert set(SCHEMES) <= {one["ability"] for one in report.coverage["undeclared"]}


@cache
def seen_batch():
    """Returns facts of the first call with marks."""
    facts = {}

    def sampler(batch):
        if batch.mark_key is not None and not facts:
            facts.update(
                scheme=batch.mark_scheme,
                window=batch.mark_window,
                key=batch.mark_key.copy(),
                output=batch.mark_output.copy(),
                rows=batch.rows,
                writable=batch.mark_key.flags.writeable or batch.mark_output.flags.writeable,
            )
        return Marking()(batch)

    judged(sampler, "marks_by_key", case="marks/gaussian/v31/*")
    return facts


def test_a_batch_has_keys_and_contexts():
    seen = seen_batch()
    assert seen["scheme"] == "by_key" and not seen["writable"]
    assert seen["key"].shape == (seen["rows"],) and seen["key"].dtype == np.uint64
    assert (seen["key"] != 0).all()
    assert seen["output"].dtype == np.int32 and len(seen["output"]) == seen["rows"]
    assert seen["output"].shape[1] >= seen["window"] >= 1
    assert seen["output"].min() == -1 and seen["output"].max() < 31


class KeyIgnored(Marking):
    def key(self, batch, row):
        return 1


class KeyOfTheFirstRow(Marking):
    def key(self, batch, row):
        return int(batch.mark_key[0])


class KeyOfTheNeighbour(Marking):
    def words(self, batch, row):
        neighbour = row - 1 if batch.mark_key is not None and batch.mark_key[row] == 0 else row
        return super().words(batch, neighbour)


class ContextOffByOne(Marking):
    def context(self, ids, window):
        return ids[-window - 1 : -1]


class ContextWithoutItsFirstId(Marking):
    def context(self, ids, window):
        return ids[-window:][1:]


class WholeHistory(Marking):
    def context(self, ids, window):
        return ids


class NothingMarked(Marking):
    def words(self, batch, row):
        return None


class RepeatedContexts(Marking):
    def is_repeated(self, ids, window):
        return False


class BeforeTheFilters(Marking):
    def token(self, batch, row, p, kept, words):
        return super().token(batch, row, p, kept if words is None else p, words)


class BySeedToo(Marking):
    def race(self, kept, words):
        return super().race(kept, (words + self.random.random()) % 1)


class WordsOfFiveBits(Marking):
    def race(self, kept, words):
        return super().race(kept, np.ceil(words * 32) / 32)


# A run of one case takes no time to ask the failed sampler again.
RELATIONS, FILTERED = "marks/gaussian/v31/unfiltered", "marks/gaussian/v250/everyday"
DRAWS = "chi_squared/*/marked_by_key/*"


@pytest.mark.parametrize("scheme", SCHEMES[1:])
@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (KeyIgnored, "the key is ignored"),
        (NothingMarked, "the key is ignored"),
        (ContextWithoutItsFirstId, "an id of the context is ignored"),
        (WholeHistory, "ids before the context"),
        (RepeatedContexts, "repeated contexts"),
    ],
)
def test_wrong_marks_by_seeds_are_named(scheme, wrong, cause):
    report = judged(wrong(), scheme, case=RELATIONS)
    assert report.verdict == "failed", str(report)
    assert [found.name for found in report.causes] == [f"marks: {cause}"], str(report)


@pytest.mark.parametrize(
    ("wrong", "case", "cause"),
    [
        (KeyIgnored, RELATIONS, "the key is ignored"),
        (KeyOfTheFirstRow, RELATIONS, "the place in the batch"),
        (KeyOfTheNeighbour, RELATIONS, "unmarked rows"),
        (ContextOffByOne, RELATIONS, "ids before the context"),
        (ContextWithoutItsFirstId, RELATIONS, "an id of the context is ignored"),
        (WholeHistory, RELATIONS, "ids before the context"),
        (RepeatedContexts, RELATIONS, "repeated contexts"),
        (RepeatedContexts, DRAWS, "the distribution over keys"),
        (BeforeTheFilters, FILTERED, "the filters"),
        (BySeedToo, RELATIONS, "the place in the batch"),
        (WordsOfFiveBits, DRAWS, "the distribution over keys"),
    ],
)
def test_wrong_marks_are_named(wrong, case, cause):
    report = judged(wrong(), "marks_by_key", case=case)
    assert report.verdict == "failed", str(report)
    assert [found.name for found in report.causes] == [f"marks: {cause}"], str(report)
