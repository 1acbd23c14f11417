"""Maps an audit's faults to causes under the names that all of fairdraw uses, so that an audit
words a cause as `verify` and the reports do."""

from __future__ import annotations

from fairdraw.verification import cause_text

#: Maps faults to names of harness/run/evidence/cause_texts.inc, in the order of causes. A fault
#: explains the faults after it, because tokens that depend on each other, or that do not follow the
#: reported numbers, make all other evidence useless.
CAUSES = {
    "seeds_alike": "shared random bits: all seeds give the same tokens",
    "seed_ignored": "seeds: ignored",
    "unseeded_alike": "shared random bits: requests without a seed repeat each other",
    "unseeded_follow_seeds": "shared random bits: requests without a seed follow the one before",
    "choices_alike": "shared random bits: the outputs of a request repeat each other",
    "logprobs_do_not_fit": "log-probabilities: not those of the drawn tokens",
    "temperature": "temperature: another than claimed",
    "top_k_off_by_one": "top_k: one token too many or too few",
    "top_k": "top_k: ignored",
    "top_p_off_by_one": "definition of mass exactly at top_p: inclusive_mass_at_most_p",
    "top_p": "top_p: ignored",
    "min_p": "min_p: ignored",
    "order": "order of the filters",
    "outside_support": "out of support",
    "penalties": "penalties: ignored",
    "penalties_unasked": "penalties: not asked for",
    "greedy": "greedy rows",
    "neighbours": "batch dependence or state",
    "logit_bias": "logit bias: ignored",
    "stop": "stop strings: ignored",
    "stop_kept": "stop strings: kept",
    "n": "n: ignored",
}


def sentence(fault: str) -> str:
    """Returns the sentence that describes the server's behaviour."""
    return cause_text(CAUSES[fault])[0]


def change(fault: str) -> str:
    """Returns the sentence that says how to change the server."""
    return cause_text(CAUSES[fault])[1]
