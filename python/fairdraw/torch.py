"""Defines samplers with the interfaces of engines: vLLM, Hugging Face transformers, TensorRT-LLM,
SGLang.

`import fairdraw.torch` imports torch. All samplers of this module draw as `fairdraw.sample` does.

- `TopKTopPSampler` has the arguments and results of vllm/v1/sample/ops/topk_topp_sampler.py.

- `GenerationSampler` is a logits processor for `model.generate(..., logits_processor=[it])`.

- `RequestSampler` is a TensorRT-LLM logits processor (tensorrt_llm.sampling_params) for one request.

- `SglangSampler` is a custom logit processor of SGLang, for requests that name it.

- `ShardedSampler` samples local logits of tensor-parallel ranks, in any engine.

- `replay_logprobs` computes log-probabilities under the sets from which tokens were drawn, for
  trainers.

GenerationSampler, RequestSampler and SglangSampler draw instead of the engine. These classes give a
finite score only to the drawn token, so that any sampling of the engine (also greedy) takes that
token.

Definition: the code of the engines: vLLM's TopKTopPSampler, transformers' `generate`,
TensorRT-LLM's and SGLang's logits processors; docs/semantics.md for the draws.

Raises:
    TypeError: An argument is no tensor or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, or arguments do not fit together.
    RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error, or
        the call would wait while a CUDA graph is captured.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from . import _core
from ._arguments import _member
from ._arrays import cuda_generator_place, torch_words
from .logprobs import LogprobsMode
from .sampling import sample

if _core.HAS_SERVING:
    from .replay import replay_logprobs as replay_logprobs
    from .sharded import PeerLimits as PeerLimits
    from .sharded import ShardedSampler as ShardedSampler

#: Key under which a request's custom_params in SGLang hold the offset of the last draw.
_DRAWN = "fairdraw_drawn"


def _to_device(values: Sequence[Sequence[float]], device: Any, dtype: Any = torch.int64) -> Any:
    """Returns rows of numbers as one tensor. On a GPU the rows are copied at once, and the host
    does not wait for the copy."""
    tensor = torch.tensor(values, dtype=dtype)
    if device.type == "cuda":
        tensor = tensor.pin_memory().to(device, non_blocking=True)
    return tensor


def _survivors(mask: Any, vocab: int) -> Any:
    """Unpacks the 32-bit words of a mask to [rows, vocab] bool."""
    bits = torch.arange(32, dtype=torch.int32, device=mask.device)
    return ((mask[:, :, None] >> bits) & 1).bool().flatten(1)[:, :vocab]


def draw_and_mask(
    logits: Any,
    *,
    temperature: Any = 1.0,
    top_k: Any | None,
    top_p: Any | None,
    seed: Any,
    offset: Any,
    failed_token: int,
    masked: bool,
) -> tuple[Any, Any]:
    """Returns tokens [rows] int64, with `failed_token` in rows without a token. Also returns the
    logits [rows, vocab], with -inf for every token that the filters dropped if `masked` is set.

    The parameters have the same meaning as in `fairdraw.sample`; None means that no row has the
    parameter. Raises ValueError for a failed token that is neither -1 nor an id of the vocabulary.
    """
    vocab = logits.shape[-1]
    if not -1 <= failed_token < vocab:
        raise ValueError(f"failed_token is {failed_token}; allowed: -1 to {vocab - 1}")
    filters = (temperature, 0 if top_k is None else top_k, 1.0 if top_p is None else top_p)
    if masked:
        details = sample(logits, *filters, seed=seed, offset=offset, return_details=True)
        tokens = details.tokens
        logits = logits.masked_fill(~_survivors(details.mask, vocab), float("-inf"))
    else:
        tokens = sample(logits, *filters, seed=seed, offset=offset)
    ids = tokens.to(torch.int64)
    if failed_token != -1:
        ids = ids.masked_fill(ids < 0, failed_token)
    return ids, logits


class TopKTopPSampler(torch.nn.Module):  # type: ignore[misc]  # Any, where torch is not installed
    """Replaces vLLM's TopKTopPSampler, which does top-k, then top-p, then a draw.

    The class is a module like vLLM's class. Replace vLLM's module in a sampler by
    `sampler.topk_topp_sampler = it`, or replace the class under its name in vllm.v1.sample.sampler
    before vLLM makes its samplers. `use_fp64_gumbel` selects a kind of draw in vLLM, and has no
    effect here, because this class's draw is exact.

    Every row is sampled by the same kernels, whether or not the row has a seed or greedy
    neighbours. A row that has a generator in `generators` draws only from that generator: one
    64-bit seed per step, which advances the generator. Generators are on the CPU or on the GPU of
    the logits. No random number is drawn on the GPU from a generator on a GPU. The generator's seed
    and offset are on the host, and the offset advances by 4 as in any other use (vLLM sets the
    offset back by 4 when it discards a token). The host never waits for the device. Rows without a
    generator share a seed from torch's default generator, and each of these rows has an offset of
    its own.

    The class differs from vLLM in two respects. Logits that tie with the k-th largest, or with the
    end of the nucleus, all stay, whatever the size of the batch. A row with NaN, with +inf or
    without a token gets `failed_token`, and other rows are not affected. The default of
    `failed_token`, -1, is an id for which vLLM's Sampler cannot gather log-probabilities: the
    Sampler raises an exception for the whole batch (seen on the CPU). If requests need
    log-probabilities, set `failed_token` to an id of the vocabulary, such as an end id, which ends
    the request.
    """

    def __init__(
        self,
        logprobs_mode: LogprobsMode = "raw_logprobs",
        use_fp64_gumbel: bool = False,
        *,
        failed_token: int = -1,
    ) -> None:
        super().__init__()
        if failed_token < -1:
            raise ValueError(f"failed_token is {failed_token}; allowed: -1, or an id")
        self.failed_token = failed_token
        _member("logprobs_mode", logprobs_mode, _core.LogprobsMode.__members__)
        self.logprobs_mode = logprobs_mode

    def forward(
        self,
        logits: Any,
        generators: Mapping[int, Any],
        k: Any | None,
        p: Any | None,
    ) -> tuple[Any, Any | None]:
        """Returns tokens [rows] int64, and the processed row that `logprobs_mode` selects, or None.

        The logits are [rows, vocab], already divided by the temperature. `k` [rows] and `p` [rows]
        are None if no row has the parameter. In processed_logits, dropped tokens are -inf.
        processed_logprobs are the log_softmax of processed_logits, in float32.
        """
        rows = logits.shape[0]
        seed, offset = self._seeds(rows, generators, logits.device)
        wants_processed = self.logprobs_mode.startswith("processed_")
        tokens, processed = draw_and_mask(
            logits,
            top_k=k,
            top_p=p,
            seed=seed,
            offset=offset,
            failed_token=self.failed_token,
            masked=wants_processed,
        )
        if not wants_processed:
            return tokens, None
        if self.logprobs_mode == "processed_logprobs":
            processed = processed.log_softmax(dim=-1, dtype=torch.float32)
        return tokens, processed

    @staticmethod
    def _seeds(rows: int, generators: Mapping[int, Any], device: Any) -> tuple[Any, Any]:
        for row in generators:
            if not 0 <= row < rows:
                raise ValueError(f"generators has row {row}; allowed: 0 to {rows - 1}")
        on_gpu = device.type == "cuda"
        shared = torch_words([None], on_gpu)[0] if len(generators) < rows else 0
        seeds = [shared] * rows
        offsets = list(range(rows))
        on_host: Mapping[int, Any] = generators
        if on_gpu:
            on_host = {}
            for row, generator in generators.items():
                if generator.device.type == "cuda":
                    seeds[row], offsets[row] = cuda_generator_place(generator)
                else:
                    on_host[row] = generator
        for row, word in zip(on_host, torch_words(on_host.values(), on_gpu), strict=True):
            seeds[row] = word
            offsets[row] = 0
        seed, offset = _to_device((seeds, offsets), device)
        return seed, offset


def _only(scores: Any, tokens: Any) -> Any:
    """Returns scores with which only the given tokens can be drawn. Rows that failed (token -1)
    keep their scores."""
    ids = tokens.to(torch.int64)[:, None]
    alone = torch.full_like(scores, float("-inf")).scatter_(1, ids.clamp(min=0), 0.0)
    return torch.where(ids >= 0, alone, scores)


class _Draws:
    """Parameters and seed for `sample`, whose draw replaces an engine's own draw."""

    def __init__(
        self,
        temperature: Any = 1.0,
        top_k: Any = 0,
        top_p: Any = 1.0,
        min_p: Any = 0.0,
        *,
        seed: Any,
    ) -> None:
        self._parameters = (temperature, top_k, top_p, min_p)
        self._seed = seed

    def _drawn(self, scores: Any, history: int) -> Any:
        """Returns scores [rows, vocab] that leave only the drawn tokens, for rows with `history`
        tokens before the draw."""
        return _only(scores, sample(scores, *self._parameters, seed=self._seed, offset=history))


class GenerationSampler(_Draws):
    """Draws tokens in transformers' `generate`: `model.generate(ids,
    logits_processor=[GenerationSampler(seed=7)])`.

    `seed` is one number for the batch, or one number per row ([rows]). With one number, row i of
    the batch draws with its own offset and index. With one number per row, a row's text depends
    only on its logits and its seed, whatever the batch. The offset is the number of tokens before
    the drawn token, so that a generation that is continued later goes on with the same draws.

    transformers applies its own processors (penalties, bans) before this class. transformers
    applies its warpers (temperature, top_k, top_p) after this class, when one token is left. Give
    the warpers' parameters to this class instead. The class does not support beam search.
    """

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Takes input_ids [rows, length] and scores [rows, vocab], and returns scores."""
        return self._drawn(scores, input_ids.shape[1])


class RequestSampler(_Draws):
    """Draws tokens in TensorRT-LLM: `SamplingParams(logits_processor=RequestSampler(seed=7))`.

    Each request needs a sampler of its own, and a beam width of 1. The offset is the number of
    tokens before the drawn token, so that a preempted request goes on with the same draws.
    """

    def __call__(
        self,
        req_id: int,
        logits: Any,
        token_ids: Sequence[Sequence[int]],
        stream_ptr: int | None,
        client_id: int | None = None,
    ) -> None:
        """Changes the logits [1, 1, vocab] (or with fewer axes) in place, on the engine's
        stream."""
        rows = logits.reshape(-1, logits.shape[-1])
        if rows.shape[0] != 1 or len(token_ids) != 1:
            raise ValueError(
                f"logits of request {req_id} has {rows.shape[0]} rows for {len(token_ids)} beams; "
                "allowed: 1 for 1"
            )
        on_stream: AbstractContextManager[Any] = nullcontext()
        if logits.is_cuda and stream_ptr is not None:
            on_stream = torch.cuda.stream(torch.cuda.ExternalStream(stream_ptr))
        with on_stream:
            logits.copy_(self._drawn(rows, len(token_ids[0])).reshape(logits.shape))


class SglangSampler:
    """Draws tokens in SGLang, for requests that name this class. The server needs the option
    --enable-custom-logit-processor.

        "custom_logit_processor": SglangSampler.to_str(),
        "custom_params": SglangSampler.params(seed=7, temperature=0.8, top_p=0.9)

    The fairdraw package must be installed on the server. The offset counts the draws for a request,
    so that the draws depend neither on the batch nor on how far SGLang's record of the output lags
    behind. (A prefill in several chunks draws once per chunk.) The processor gets logits that
    already have penalties, biases and grammars. Set no temperature and no filters of SGLang's own.
    SGLang itself draws for a request whose parameters do not come from `params`, and for a row that
    cannot be sampled.
    """

    @classmethod
    def to_str(cls) -> str:
        """Returns the custom_logit_processor for a request."""
        return json.dumps({"callable": pickle.dumps(cls).hex()})

    @staticmethod
    def params(
        seed: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
    ) -> dict[str, int | float]:
        """Returns the custom_params for a request. Raises ValueError for wrong values, as `sample`
        does.
        """
        sample(torch.zeros(1, 1), temperature, top_k, top_p, min_p, seed=seed)
        return {
            "seed": int(seed),
            "temperature": float(temperature),
            "top_k": int(top_k),
            "top_p": float(top_p),
            "min_p": float(min_p),
        }

    def __call__(
        self, logits: Any, custom_param_list: Sequence[dict[str, Any] | None] | None = None
    ) -> Any:
        """Takes logits [rows, vocab] and the custom_params of each row's request. Returns the
        logits from which SGLang draws."""
        requests = [self._request(params) for params in custom_param_list or ()]
        if len(requests) != len(logits):
            raise ValueError(
                f"custom_param_list has {len(requests)} entries; {len(logits)} are needed, one per row"
            )
        if not requests:
            return logits
        seed, offset, top_k = _to_device([row[:3] for row in requests], logits.device).T
        others = _to_device([row[3:] for row in requests], logits.device, torch.float32).T
        temperature, top_p, min_p = others
        tokens = sample(logits, temperature, top_k, top_p, min_p, seed=seed, offset=offset)
        return _only(logits, tokens)

    @staticmethod
    def _request(params: dict[str, Any] | None) -> tuple[int, int, int, float, float, float]:
        """Returns seed, offset, top_k, temperature, top_p and min_p."""
        not_sampled = (0, 0, 0, -1.0, 1.0, 0.0)  # -1 is no temperature
        if params is None:
            return not_sampled
        try:
            seed = int(params["seed"]) & (2**64 - 1)
            top_k = max(min(int(params["top_k"]), 2**31 - 1), -2)
            temperature, top_p, min_p = (
                float(params[name]) for name in ("temperature", "top_p", "min_p")
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return not_sampled
        # SGLang keeps the dictionary of custom_params while the request runs.
        offset = params[_DRAWN] = params.get(_DRAWN, -1) + 1
        seed = seed - 2**64 if seed >= 2**63 else seed
        return seed, offset, top_k, temperature, top_p, min_p
