"""What an audit found: checks with verdicts, and the fault that explains those that failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["passed", "failed", "underpowered", "skipped", "error"]

#: What to change, by fault. Its order is the order of causes: a fault explains those after it, since
#: tokens that depend on each other, or numbers that are not theirs, spoil all other evidence.
FAULTS = {
    "seeds_alike": "all seeds give the same tokens: the request's seed has to reach the generator",
    "seed_ignored": "the same seed gives other tokens: draw with the request's seed",
    "unseeded_alike": "requests without a seed repeat each other: each needs a fresh seed",
    "unseeded_follow_seeds": "requests without a seed continue from the seed of the request before "
    "them: each needs a fresh seed",
    "choices_alike": "the n choices of a request repeat each other: each needs random bits of its own",
    "logprobs_do_not_fit": "the reported log-probabilities are not those of the drawn tokens",
    "temperature": "the temperature is another than claimed",
    "top_k_off_by_one": "top_k keeps one token too many or too few",
    "top_k": "top_k is ignored",
    "top_p_off_by_one": "top_p drops the token at which the mass reaches it",
    "top_p": "top_p is ignored",
    "min_p": "min_p is ignored",
    "order": "temperature and filters are applied in another order than claimed",
    "outside_support": "tokens are drawn that the filters do not keep",
    "penalties": "presence_penalty or frequency_penalty is ignored",
    "greedy": "temperature 0 does not take the likeliest token",
    "neighbours": "a seeded request gets other tokens when others run with it",
    "logit_bias": "logit_bias is ignored",
    "stop": "the stop string is ignored",
    "stop_kept": "the output has the stop string that ended it: cut it off",
    "n": "n is ignored: a request for several outputs gets one",
}

#: Of those, the ones by which outputs repeat each other.
ALIKE = ("seeds_alike", "unseeded_alike", "unseeded_follow_seeds", "choices_alike")


@dataclass
class Check:
    """One line of the report."""

    id: str
    verdict: Verdict
    message: str
    fault: str = ""  #: what a failed check names
    tokens: int = 0
    log_e: float | None = None
    measures: dict[str, float] = field(default_factory=dict)
    #: The smallest total variation of an alternative that would have been seen.
    min_discrepancy: float | None = None
    by_fault: dict[str, float] = field(default_factory=dict)  #: of a stream: log-likelihoods


@dataclass(frozen=True)
class Unnoticed:
    """A small deviation, and how many tokens of a check would have shown it."""

    text: str
    check: str
    size: float
    tokens: int
    needed: int


@dataclass
class Findings:
    checks: list[Check]
    kind: str  #: "raw", "processed" or "unknown"
    log_threshold: float  #: of a check's log evidence
    unnoticed: list[Unnoticed]
    requests: int
    answered: int
    tokens: int

    @property
    def failed(self) -> list[Check]:
        order = list(FAULTS)

        def rank(check: Check) -> tuple[int, float]:
            place = order.index(check.fault)
            # Few of them are equal: tokens that do not follow their numbers look like repeats, too.
            measures = check.measures
            if check.fault in ALIKE and 2 * measures["equal"] < measures["compared"]:
                place += len(order)
            return place, -(check.log_e or 0.0)

        return sorted((check for check in self.checks if check.verdict == "failed"), key=rank)

    @property
    def cause(self) -> str:
        """The fault that explains the others, or ""."""
        failed = self.failed
        if not failed:
            return ""
        # Each stream has its own likeliest fault. The one that explains all of them is the cause;
        # where a stream lacks a filter, a fault of that filter explains nothing.
        streamed = [check for check in failed if check.by_fault]
        if failed[0] in streamed and failed[0].fault != "logprobs_do_not_fit":
            totals = {
                fault: sum(c.by_fault.get(fault, c.by_fault[""]) for c in streamed)
                for fault in {check.fault for check in streamed}
            }
            return max(totals, key=lambda fault: totals[fault])
        return failed[0].fault

    @property
    def verdict(self) -> Verdict:
        verdicts = {check.verdict for check in self.checks}
        if "failed" in verdicts:
            return "failed"
        if "passed" not in verdicts or "underpowered" in verdicts:
            return "underpowered"
        return "error" if "error" in verdicts else "passed"
