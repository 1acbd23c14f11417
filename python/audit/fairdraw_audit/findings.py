"""Defines the results of an audit: checks with verdicts, and the fault that explains the failed
checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .causes import CAUSES

Verdict = Literal["passed", "failed", "underpowered", "skipped", "error"]

#: Faults that make outputs of different requests repeat each other.
ALIKE = ("seeds_alike", "unseeded_alike", "unseeded_follow_seeds", "choices_alike")


@dataclass
class Check:
    """One check in the report of an audit, with its verdict."""

    id: str
    verdict: Verdict
    message: str
    fault: str = ""  #: the fault that a failed check names
    tokens: int = 0
    log_e: float | None = None
    measures: dict[str, float] = field(default_factory=dict)
    #: The smallest total variation distance at which the check would have noticed an alternative.
    min_discrepancy: float | None = None
    #: Log-likelihoods per fault, for streams only.
    by_fault: dict[str, float] = field(default_factory=dict)
    #: Steps of the claim whose omission the check would have noticed.
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Unnoticed:
    """A small deviation from the claim, and the number of tokens with which a check would have
    noticed the deviation."""

    text: str
    check: str
    size: float
    tokens: int
    needed: int


@dataclass
class Findings:
    checks: list[Check]
    kind: str  #: whether log-probabilities are "raw", "processed" or "unknown"
    log_threshold: float  #: threshold of a check's log evidence
    unnoticed: list[Unnoticed]
    requests: int
    answered: int
    tokens: int

    @property
    def failed(self) -> list[Check]:
        order = list(CAUSES)

        def rank(check: Check) -> tuple[int, float]:
            place = order.index(check.fault)
            # A few equal outputs may only look like repeats, because the tokens do not follow their
            # log-probabilities.
            measures = check.measures
            if check.fault in ALIKE and 2 * measures["equal"] < measures["compared"]:
                place += len(order)
            return place, -(check.log_e or 0.0)

        return sorted((check for check in self.checks if check.verdict == "failed"), key=rank)

    @property
    def cause(self) -> str:
        """Returns the fault that explains the other faults, or "" if there is no fault."""
        failed = self.failed
        if not failed:
            return ""
        # Each stream of tokens has a likeliest fault of its own. The cause is the fault that
        # explains all streams. A fault of a filter does not explain a stream whose claim lacks that
        # filter.
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
