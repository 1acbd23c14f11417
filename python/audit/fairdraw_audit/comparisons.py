"""Makes the checks that compare outputs: seeds, repeats, n, greedy, logit_bias and stop strings.

If a server reports no log-probabilities, some checks compare texts instead. A text is then one
symbol whose probability is unknown.

Equal requests rarely get different texts, by the stated `divergence`, whatever tokens are drawn.

Texts of one prompt without a seed are exchangeable. A text may equal the text that came after the
same seeded request only with the probability that a random order of the texts has this property.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import lgamma

import numpy as np

from .distribution import Claim, nominal, upper_bounds
from .evidence import different_tokens, same_tokens, some_differ
from .findings import Check, Verdict
from .gathered import Gathered
from .plan import BIAS, BIAS_TOKENS, PAIR_TOKENS, SEVERAL
from .records import Choice, positions_of

NO_NUMBERS = "not judged: no numbers say how likely equal outputs are"


class Comparisons:
    def __init__(self, gathered: Gathered, log_threshold: float) -> None:
        self.gathered = gathered
        self.settings = gathered.settings
        self.log_threshold = log_threshold
        self.by_text = not gathered.has_numbers

    def checks(self) -> Iterator[Check]:
        yield from self.seeds()
        repeat = self.repeats("seeds/repeat", "seed_ignored", "again")
        load = self.repeats("seeds/under_load", "neighbours", "loaded")
        if repeat.verdict == load.verdict == "failed":
            # Neighbouring requests are not the cause, because outputs differ without neighbours, too.
            load.fault = repeat.fault
        yield repeat
        yield load
        yield self.greedy()
        yield self.bias()
        yield self.stop()

    def plain_bounds(self, choice: Choice) -> list[float]:
        """Returns the largest possible probability of each token of an output at temperature 1."""
        positions = positions_of([choice], self.settings.top_logprobs)
        if not len(positions):
            return []
        plain = Claim(order=self.settings.order)
        upper = upper_bounds(positions, plain, self.settings.noise, self.settings.vocab).outcomes
        # For a drawn token that is not reported, the probability of the whole tail is a bound.
        column = np.where(positions.drawn < 0, upper.shape[1] - 1, positions.drawn)
        return [float(value) for value in upper[np.arange(len(positions)), column]]

    def independence(
        self, name: str, fault: str, groups: Sequence[Sequence[Choice]], what: str
    ) -> Check:
        """Judges whether outputs that should be independent repeat each other."""
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
        if self.by_text:
            equal = sum(other.text == group[0].text for group in groups for other in group[1:])
            return Check(name, "skipped", f"{NO_NUMBERS}; {equal} of {compared} {what} are equal")
        if most < self.log_threshold:
            text = f"not judged: {what} are so predictable that equal ones prove nothing"
            return Check(name, "skipped", text)
        measures = {"compared": float(compared), "equal": float(equal)}
        text = f"{equal} of {compared} {what} are equal to the first"
        verdict: Verdict = "failed" if log_e >= self.log_threshold else "passed"
        return Check(name, verdict, text, fault, tokens, max(log_e, 0.0), measures)

    def followers(self) -> Check:
        """Judges whether outputs without a seed depend on the seed of the request before them."""
        name, fault = "unseeded/after_seeds", "unseeded_follow_seeds"
        what = "outputs without a seed, after the same seeded request,"
        before, after = dict(self.gathered.of("after_alone")), dict(self.gathered.of("after_again"))
        pairs = [(before[key], after[key]) for key in sorted(set(before) & set(after))]
        if not self.by_text or not pairs:
            return self.independence(name, fault, pairs, what)
        texts = Counter(one.text for one, _ in pairs)
        equal = sum(one.text == other.text for one, other in pairs)
        possible = lgamma(len(pairs) + 1) - sum(lgamma(count + 1) for count in texts.values())
        measures = {"compared": float(len(pairs)), "equal": float(equal)}
        text = f"{equal} of {len(pairs)} {what} are equal to the first"
        if possible < self.log_threshold:
            return Check(name, "skipped", f"not judged: too few different outputs; {text}")
        log_e = possible if equal == len(pairs) else 0.0
        verdict: Verdict = "failed" if log_e > 0 else "passed"
        return Check(name, verdict, text, fault, 0, log_e, measures)

    def seeds(self) -> Iterator[Check]:
        by_prompt: dict[int, list[Choice]] = {}
        for key, choice in self.gathered.of("plain"):
            by_prompt.setdefault(self.gathered.prompt(key), []).append(choice)
        yield self.independence(
            "seeds/differ", "seeds_alike", list(by_prompt.values()), "outputs of different seeds"
        )
        unseeded = [choice for _, choice in self.gathered.of("unseeded")]
        yield self.independence(
            "unseeded/differ", "unseeded_alike", [unseeded], "outputs without a seed"
        )
        yield self.followers()
        several = [
            each for (name, _), each in sorted(self.gathered.choices.items()) if name == "several"
        ]
        if several and all(len(each) == 1 for each in several):
            text = f"{len(several)} requests for n = {SEVERAL} outputs got one each"
            yield Check("n/differ", "failed", text, "n")
        else:
            yield self.independence("n/differ", "choices_alike", several, "choices of a request")

    def repeats(self, name: str, fault: str, phase: str) -> Check:
        """Judges whether a request with a seed gets the same tokens under load as alone."""
        alone, others = dict(self.gathered.of("alone")), dict(self.gathered.of(phase))
        pairs = [(alone[key], others[key]) for key in sorted(set(alone) & set(others))]
        if not pairs:
            return Check(name, "skipped", "not judged: no pair was gathered")
        judged = [self.repeated(first, second) for first, second in pairs]
        log_e = some_differ([each for each, _, _ in judged])
        # The evidence that there would be if all pairs of outputs had differed from the first
        # position on.
        most = sum(each for _, each, _ in judged)
        equal = sum(each for _, _, each in judged)
        text = f"{equal} of {len(pairs)} requests got the same tokens as before"
        if most < self.log_threshold:
            text = "not judged: too few pairs, or their first tokens are too predictable"
            return Check(name, "skipped", text)
        if self.by_text and 2 * len({choice.text for choice in alone.values()}) < len(alone):
            seen = "most outputs of different seeds are equal, so that equal ones prove nothing"
            return Check(name, "skipped", f"not judged: {seen}")
        tokens = sum(len(choice.tokens) for pair in pairs for choice in pair)
        verdict: Verdict = "failed" if log_e >= self.log_threshold else "passed"
        measures = {"compared": float(len(pairs)), "equal": float(equal)}
        return Check(name, verdict, text, fault, tokens, max(log_e, 0.0), measures)

    def repeated(self, first: Choice, second: Choice) -> tuple[float, float, bool]:
        """Returns the log evidence that two outputs differ, the maximum of that evidence, and
        whether the outputs are equal.
        """
        divergence = self.settings.divergence
        if self.by_text:
            # Bounds the probability that two texts for the same request differ at any position. The
            # assumed probability of agreement may be any number.
            divergence = min(1 - (1 - divergence) ** PAIR_TOKENS, 0.5)
            found = different_tokens([first.text], [second.text], [0.0], divergence)
            most = different_tokens([0], [1], [0.0], divergence)
            return found, most, first.text == second.text
        claim = self.settings.claim if self.settings.temperature > 0 else Claim()
        positions = positions_of([first], self.settings.top_logprobs)
        expected = nominal(positions, claim, self.settings.vocab)
        chances = [float(chance) for chance in (expected**2).sum(axis=1)]
        found = different_tokens(first.tokens, second.tokens, chances, divergence)
        most = different_tokens([0], [1], chances[:1], divergence)
        return found, most, first.tokens == second.tokens

    def greedy(self) -> Check:
        wrong = tokens = 0
        for _, choice in self.gathered.of("greedy"):
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
        outputs = [choice for _, choice in self.gathered.of("bias") if choice.text]
        if len(outputs) < 2:
            text = "not judged: the outputs with a biased token are empty (does it end a text?)"
            return Check("logit_bias", "skipped", text)
        drawn = [set(self.pieces(choice)) for choice in outputs]
        tokens = sum(len(choice.tokens) for choice in outputs)
        ignored = any(len(each) != 1 for each in drawn) or drawn[0] == drawn[1]
        text = f"a bias of {BIAS} on one token gives {len(drawn[0])} and {len(drawn[1])} different "
        text += "tokens" + (", the same for both ids" if drawn[0] == drawn[1] else "")
        if self.by_text and ignored:
            text = f"a bias of {BIAS} on one token does not repeat a piece of text of its own"
        return Check("logit_bias", "failed" if ignored else "passed", text, "logit_bias", tokens)

    def pieces(self, choice: Choice) -> list[str]:
        """Returns the tokens of an output. For a text, returns the piece that the text repeats
        BIAS_TOKENS times, if there is such a piece."""
        if not self.by_text:
            return choice.tokens
        # The detokenizer adds the spaces between the pieces.
        repeated = re.fullmatch(
            rf"\s*(\S.*?)(?:\s*\1){{{BIAS_TOKENS - 1}}}\s*", choice.text, re.DOTALL
        )
        return [repeated[1]] if repeated else []

    def stop(self) -> Check:
        ended = 0
        for key, choice in self.gathered.of("stop"):
            (text,) = self.gathered.bodies["stop", key]["stop"]
            stopped = choice.finish_reason == "stop"
            if text in choice.text:
                fault = "stop_kept" if stopped else "stop"
                return Check("stop", "failed", f"the output has the stop string {text!r}", fault)
            ended += stopped
        if ended == 0:
            return Check("stop", "skipped", "not judged: no stop string occurred in an output")
        return Check("stop", "passed", f"{ended} outputs ended at their stop string")
