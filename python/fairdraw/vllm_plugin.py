"""vLLM's plugin (entry point `vllm.general_plugins`): fairdraw.torch.TopKTopPSampler for vLLM's own.

    FAIRDRAW_VLLM=1 VLLM_USE_V2_MODEL_RUNNER=0 vllm serve ...

vLLM loads the plugins of all installed packages in each of its processes. This one does nothing
unless FAIRDRAW_VLLM is 1. Then the Sampler of model runner V1 gets our class under the name of
vLLM's. Model runner V2 draws in a sampler of its own, so vLLM has to be told not to take it: it is
refused instead of being served by the other sampler. FAIRDRAW_VLLM_FAILED_TOKEN is the class's
`failed_token`: an id for rows that cannot be sampled, where requests ask for log-probabilities.
Drafted tokens are verified by vLLM's own rejection sampler.
"""

from __future__ import annotations

import functools
import os

SWITCH = "FAIRDRAW_VLLM"
FAILED_TOKEN = "FAIRDRAW_VLLM_FAILED_TOKEN"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def register() -> None:
    """What vLLM calls, once or several times a process."""
    chosen = os.environ.get(SWITCH, "")
    if chosen in ("", "0"):
        return
    if chosen != "1":
        raise ValueError(
            f"{SWITCH} is {chosen!r}; allowed: 1, or 0 or unset for vLLM's own sampler"
        )
    from vllm import envs
    from vllm.v1.sample import sampler

    from .torch import TopKTopPSampler

    runner = getattr(envs, RUNNER, False)  # versions without it have V1 alone
    if runner is not False:
        raise ValueError(
            f"{RUNNER} is {os.environ.get(RUNNER, 'unset')}; allowed with {SWITCH}=1: 0, because "
            "model runner V2 does not call the sampler that is replaced"
        )
    sampler.TopKTopPSampler = functools.partial(TopKTopPSampler, failed_token=_failed_token())


def _failed_token() -> int:
    text = os.environ.get(FAILED_TOKEN, "-1")
    try:
        token = int(text)
    except ValueError:
        token = -2
    if token < -1:
        raise ValueError(f"{FAILED_TOKEN} is {text!r}; allowed: -1, or an id")
    return token
