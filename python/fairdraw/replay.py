"""Computes log-probabilities of sampled tokens under their kept sets, for trainers. The
log-probabilities are differentiable."""

from __future__ import annotations

from typing import Any

import torch

from .kept_sets import KeptSets
from .logprobs import log_probabilities


def _rows_of_ids(offsets: Any) -> Any:
    """Returns the output to which each id of the concatenated sets belongs."""
    counts = offsets[1:] - offsets[:-1]
    return torch.repeat_interleave(torch.arange(len(counts), device=offsets.device), counts)


def _packed(rows: Any, ids: Any, outputs: int, vocab: int) -> Any:
    """Returns packed bits [outputs, ceil(vocab / 32)] int32, with bit 1 for each id in the output's
    set."""
    words = (vocab + 31) // 32
    sums = torch.zeros(outputs * words, dtype=torch.int64, device=ids.device)
    sums.index_add_(0, rows * words + ids // 32, torch.ones_like(ids) << (ids % 32))
    return sums.where(sums < 2**31, sums - 2**32).to(torch.int32).reshape(outputs, words)


class _Replay(torch.autograd.Function):  # type: ignore[misc]  # Any, where torch is not installed
    @staticmethod
    def forward(ctx: Any, logits: Any, tokens: Any, ids: Any, rows: Any, temperature: Any) -> Any:
        outputs, vocab = logits.shape
        ctx.save_for_backward(logits, tokens, ids, rows, temperature)
        return log_probabilities(
            logits.detach(),
            tokens.to(torch.int32),
            logprobs_mode="processed_logprobs",
            temperature=temperature,
            allowed=_packed(rows, ids, outputs, vocab),
        ).values

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        logits, tokens, ids, rows, temperature = ctx.saved_tensors
        outputs = len(logits)
        scale = 1 / temperature.double()
        x = logits[rows, ids].double() * scale[rows]
        lowest = torch.full((outputs,), -torch.inf, dtype=torch.float64, device=x.device)
        largest = lowest.scatter_reduce(0, rows, x, "amax")
        weights = torch.exp(x - largest[rows])
        totals = torch.zeros_like(lowest).index_add(0, rows, weights)
        towards = (ids == tokens[rows]).double() - weights / totals[rows]
        slopes = gradients[0].double() * scale
        result = torch.zeros_like(logits)
        result[rows, ids] = (slopes[rows] * towards).to(logits.dtype)
        return result, None, None, None, None


def replay_logprobs(logits: Any, tokens: Any, kept: KeptSets, temperature: Any = 1.0) -> Any:
    """Returns the natural logarithm of softmax(logits / temperature) over each output's kept set,
    at the output's token: [outputs] float32, differentiable in `logits`.

    The logits are [outputs, vocab] (float32, float16 or bfloat16), and the tokens [outputs]. `kept`
    comes from the call that drew the tokens. The temperature is above 0, one number or one number
    per output. The forward pass is the sampler's own integer arithmetic. For the sampler's logits
    it gives the sampler's `logprobs` bit for bit, and a value depends only on its own row, not on
    the batch. The gradient is computed from the definition: (1 - p) / T at the token, -p / T at the
    other ids of the set, and 0 elsewhere. The gradient is computed in float64 before it is rounded
    to the dtype of `logits`. The log-probability is -inf if the token is not in its set.

    Definition: fairdraw/log_probabilities.h for the values.

    Raises:
        TypeError: The logits have another dtype than float32, float16 or bfloat16.
        ValueError: An output has no kept set (see `overflow`), an id is not a token, lengths do not fit
            together, or a temperature is not above 0.
    """
    outputs, vocab = logits.shape
    device = logits.device

    def tensor(value: Any, dtype: Any) -> Any:
        return torch.as_tensor(value).to(device=device, dtype=dtype)

    offsets = tensor(kept.offsets, torch.int64)
    # On a GPU token_ids has unused room after the last set.
    ids = tensor(kept.token_ids[: int(kept.offsets[-1])], torch.int64)
    if len(offsets) != outputs + 1 or len(tokens) != outputs:
        raise ValueError(
            f"kept has {len(offsets) - 1} sets, and tokens {len(tokens)}; {outputs} are needed, one "
            "per row of logits"
        )
    empty = (offsets[1:] == offsets[:-1]).nonzero()
    if len(empty) > 0:
        raise ValueError(f"kept: output {int(empty[0])} has no set; allowed: one id or more")
    if len(ids) > 0 and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
        raise ValueError(f"kept.token_ids: an id is no token; allowed: 0 to {vocab - 1}")
    temperatures = tensor(temperature, torch.float32).expand(outputs).contiguous()
    if not bool((temperatures > 0).all()):
        raise ValueError("temperature: is 0 or below for some output; allowed: above 0")
    return _Replay.apply(
        logits, tensor(tokens, torch.int64), ids, _rows_of_ids(offsets), temperatures
    )
