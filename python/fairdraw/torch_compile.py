"""torch.compile of functions that call fairdraw: without a break of the graph (fullgraph=True).

>>> import fairdraw.torch_compile
>>> @torch.compile(fullgraph=True)
... def step(logits, seed, offset):
...     return fairdraw.sample(logits, 0.7, top_p=0.9, seed=seed, offset=offset)

Importing this has torch.compile take the operators of fairdraw/torch_operators.py where a compiled
function calls `sample`, `log_probabilities`, `verify_chain` or an operation of flashinfer.sampling
by its name in fairdraw. Calls that are not compiled are as they were. Tested with torch 2.13.

- A seed is needed: without one every run of the graph would draw the same numbers.
- Numbers become tensors of one value in host memory, and torch makes no CUDA graph
  (mode="reduce-overhead") of a function that has such tensors: give tensors on the GPU there.
- These have no operator, and a compiled call of them is refused by name: `generator`; `processing`
  of verify_chain, whose histories the host puts together; `return_details` and `logprobs` in one
  call of sample. verify_tree has none either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from . import _core, sampling, speculative
from . import torch_operators as torch_operators  # registers what is called here
from .logprobs import Logprobs
from .sampling import SampleDetails
from .speculative import LawFilters, VerifiedChains


def _refuse(name: str, instead: str) -> None:
    raise ValueError(f"{name}: has no operator in a compiled function; {instead}")


def _number(value: Any, dtype: Any = torch.float32) -> Any:
    """A parameter as an operator takes it."""
    if value is None or isinstance(value, Tensor):
        return value
    return torch.full((1,), value, dtype=dtype)


def _top_k(value: Any) -> Any:
    return _number(value, torch.int64)


def _filters(temperature: Any, top_k: Any, top_p: Any, min_p: Any) -> dict[str, Any]:
    return {
        "temperature": _number(temperature),
        "top_k": _top_k(top_k),
        "top_p": _number(top_p),
        "min_p": _number(min_p),
    }


def _random_bits(generator: Any, seed: Any, offset: Any) -> tuple[Any, Any]:
    if generator is not None:
        _refuse("generator", "give a seed")
    if seed is None:
        raise ValueError(
            "seed: is needed in a compiled function, or each of its runs would draw the same "
            "numbers; give a tensor of seeds and change it between runs"
        )
    return _word(seed), _word(0 if offset is None else offset)


def _word(value: Any) -> Any:
    """A seed or an offset, 64 bits, as the int64 that torch has."""
    if isinstance(value, Tensor):
        return value
    return torch.full((1,), value - 2**64 if value >= 2**63 else value, dtype=torch.int64)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _in_graph(original: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """What a compiled function calls instead of `original`, whose parameters it must have."""
    decorator: Callable[[_Function], _Function] = torch.compiler.substitute_in_graph(original)
    return decorator


def _logprobs(n: int, values: Any, ranks: Any, ids: Any, top: Any, every: Any) -> Logprobs:
    return Logprobs(values, ranks, ids, top, every if n == -1 else None)


@_in_graph(sampling.sample)
def _sample_in_graph(
    logits: Any,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    indices: Any = None,
    *,
    allowed: Any = None,
    active: Any = None,
    num_samples: int = 1,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    generator: Any = None,
    seed: Any = None,
    offset: Any = None,
    check_nan: bool = False,
    return_valid: bool = False,
    return_details: bool = False,
    out: Any = None,
    logprobs: int | None = None,
    logprobs_mode: str = "raw_logprobs",
    rank_rule: str = "position",
    purpose: str = "draw",
) -> Any:
    seed, offset = _random_bits(generator, seed, offset)
    named = {
        **_filters(temperature, top_k, top_p, min_p),
        "indices": indices,
        "allowed": allowed,
        "active": active,
        "num_samples": num_samples,
        "tie_rule": tie_rule,
        "filter_apply_order": filter_apply_order,
        "purpose": purpose,
        "check_nan": check_nan,
    }
    report = None
    if return_details:
        if logprobs is not None:
            _refuse("logprobs with return_details", "ask for them in two calls with equal seeds")
        details = torch.ops.fairdraw.sample_details(logits, seed, offset, **named)
        tokens = details[0] if out is None else out.copy_(details[0])
        statuses, support, logprob, filtered, mask, probs = details[1:]
        return SampleDetails(tokens, statuses, support, logprob, filtered, mask, probs, None, seed)
    if logprobs is None:
        tokens, valid = torch.ops.fairdraw.sample(logits, seed, offset, **named)
    else:
        tokens, valid, *found = torch.ops.fairdraw.sample_logprobs(
            logits, seed, offset, logprobs, logprobs_mode, rank_rule, **named
        )
        report = _logprobs(logprobs, *found)
    if out is not None:
        tokens = out.copy_(tokens)
    results = [tokens]
    if return_valid:
        results.append(valid)
    if report is not None:
        results.append(report)
    return tuple(results) if len(results) > 1 else tokens


@_in_graph(sampling.log_probabilities)
def _log_probabilities_in_graph(
    logits: Any,
    token_ids: Any,
    logprobs: int = 0,
    logprobs_mode: str = "raw_logprobs",
    rank_rule: str = "position",
    indices: Any = None,
    *,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    allowed: Any = None,
    active: Any = None,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
) -> Any:
    found = torch.ops.fairdraw.log_probabilities(
        logits, token_ids, logprobs, logprobs_mode, rank_rule, indices,
        **_filters(temperature, top_k, top_p, min_p), allowed=allowed, active=active,
        tie_rule=tie_rule, filter_apply_order=filter_apply_order,
    )  # fmt: skip
    return _logprobs(logprobs, *found)


@_in_graph(sampling._draw)
def _draw_in_graph(
    rows: Any,
    *,
    name: str = "probs",
    top_k: Any = None,
    top_p: Any = None,
    min_p: Any = None,
    order: Any = _core.FilterOrder.top_k_first,
    indices: Any,
    generator: Any,
    check_nan: bool,
    seed: Any,
    offset: Any,
    return_valid: bool = False,
) -> Any:
    seed, offset = _random_bits(generator, seed, offset)
    tokens, valid = torch.ops.fairdraw.draw(
        rows, seed, offset, name, _top_k(top_k), _number(top_p), _number(min_p), order.name,
        indices, check_nan,
    )  # fmt: skip
    return (tokens, valid) if return_valid else tokens


@_in_graph(sampling.softmax)
def _softmax_in_graph(logits: Any, temperature: Any = None, enable_pdl: Any = None) -> Any:
    return torch.ops.fairdraw.softmax(logits, _number(temperature))


@_in_graph(sampling.top_k_mask_logits)
def _top_k_mask_logits_in_graph(logits: Any, top_k: Any) -> Any:
    return torch.ops.fairdraw.top_k_mask_logits(logits, _top_k(top_k))


@_in_graph(sampling.top_k_renorm_probs)
def _top_k_renorm_probs_in_graph(probs: Any, top_k: Any) -> Any:
    return torch.ops.fairdraw.top_k_renorm_probs(probs, _top_k(top_k))


@_in_graph(sampling.top_p_renorm_probs)
def _top_p_renorm_probs_in_graph(probs: Any, top_p: Any, is_deterministic: bool = False) -> Any:
    return torch.ops.fairdraw.top_p_renorm_probs(probs, _number(top_p))


@_in_graph(sampling.chain_speculative_sampling)
def _chain_speculative_sampling_in_graph(
    draft_probs: Any,
    draft_token_ids: Any,
    target_probs: Any,
    maybe_output_accepted_token_num: Any = None,
    maybe_output_emitted_draft_token_num: Any = None,
    deterministic: bool = True,
    generator: Any = None,
    seed: Any = None,
    offset: Any = None,
) -> Any:
    seed, offset = _random_bits(generator, seed, offset)
    tokens, accepted, emitted = torch.ops.fairdraw.chain_speculative_sampling(
        draft_probs, draft_token_ids, target_probs, seed, offset
    )
    if maybe_output_accepted_token_num is not None:
        accepted = maybe_output_accepted_token_num.add_(accepted)
    if maybe_output_emitted_draft_token_num is not None:
        emitted = maybe_output_emitted_draft_token_num.add_(emitted)
    return tokens, accepted, emitted


@_in_graph(speculative.verify_chain)
def _verify_chain_in_graph(
    logits: Any,
    draft_token_ids: Any,
    *,
    draft_probs: Any = None,
    draft_logits: Any = None,
    draft_filters: LawFilters | None = None,
    draft_lengths: Any = None,
    row_begins: Any = None,
    max_draft: int | None = None,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    allowed: Any = None,
    processing: Any = None,
    active: Any = None,
    generator: Any = None,
    seed: Any = None,
    offset: Any = None,
) -> Any:
    seed, offset = _random_bits(generator, seed, offset)
    if processing is not None:
        _refuse("processing", "process the logits in front of it")
    if draft_filters is not None and draft_logits is None:
        raise ValueError("draft_filters: are given without draft_logits")
    draft = LawFilters() if draft_filters is None else draft_filters
    found = torch.ops.fairdraw.verify_chain(
        logits, draft_token_ids, seed, offset, draft_probs, draft_logits,
        _number(draft.temperature), _top_k(draft.top_k), _number(draft.top_p),
        _number(draft.min_p), draft.tie_rule, draft.filter_apply_order, draft_lengths, row_begins,
        max_draft, **_filters(temperature, top_k, top_p, min_p), tie_rule=tie_rule,
        filter_apply_order=filter_apply_order, allowed=allowed, active=active,
    )  # fmt: skip
    return VerifiedChains(*found)
