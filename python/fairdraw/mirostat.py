"""Keeps the surprise of a request's tokens near a target (fairdraw/mirostat.h).

>>> state = fairdraw.Mirostat(tau=5.0, eta=0.1)
>>> processing = fairdraw.RequestProcessing(
...     filter_chain=["temperature", "epsilon_cutoff"],
...     chain_temperature=0.8, epsilon_cutoff=state.epsilon_cutoff())
>>> details = fairdraw.sample(logits, temperature=0.8, seed=7, processing=[processing],
...     return_details=True)
>>> state.observe(details.logprob_filtered[0])

Definition: fairdraw/mirostat.h, which names the sources: Basu et al. 2021, llama.cpp.

Raises:
    TypeError: An argument is no number or array, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range.
"""

from __future__ import annotations

import math
from typing import Any

from . import _core
from ._host_arrays import array


class Mirostat:
    """The state of one request: `tau` is the surprise that is aimed at, `eta` the rate at which the
    limit follows, and `mu` the largest surprise that the next token may have, all in bits. All are
    finite. mu begins with 2 tau."""

    def __init__(self, tau: float = 5.0, eta: float = 0.1, mu: float | None = None) -> None:
        self.tau, self.eta = float(tau), float(eta)
        self.mu = 2 * self.tau if mu is None else float(mu)
        for name in ("tau", "eta", "mu"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}; allowed: a finite number")

    def epsilon_cutoff(self) -> float:
        """Returns the epsilon_cutoff of the next token (version 2): 2^-mu, but at most 1."""
        return _core.mirostat_cutoff(self.tau, self.eta, self.mu)

    def top_k(self, largest: Any, vocab: int) -> int:
        """Returns the chain_top_k of the next token (version 1), from 1 to `vocab`. `largest` [m]
        float32 has the row's largest log-probabilities at the request's temperature, before the
        filter, in decreasing order; llama.cpp takes 100."""
        values = array("largest", largest, "float32", axes=(1,))
        return _core.mirostat_top_k(self.tau, self.eta, self.mu, values, vocab)

    def observe(self, logprob_filtered: float) -> None:
        """Moves mu after a token, whose log-probability among the survivors is that of
        `sample(..., return_details=True)`."""
        self.mu = _core.mirostat_mu(self.tau, self.eta, self.mu, float(logprob_filtered))
