"""Makes fairdraw draw in place of vLLM's own sampler, as a plugin of vLLM (entry point
`vllm.general_plugins`).

    FAIRDRAW_VLLM=1 FAIRDRAW_VLLM_FAILED_TOKEN=2 vllm serve ...

vLLM loads the plugins of all installed packages in each of its processes. This plugin does nothing
unless FAIRDRAW_VLLM is 1. With 1 the plugin changes vLLM's two model runners.

The Sampler of model runner V1 gets fairdraw.torch.TopKTopPSampler under the name of vLLM's.

The Sampler of model runner V2 keeps vLLM's logits processing, temperature and min_p.
`fairdraw.sample` does the steps after min_p: top-k, top-p and the draw. The seed is the request's,
as vLLM keeps it, and the offset is the token's position in its sequence.

FAIRDRAW_VLLM_FAILED_TOKEN is the token id for rows that cannot be sampled (NaN, or no token left).
The runner V2 needs this id, because V2 passes tokens to the next step without checking them. The id
of an end token ends a request whose row cannot be sampled. The runner V1 needs this id if requests
ask for log-probabilities. With VLLM_USE_V2_MODEL_RUNNER=0 only the model runner V1 runs. Drafted
tokens are verified by vLLM's own rejection samplers.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

SWITCH = "FAIRDRAW_VLLM"
FAILED_TOKEN = "FAIRDRAW_VLLM_FAILED_TOKEN"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def register() -> None:
    """Replaces vLLM's draws. vLLM calls this function once or several times per process."""
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

    failed_token = _failed_token()
    if getattr(envs, RUNNER, False) is not False:  # versions without this variable have only V1
        if failed_token == -1:
            raise ValueError(
                f"{FAILED_TOKEN} is {os.environ.get(FAILED_TOKEN, 'unset')}; allowed with model "
                f"runner V2: an id of the vocabulary, such as an end token's; or set {RUNNER}=0"
            )
        from vllm.v1.worker.gpu.sample import sampler as runner_v2

        # The class is patched, not its name in a module, so that modules that imported the class by
        # name use the new draw, too.
        runner_v2.Sampler._sample_random = _draw_of_runner_v2(failed_token)
    sampler.TopKTopPSampler = functools.partial(TopKTopPSampler, failed_token=failed_token)


def _draw_of_runner_v2(failed_token: int) -> Callable[..., tuple[Any, Any]]:
    """Makes the function that replaces Sampler._sample_random of
    vllm/v1/worker/gpu/sample/sampler.py."""
    from .torch import draw_and_mask

    def sample_random(
        self: Any,
        processed_logits: Any,
        expanded_idx_mapping: Any,
        idx_mapping_np: Any,
        pos: Any,
        top_k: Any | None,
        top_p: Any | None,
        *unused: Any,
        **unused_too: Any,
    ) -> tuple[Any, Any]:
        """Returns tokens [rows] int64, and the logits, in which dropped tokens are -inf if vLLM
        reads the logits.

        `processed_logits` [rows, vocab] are divided by the temperature unless the temperature is 0.
        `pos` [rows] is the position of the row's last input token. `expanded_idx_mapping` [rows]
        are the requests' slots in sampling_states. All other parameters choose between vLLM's own
        samplers.
        """
        states = self.sampling_states
        temperature = states.temperature.gpu[expanded_idx_mapping]
        modes = ("processed_logits", "processed_logprobs")
        return draw_and_mask(
            processed_logits,
            # 0 is greedy; other temperatures were applied before.
            temperature=(temperature != 0).float(),
            top_k=top_k,
            top_p=top_p,
            seed=states.seeds.gpu[expanded_idx_mapping],
            offset=pos.long(),
            failed_token=failed_token,
            masked=self.return_sampling_mask or self.logprobs_mode in modes,
        )

    return sample_random


def _failed_token() -> int:
    text = os.environ.get(FAILED_TOKEN, "-1")
    try:
        token = int(text)
    except ValueError:
        token = -2
    if token < -1:
        raise ValueError(f"{FAILED_TOKEN} is {text!r}; allowed: -1, or an id")
    return token
