"""Makes the verdict of an audit. The verdict is a pure function of settings and records, so that it
can be repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .comparisons import Comparisons
from .distribution import Claim
from .evidence import active_filters, alternatives, judge_stream
from .findings import Check, Findings, Unnoticed, Verdict
from .gathered import Gathered
from .plan import PENALTY, Settings, streams
from .records import Choice, Position, Record, positions_of

#: Statistical checks of `comparisons`, in addition to the streams and to the check that processed
#: log-probabilities fit.
COMPARED = ("seeds", "unseeded", "after_seeds", "n", "again", "load")


class _Judge:
    def __init__(self, settings: Settings, records: Sequence[Record]) -> None:
        self.settings = settings
        self.gathered = Gathered(settings, records)
        self.streams = streams(settings)
        # All checks use the same threshold. By the union bound, the checks' rates of false alarms
        # sum to alpha.
        self.statistical = len(self.streams) + 1 + len(COMPARED)
        self.log_threshold = float(np.log(self.statistical / settings.alpha))
        self.unnoticed: list[Unnoticed] = []

    def kind(self) -> tuple[str, Check]:
        """Finds whether the log-probabilities belong to raw logits or to the distribution from
        which the server draws, and whether they agree with the drawn tokens."""
        noise, name = self.settings.noise, "logprobs/kind"
        wrong_own, count, max_sum = 0, 0, 0.0
        for choices in self.gathered.choices.values():
            for choice in choices:
                for position in choice.positions:
                    count += 1
                    max_sum = max(max_sum, float(np.exp(position.logprobs).sum()))
                    if position.drawn in position.tokens:
                        listed = position.logprobs[position.tokens.index(position.drawn)]
                        off = abs(listed - position.drawn_logprob)
                        wrong_own += int(bool(off > 2 * noise))
        measures = {"largest_sum": max_sum, "own_number_differs": float(wrong_own)}

        def check(verdict: Verdict, message: str, fault: str = "") -> Check:
            return Check(name, verdict, message, fault, count, measures=measures)

        if count == 0:
            return "unknown", check("error", "no response has log-probabilities")
        if wrong_own or max_sum > np.exp(2 * noise) * (1 + 1e-3):
            text = (
                f"the number of the drawn token is not the one listed for it at {wrong_own} of "
                f"{count} positions; the largest sum of probabilities is {max_sum:.4f}"
            )
            return "raw", check("failed", text, "logprobs_do_not_fit")
        if self.settings.logprobs != "auto":
            return self.settings.logprobs, check("passed", f"stated: {self.settings.logprobs}")
        claim, starts = self.settings.claim, self.gathered.starts()
        if "claimed" not in self.streams:
            return "raw", check("passed", "temperature 1 without filters: both are the same")
        raw = scaled = compared = 0
        ratios: list[float] = []
        for key, choice in self.gathered.of("claimed"):
            start = starts.get(self.gathered.prompt(key))
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
        check.seen = frozenset(
            p.alternative.ignored[0] for p in sure if len(p.alternative.ignored) == 1
        )
        check.measures["alternatives_excluded"] = float(len(sure))
        check.measures["alternatives"] = float(len(found.powers))
        if found.log_e >= self.log_threshold:
            check.verdict = "failed"
            assert found.best is not None  # some positions exist
            # The claims of the checks `plain` and `fit` change no distribution, so that the tokens
            # must fit the log-probabilities unless the server adds a penalty.
            plain = name in ("plain", "fit") and found.best.fault != "penalties_unasked"
            check.fault = "logprobs_do_not_fit" if plain else found.best.fault
            check.message = (
                "the reported log-probabilities are not those of the drawn tokens"
                if plain
                else found.best.text
            )
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
        """Returns the log payoff that a single bet needs so that the mixture of all bets reaches
        the threshold.
        """
        return self.log_threshold + float(np.log(len(alternatives(claim))))

    def note_unnoticed(self, name: str, claim: Claim, found: Any) -> None:
        """Notes the smallest deviation of the temperature, upwards and downwards, that is sure to
        be noticed."""
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
        starts = self.gathered.starts()
        for name, claim in self.streams.items():
            pairs = self.gathered.of(name)
            choices = [choice for _, choice in pairs]
            if name == "penalties":
                yield self.penalties(claim, choices, kind)
            elif kind == "raw" or name == "plain":
                yield self.stream(name, claim, choices, first=False)
            elif kind == "processed":
                # processed log-probabilities hide the raw ones, except at a response's start
                yield self.stream(name, claim, self.first_positions(pairs, starts), first=True)
            else:
                text = "not judged: the reported numbers are neither raw nor processed"
                yield Check(f"stream/{name}", "skipped", text)
        if kind == "processed":
            choices = [
                choice
                for name in self.streams
                if name not in ("plain", "penalties")
                for _, choice in self.gathered.of(name)
            ]
            plain = Claim(order=self.settings.order)
            yield self.stream("fit", plain, choices, first=False)

    def with_power(self, checks: list[Check]) -> list[Check]:
        """Makes the claim's check underpowered if a server could ignore a step of the claim without
        any stream showing the omission."""
        claim = self.settings.claim
        steps = (["temperature"] if claim.temperature != 1 else []) + active_filters(claim)
        unseen = [step for step in steps if not any(step in check.seen for check in checks)]
        for check in checks:
            if check.id == "stream/claimed" and check.verdict in ("passed", "skipped") and unseen:
                check.verdict = "underpowered"
                names = " and ".join(f"{name} {getattr(claim, name):g}" for name in unseen)
                check.message = f"a server that ignores {names} would pass; {check.message}"
        return checks

    def first_positions(
        self, pairs: Sequence[tuple[int, Choice]], starts: dict[int, Position]
    ) -> list[Choice]:
        found = []
        for key, choice in pairs:
            start = starts.get(self.gathered.prompt(key))
            if start is not None and choice.positions:
                drawn = choice.positions[0].drawn
                own = Position(start.tokens, start.logprobs, drawn, np.nan)
                found.append(Choice(choice.text, choice.finish_reason, (own,)))
        return found

    def penalties(self, claim: Claim, choices: Sequence[Choice], kind: str) -> Check:
        """Judges by greedy outputs whether penalties act on the reported log-probabilities, or are
        already contained in them."""
        if kind != "raw":
            text = "not judged: penalties are in the reported numbers, or these are not raw"
            return Check("stream/penalties", "skipped", text)
        with_them, without = (
            dict(self.gathered.of("greedy_penalised")),
            dict(self.gathered.of("greedy")),
        )
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
                        # One occurrence of the token costs twice PENALTY, which is far more than
                        # the noise.
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

    def findings(self) -> Findings:
        records = self.gathered.records
        errors = [record for record in records if record.response is None]
        kind, kind_check = self.kind()
        checks = [kind_check, *self.with_power(list(self.stream_checks(kind)))]
        checks += Comparisons(self.gathered, self.log_threshold).checks()
        if errors:
            phases = ", ".join(sorted({record.phase for record in errors}))
            text = f"{len(errors)} of {len(records)} requests failed ({phases}); "
            checks.append(Check("requests", "error", text + f"first: {errors[0].error}"))
        tokens = sum(len(c.tokens) for each in self.gathered.choices.values() for c in each)
        answered = len(records) - len(errors)
        return Findings(
            checks,
            kind,
            self.log_threshold,
            self.unnoticed,
            len(records),
            answered,
            tokens,
        )


def judge(settings: Settings, records: Sequence[Record]) -> Findings:
    """Returns the findings of these records about the server."""
    return _Judge(settings, records).findings()
