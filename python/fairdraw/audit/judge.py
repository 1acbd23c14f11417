"""The verdict of an audit: a pure function of its settings and records, so that it can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from .distribution import Claim, nominal, upper_bounds
from .evidence import alternatives, different_tokens, judge_stream, same_tokens, some_differ
from .plan import BIAS, PENALTY, SEVERAL, Settings, streams
from .records import Choice, Position, Record, choices_of, positions_of

Verdict = Literal["passed", "failed", "underpowered", "skipped", "error"]

#: What to change, by fault. Its order is the order of causes: a fault explains those after it, since
#: tokens that depend on each other, or numbers that are not theirs, spoil all other evidence.
FAULTS = {
    "seeds_alike": "all seeds give the same tokens: the request's seed has to reach the generator",
    "seed_ignored": "the same seed gives other tokens: draw with the request's seed",
    "unseeded_alike": "requests without a seed repeat each other: each needs a fresh seed",
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
}


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
            if (
                check.id.endswith("/differ")
                and 2 * check.measures["equal"] < check.measures["compared"]
            ):
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


class _Judge:
    def __init__(self, settings: Settings, records: Sequence[Record]) -> None:
        self.settings = settings
        self.records = sorted(records, key=lambda record: record.id)
        self.choices: dict[tuple[str, int], list[Choice]] = {}
        self.bodies: dict[tuple[str, int], Any] = {}
        for record in self.records:
            found = choices_of(record, settings.top_logprobs)
            if found:
                self.choices[record.phase, record.key] = found
                self.bodies[record.phase, record.key] = record.body
        self.streams = streams(settings)
        # One threshold for all: by the union bound their false alarms sum to alpha.
        self.statistical = len(self.streams) + 1 + len(("seeds", "unseeded", "n", "again", "load"))
        self.log_threshold = float(np.log(self.statistical / settings.alpha))
        self.unnoticed: list[Unnoticed] = []

    def of(self, phase: str) -> list[tuple[int, Choice]]:
        """(key, first output) of each response of a phase."""
        found = [(key, each[0]) for (name, key), each in self.choices.items() if name == phase]
        return sorted(found, key=lambda pair: pair[0])

    def prompt(self, key: int) -> int:
        return key % len(self.settings.prompts)

    def starts(self) -> dict[int, Position]:
        """prompt -> the first position's numbers at temperature 1 without filters."""
        found: dict[int, Position] = {}
        for key, choice in self.of("plain"):
            if choice.positions:
                found.setdefault(self.prompt(key), choice.positions[0])
        return found

    def kind(self) -> tuple[str, Check]:
        """Whether numbers are of the raw logits or of what is drawn from, and whether they agree."""
        noise, name = self.settings.noise, "logprobs/kind"
        wrong_own, count, most_sum = 0, 0, 0.0
        for choices in self.choices.values():
            for choice in choices:
                for position in choice.positions:
                    count += 1
                    most_sum = max(most_sum, float(np.exp(position.logprobs).sum()))
                    if position.drawn in position.tokens:
                        listed = position.logprobs[position.tokens.index(position.drawn)]
                        off = abs(listed - position.drawn_logprob)
                        wrong_own += int(bool(off > 2 * noise))
        measures = {"largest_sum": most_sum, "own_number_differs": float(wrong_own)}

        def check(verdict: Verdict, message: str, fault: str = "") -> Check:
            return Check(name, verdict, message, fault, count, measures=measures)

        if count == 0:
            return "unknown", check("error", "no response has log-probabilities")
        if wrong_own or most_sum > np.exp(2 * noise) * (1 + 1e-3):
            text = (
                f"the number of the drawn token is not the one listed for it at {wrong_own} of "
                f"{count} positions; the largest sum of probabilities is {most_sum:.4f}"
            )
            return "raw", check("failed", text, "logprobs_do_not_fit")
        if self.settings.logprobs != "auto":
            return self.settings.logprobs, check("passed", f"stated: {self.settings.logprobs}")
        claim, starts = self.settings.claim, self.starts()
        if "claimed" not in self.streams:
            return "raw", check("passed", "temperature 1 without filters: both are the same")
        raw = scaled = compared = 0
        ratios: list[float] = []
        for key, choice in self.of("claimed"):
            start = starts.get(self.prompt(key))
            if start is None or not choice.positions:
                continue
            here = choice.positions[0]
            here_numbers = dict(zip(here.tokens, here.logprobs, strict=True))
            base = dict(zip(start.tokens, start.logprobs, strict=True))
            common = [t for t in base if np.isfinite(here_numbers.get(t, -np.inf))]
            if not common:
                continue
            compared += 1
            top = common[0]
            now = np.array([here_numbers[t] for t in common])
            then = np.array([base[t] for t in common])
            raw += bool(np.abs(now - then).max() <= 2 * noise)
            steps, wanted = now - here_numbers[top], (then - base[top]) / claim.temperature
            bound = 2 * noise * (1 + 1 / claim.temperature)
            scaled += bool(np.abs(steps - wanted).max() <= bound)
            if len(common) > 1 and steps[-1] < 0:
                ratios.append(float((then[-1] - base[top]) / steps[-1]))
        measures["compared"] = compared
        if compared == 0:
            return "unknown", check("skipped", "not judged: no two positions have the same prefix")
        if raw == compared:
            return "raw", check("passed", "raw: before temperature and filters")
        if scaled == compared:
            return "processed", check("passed", "processed: of the distribution drawn from")
        spread = max(ratios) - min(ratios) if ratios else np.inf
        if ratios and spread <= 0.05 * abs(ratios[0]):
            text = (
                f"the reported numbers are those of temperature {np.median(ratios):.3g}, "
                f"not of {claim.temperature:g} nor raw ones"
            )
            return "processed", check("failed", text, "temperature")
        text = (
            f"at {compared - max(raw, scaled)} of {compared} first positions the numbers are "
            "neither raw nor those of the claimed temperature"
        )
        return "unknown", check("failed", text, "logprobs_do_not_fit")

    def stream(self, name: str, claim: Claim, choices: Sequence[Choice], first: bool) -> Check:
        settings = self.settings
        positions = positions_of(choices, settings.top_logprobs, 0 if first else None)
        return self.judged(name, claim, positions)

    def judged(self, name: str, claim: Claim, positions: Any) -> Check:
        settings = self.settings
        found = judge_stream(positions, claim, settings.noise, settings.vocab, alternatives(claim))
        if found.positions == 0:
            return Check(f"stream/{name}", "skipped", "not judged: no position was gathered")
        check = Check(f"stream/{name}", "passed", "", "", found.positions, found.log_e)
        check.measures["tokens_excluded"] = float(found.excluded)
        check.by_fault = found.by_fault
        sure = [power for power in found.powers if power.gain >= self.noticed(claim)]
        if sure:
            check.min_discrepancy = min(min(power.total_variation for power in sure), 1.0)
        check.measures["alternatives_excluded"] = float(len(sure))
        check.measures["alternatives"] = float(len(found.powers))
        if found.log_e >= self.log_threshold:
            check.verdict = "failed"
            assert found.best is not None  # there are positions
            plain = name in ("plain", "fit")  # nothing was asked of these tokens
            check.fault = "logprobs_do_not_fit" if plain else found.best.fault
            check.message = FAULTS[check.fault] if plain else found.best.text
            if found.excluded:
                check.message += f"; no reading of the claim allows {found.excluded} of the tokens"
            return check
        self.note_unnoticed(name, claim, found)
        if not sure:
            check.verdict = "underpowered"
            check.message = "too few tokens to find even the largest deviation that is looked for"
        else:
            missed = {p.alternative.text for p in found.powers if p not in sure}
            check.message = f"{len(sure)} of {len(found.powers)} deviations would have been seen"
            check.message += f"; not: {'; '.join(sorted(missed))}" if missed else ""
        return check

    def noticed(self, claim: Claim) -> float:
        """The gain that a single bet of the mixture needs."""
        return self.log_threshold + float(np.log(len(alternatives(claim))))

    def note_unnoticed(self, name: str, claim: Claim, found: Any) -> None:
        """The smallest deviation of temperature that is sure to be seen, on each side."""
        for above in (False, True):
            sides = [
                (abs(np.log(power.alternative.factor)), power.alternative, power.gain)
                for power in found.powers
                if power.alternative.factor != 1 and (power.alternative.factor > 1) == above
            ]
            missed = [each for each in sides if each[2] < self.noticed(claim)]
            if missed:
                size, alternative, gain = max(missed, key=lambda each: each[0])
                share = max(gain, 0.0) / self.noticed(claim)
                needed = int(found.positions / share) if share > 0.01 else 100 * found.positions
                text = f"temperature {alternative.factor:g} times the claimed one"
                note = Unnoticed(
                    text, f"stream/{name}", float(size), found.positions, max(needed, 1)
                )
                self.unnoticed.append(note)

    def stream_checks(self, kind: str) -> Iterator[Check]:
        starts = self.starts()
        for name, claim in self.streams.items():
            pairs = self.of(name)
            choices = [choice for _, choice in pairs]
            if name == "penalties":
                yield self.penalties(claim, choices, kind)
            elif kind == "raw" or name == "plain":
                yield self.stream(name, claim, choices, first=False)
            elif kind == "processed":
                # Numbers of what is drawn from hide the raw ones, except at a response's start.
                yield self.stream(name, claim, self.first_positions(pairs, starts), first=True)
            else:
                text = "not judged: the reported numbers are neither raw nor processed"
                yield Check(f"stream/{name}", "skipped", text)
        if kind == "processed":
            choices = [
                choice
                for name in self.streams
                if name not in ("plain", "penalties")
                for _, choice in self.of(name)
            ]
            plain = Claim(order=self.settings.order)
            yield self.stream("fit", plain, choices, first=False)

    def first_positions(
        self, pairs: Sequence[tuple[int, Choice]], starts: dict[int, Position]
    ) -> list[Choice]:
        found = []
        for key, choice in pairs:
            start = starts.get(self.prompt(key))
            if start is not None and choice.positions:
                drawn = choice.positions[0].drawn
                own = Position(start.tokens, start.logprobs, drawn, np.nan)
                found.append(Choice(choice.text, choice.finish_reason, (own,)))
        return found

    def penalties(self, claim: Claim, choices: Sequence[Choice], kind: str) -> Check:
        """Penalties act on what the numbers show, or are in them already: greedy outputs tell."""
        if kind != "raw":
            text = "not judged: penalties are in the reported numbers, or these are not raw"
            return Check("stream/penalties", "skipped", text)
        with_them, without = dict(self.of("greedy_penalised")), dict(self.of("greedy"))
        inside = outside = 0
        for key in set(with_them) & set(without):
            pair = zip(with_them[key].positions, without[key].positions, strict=False)
            seen: dict[str, int] = {}
            for one, other in pair:
                base = dict(zip(other.tokens, other.logprobs, strict=True))
                here = dict(zip(one.tokens, one.logprobs, strict=True))
                fresh = [t for t in base if t in here and t not in seen]
                for token in seen:
                    if token in here and token in base and fresh:
                        change = (here[token] - here[fresh[0]]) - (base[token] - base[fresh[0]])
                        # One occurrence costs twice that, which is far more than the noise.
                        inside += change < -PENALTY
                        outside += change >= -PENALTY
                if one.drawn != other.drawn:
                    break
                seen[one.drawn] = seen.get(one.drawn, 0) + 1
        if inside == outside == 0:
            text = "not judged: no number tells whether it is of before or after the penalties"
            return Check("stream/penalties", "skipped", text)
        if inside:
            check = self.stream("penalties", Claim(order=claim.order), choices, first=False)
            check.message = "penalties are in the reported numbers; " + check.message
            return check
        return self.stream("penalties", claim, choices, first=False)

    def plain_bounds(self, choice: Choice) -> list[float]:
        """The largest probability of each token of an output at temperature 1."""
        positions = positions_of([choice], self.settings.top_logprobs)
        if not len(positions):
            return []
        plain = Claim(order=self.settings.order)
        upper = upper_bounds(positions, plain, self.settings.noise, self.settings.vocab).outcomes
        # Of a token that is not reported the whole tail's probability is a bound too.
        column = np.where(positions.drawn < 0, upper.shape[1] - 1, positions.drawn)
        return [float(value) for value in upper[np.arange(len(positions)), column]]

    def independence(
        self, name: str, fault: str, groups: Sequence[Sequence[Choice]], what: str
    ) -> Check:
        """Whether outputs repeat each other that should be drawn independently."""
        tokens = equal = compared = 0
        log_e = most = 0.0
        for group in groups:
            for other in group[1:]:
                bounds = self.plain_bounds(group[0])
                log_e += same_tokens(group[0].tokens, other.tokens, bounds)
                most += same_tokens(group[0].tokens, group[0].tokens, bounds)
                equal += group[0].tokens == other.tokens
                compared += 1
            tokens += sum(len(choice.tokens) for choice in group)
        if compared == 0:
            return Check(name, "skipped", f"not judged: fewer than two {what} were gathered")
        if most < self.log_threshold:
            text = f"not judged: {what} are so predictable that equal ones prove nothing"
            return Check(name, "skipped", text)
        measures = {"compared": float(compared), "equal": float(equal)}
        text = f"{equal} of {compared} {what} are equal to the first"
        verdict: Verdict = "failed" if log_e >= self.log_threshold else "passed"
        return Check(name, verdict, text, fault, tokens, max(log_e, 0.0), measures)

    def seeds(self) -> Iterator[Check]:
        by_prompt: dict[int, list[Choice]] = {}
        for key, choice in self.of("plain"):
            by_prompt.setdefault(self.prompt(key), []).append(choice)
        yield self.independence(
            "seeds/differ", "seeds_alike", list(by_prompt.values()), "outputs of different seeds"
        )
        unseeded = [choice for _, choice in self.of("unseeded")]
        yield self.independence(
            "unseeded/differ", "unseeded_alike", [unseeded], "outputs without a seed"
        )
        several = [each for (name, _), each in sorted(self.choices.items()) if name == "several"]
        if several and all(len(each) == 1 for each in several):
            text = f"not judged: the server answers n = {SEVERAL} with one"
            yield Check("n/differ", "skipped", text)
        else:
            yield self.independence("n/differ", "choices_alike", several, "choices of a request")

    def repeats(self, name: str, fault: str, phase: str) -> Check:
        """Whether a request with a seed gets the tokens that it got when it was alone."""
        alone, others = dict(self.of("alone")), dict(self.of(phase))
        each: list[float] = []
        most, equal, tokens = 0.0, 0, 0
        claim = self.settings.claim if self.settings.temperature > 0 else Claim()
        keys = sorted(set(alone) & set(others))
        for key in keys:
            first, second = alone[key], others[key]
            positions = positions_of([first], self.settings.top_logprobs)
            expected = nominal(positions, claim, self.settings.vocab)
            chances = [float(chance) for chance in (expected**2).sum(axis=1)]
            each.append(
                different_tokens(first.tokens, second.tokens, chances, self.settings.divergence)
            )
            equal += first.tokens == second.tokens
            tokens += len(first.tokens) + len(second.tokens)
            # What parting at the first position would have brought.
            most += different_tokens([0], [1], chances[:1], self.settings.divergence)
        if not keys:
            return Check(name, "skipped", "not judged: no pair was gathered")
        if most < self.log_threshold:
            text = "not judged: too few pairs, or their first tokens are too predictable"
            return Check(name, "skipped", text)
        log_e = some_differ(each)
        text = f"{equal} of {len(keys)} requests got the same tokens as before"
        verdict: Verdict = "failed" if log_e >= self.log_threshold else "passed"
        measures = {"compared": float(len(keys)), "equal": float(equal)}
        return Check(name, verdict, text, fault, tokens, max(log_e, 0.0), measures)

    def greedy(self) -> Check:
        wrong = tokens = 0
        for _, choice in self.of("greedy"):
            for position in choice.positions:
                tokens += 1
                wrong += int(
                    position.drawn_logprob < position.logprobs[0] - 2 * self.settings.noise
                )
        if tokens == 0:
            return Check("greedy", "skipped", "not judged: no greedy position was gathered")
        text = f"{wrong} of {tokens} tokens at temperature 0 are not the likeliest"
        return Check("greedy", "failed" if wrong else "passed", text, "greedy", tokens)

    def bias(self) -> Check:
        outputs = dict(self.of("bias"))
        drawn = {key: set(choice.tokens) for key, choice in outputs.items() if choice.tokens}
        if len(drawn) < 2:
            text = "not judged: the outputs with a biased token are empty (does it end a text?)"
            return Check("logit_bias", "skipped", text)
        tokens = sum(len(choice.tokens) for choice in outputs.values())
        ignored = any(len(each) > 1 for each in drawn.values()) or drawn[0] == drawn[1]
        text = (
            f"a bias of {BIAS} on one token gives {len(drawn[0])} and {len(drawn[1])} different "
            "tokens" + (", the same for both ids" if drawn[0] == drawn[1] else "")
        )
        verdict: Verdict = "failed" if ignored else "passed"
        return Check("logit_bias", verdict, text, "logit_bias", tokens)

    def stop(self) -> Check:
        ignored, ended = [], 0
        for key, choice in self.of("stop"):
            (text,) = self.bodies["stop", key]["stop"]
            if text in choice.text:
                ignored.append(text)
            ended += choice.finish_reason == "stop"
        if ignored:
            text = f"the output has the stop string {ignored[0]!r}"
            return Check("stop", "failed", text, "stop")
        if ended == 0:
            return Check("stop", "skipped", "not judged: no stop string occurred in an output")
        return Check("stop", "passed", f"{ended} outputs ended at their stop string")

    def findings(self) -> Findings:
        errors = [record for record in self.records if record.response is None]
        kind, kind_check = self.kind()
        checks = [kind_check]
        steps: list[Callable[[], Iterator[Check]]] = [
            lambda: self.stream_checks(kind),
            self.seeds,
            lambda: iter(
                [
                    self.repeats("seeds/repeat", "seed_ignored", "again"),
                    self.repeats("seeds/under_load", "neighbours", "loaded"),
                    self.greedy(),
                    self.bias(),
                    self.stop(),
                ]
            ),
        ]
        for step in steps:
            checks += step()
        if errors:
            text = f"{len(errors)} of {len(self.records)} requests failed; first: {errors[0].error}"
            checks.append(Check("requests", "error", text))
        repeat = next(check for check in checks if check.id == "seeds/repeat")
        load = next(check for check in checks if check.id == "seeds/under_load")
        if repeat.verdict == load.verdict == "failed":
            load.fault = repeat.fault  # not the neighbours: it differs without them, too
        tokens = sum(len(c.tokens) for each in self.choices.values() for c in each)
        answered = len(self.records) - len(errors)
        return Findings(
            checks,
            kind,
            self.log_threshold,
            self.unnoticed,
            len(self.records),
            answered,
            tokens,
        )


def judge(settings: Settings, records: Sequence[Record]) -> Findings:
    """What these records say of the server."""
    return _Judge(settings, records).findings()
