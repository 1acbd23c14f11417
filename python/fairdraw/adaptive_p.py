"""Keeps the probabilities of a request's tokens near a target on average (fairdraw/adaptive_p.h).

>>> state = fairdraw.AdaptiveP(target=0.3, decay=0.9)
>>> chain = {"filter_chain": ["temperature", "adaptive_p"], "chain_temperature": 0.8}
>>> processing = fairdraw.RequestProcessing(**chain, adaptive_target=state.adapted_target())
>>> tokens = fairdraw.sample(logits, seed=7, processing=[processing])
>>> before = fairdraw.RequestProcessing(**chain)  # the step is off
>>> found = fairdraw.log_probabilities(logits, tokens, logprobs_mode="processed_logprobs",
...     temperature=0.8, processing=[before])
>>> state.observe(math.exp(found.values[0]))

Definition: fairdraw/adaptive_p.h, which names the source: llama.cpp.

Raises:
    TypeError: An argument is no number.
    ValueError: A number is out of its range.
"""

from __future__ import annotations

from . import _core

_LARGEST_DECAY = 0.9900000095367432  #: llama.cpp's 0.99, a float32


class AdaptiveP:
    """The state of one request: `target` is the probability that is aimed at, at most 1, and below 0
    if adaptive-p is off; `decay`, in [0, 0.99], is the weight of earlier tokens in `mean`, the mean
    probability of the tokens before adaptive_p. The mean begins with the target."""

    def __init__(self, target: float, decay: float = 0.9, mean: float | None = None) -> None:
        self.target, self.decay = float(target), float(decay)
        self.mean = self.target if mean is None else float(mean)
        if not self.target <= 1:
            raise ValueError(f"target is {self.target}; allowed: at most 1")
        if not 0 <= self.decay <= _LARGEST_DECAY:
            raise ValueError(f"decay is {self.decay}; allowed: 0 to 0.99")
        if self.target >= 0 and not 0 <= self.mean <= 1:
            raise ValueError(f"mean is {self.mean}; allowed: 0 to 1")

    def adapted_target(self) -> float:
        """Returns the adaptive_target of the next token: 2 target - mean, within [0, 1]; -1 if
        adaptive-p is off."""
        return _core.adaptive_target(self.target, self.decay, self.mean)

    def observe(self, probability: float) -> None:
        """Moves the mean after a token, which had this probability before adaptive_p: that of
        `log_probabilities` in the mode "processed_logprobs", without the step."""
        self.mean = _core.adaptive_mean(self.target, self.decay, self.mean, float(probability))
