"""Operators of torch: torch.ops.fairdraw.*, registered where this is imported.

They are the operations of the same names, and `draw`, which is all of flashinfer.sampling that draws
from rows of `input` "probs" or "logits". fairdraw/torch_compile.py has torch.compile take them where
these are called; calls of torch.ops.fairdraw, in torch.export too, need this file alone.

- An operator changes none of its arguments and keeps no state. `seed` and `offset` are tensors of
  int64 with one value an output, or with one value for the call.
- Parameters are tensors. One of one value in host memory is a number, which is refused by name when
  the operator runs and the number is out of range. None is the operation's default.
- What an operation leaves out (`all` of Logprobs) is a tensor without rows.

Tested with torch 2.13.
"""

# Annotations are no strings here: torch reads the types of an operator's arguments from them.
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _core, sampling, speculative
from ._arguments import _member
from .speculative import LawFilters


def _operator(function: Callable[..., Any], shapes: Callable[..., Any]) -> Any:
    """Registers an operator with the name and the annotations of `function`. `shapes` gets the
    arguments by name, without values, and makes results without values."""
    signature = inspect.signature(function)

    def fake(*arguments: Any, **named: Any) -> Any:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return shapes(**bound.arguments)

    name = function.__name__.removeprefix("_")
    operator = torch.library.custom_op(f"fairdraw::{name}", function, mutates_args=())
    operator.register_fake(fake)
    return operator


def _given(**parameters: Any) -> dict[str, Any]:
    """Those that are not None: the others have the defaults of the operation."""
    return {name: value for name, value in parameters.items() if value is not None}


# --- Results without values ----------------------------------------------------------------------


def _outputs(rows: Tensor, indices: Tensor | None) -> Any:
    return rows.shape[0] if indices is None else indices.shape[0]


def _shape(outputs: Any, num_samples: int) -> tuple[Any, ...]:
    return (outputs,) if num_samples == 1 else (outputs, num_samples)


def _tokens(rows: Tensor, indices: Tensor | None, num_samples: int = 1) -> Tensor:
    wide = indices is not None and indices.dtype == torch.int64
    shape = _shape(_outputs(rows, indices), num_samples)
    return rows.new_empty(shape, dtype=torch.int64 if wide else torch.int32)


def _bools(rows: Tensor, *shape: Any) -> Tensor:
    return rows.new_empty(shape, dtype=torch.bool)


def _ints(rows: Tensor, *shape: Any) -> Tensor:
    return rows.new_empty(shape, dtype=torch.int32)


def _floats(rows: Tensor, *shape: Any) -> Tensor:
    return rows.new_empty(shape, dtype=torch.float32)


def _logprobs(rows: Tensor, outputs: Any, shape: Any, n: int) -> tuple[Tensor, ...]:
    return (
        _floats(rows, *shape),
        _ints(rows, *shape),
        _ints(rows, outputs, max(n, 0)),
        _floats(rows, outputs, max(n, 0)),
        _floats(rows, rows.shape[0] if n == -1 else 0, rows.shape[1]),
    )


# --- Operators -----------------------------------------------------------------------------------


def _sample(
    logits: Tensor,
    seed: Tensor,
    offset: Tensor,
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    indices: Tensor | None = None,
    allowed: Tensor | None = None,
    active: Tensor | None = None,
    num_samples: int = 1,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    purpose: str = "draw",
    check_nan: bool = False,
) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = sampling.sample(
        logits,
        **_given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        indices=indices,
        allowed=allowed,
        active=active,
        num_samples=num_samples,
        tie_rule=tie_rule,  # type: ignore[arg-type]  # its values are checked there
        filter_apply_order=filter_apply_order,  # type: ignore[arg-type]
        purpose=purpose,  # type: ignore[arg-type]
        seed=seed,
        offset=offset,
        check_nan=check_nan,
        return_valid=True,
    )
    return found


_operator(
    _sample,
    lambda logits, indices, num_samples, **_: (
        _tokens(logits, indices, num_samples),
        _bools(logits, _outputs(logits, indices)),
    ),
)


def _sample_logprobs(
    logits: Tensor,
    seed: Tensor,
    offset: Tensor,
    logprobs: int,
    logprobs_mode: str = "raw_logprobs",
    rank_rule: str = "position",
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    indices: Tensor | None = None,
    allowed: Tensor | None = None,
    active: Tensor | None = None,
    num_samples: int = 1,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    purpose: str = "draw",
    check_nan: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    tokens, valid, found = sampling.sample(
        logits,
        **_given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        indices=indices,
        allowed=allowed,
        active=active,
        num_samples=num_samples,
        tie_rule=tie_rule,  # type: ignore[arg-type]
        filter_apply_order=filter_apply_order,  # type: ignore[arg-type]
        purpose=purpose,  # type: ignore[arg-type]
        seed=seed,
        offset=offset,
        check_nan=check_nan,
        return_valid=True,
        logprobs=logprobs,
        logprobs_mode=logprobs_mode,  # type: ignore[arg-type]
        rank_rule=rank_rule,  # type: ignore[arg-type]
    )
    return tokens, valid, *found[:4], _rows_or_none(logits, found.all)


def _rows_or_none(rows: Tensor, every: Tensor | None) -> Tensor:
    return _floats(rows, 0, rows.shape[1]) if every is None else every


_operator(
    _sample_logprobs,
    lambda logits, indices, num_samples, logprobs, **_: (
        _tokens(logits, indices, num_samples),
        _bools(logits, _outputs(logits, indices)),
        *_logprobs(
            logits,
            _outputs(logits, indices),
            _shape(_outputs(logits, indices), num_samples),
            logprobs,
        ),
    ),
)


def _sample_details(
    logits: Tensor,
    seed: Tensor,
    offset: Tensor,
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    indices: Tensor | None = None,
    allowed: Tensor | None = None,
    active: Tensor | None = None,
    num_samples: int = 1,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    purpose: str = "draw",
    check_nan: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = sampling.sample(
        logits,
        **_given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        indices=indices,
        allowed=allowed,
        active=active,
        num_samples=num_samples,
        tie_rule=tie_rule,  # type: ignore[arg-type]
        filter_apply_order=filter_apply_order,  # type: ignore[arg-type]
        purpose=purpose,  # type: ignore[arg-type]
        seed=seed,
        offset=offset,
        check_nan=check_nan,
        return_details=True,
    )
    details: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor] = tuple(found[:-1])
    return details


def _details_shapes(logits: Tensor, indices: Tensor | None, num_samples: int, **_: Any) -> Any:
    rows, vocab = logits.shape
    outputs = _outputs(logits, indices)
    return (
        _tokens(logits, indices, num_samples),
        _ints(logits, outputs),
        _ints(logits, outputs),
        _floats(logits, *_shape(outputs, num_samples)),
        _floats(logits, *_shape(outputs, num_samples)),
        _ints(logits, rows, (vocab + 31) // 32),
        _floats(logits, rows, vocab),
    )


_operator(_sample_details, _details_shapes)


def _log_probabilities(
    logits: Tensor,
    token_ids: Tensor,
    logprobs: int = 0,
    logprobs_mode: str = "raw_logprobs",
    rank_rule: str = "position",
    indices: Tensor | None = None,
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    allowed: Tensor | None = None,
    active: Tensor | None = None,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    found = sampling.log_probabilities(
        logits,
        token_ids,
        logprobs,
        logprobs_mode,  # type: ignore[arg-type]
        rank_rule,  # type: ignore[arg-type]
        indices,
        **_given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        allowed=allowed,
        active=active,
        tie_rule=tie_rule,  # type: ignore[arg-type]
        filter_apply_order=filter_apply_order,  # type: ignore[arg-type]
    )
    return *found[:4], _rows_or_none(logits, found.all)


_operator(
    _log_probabilities,
    lambda logits, token_ids, logprobs, indices, **_: _logprobs(
        logits, _outputs(logits, indices), token_ids.shape, logprobs
    ),
)


def _draw(
    rows: Tensor,
    seed: Tensor,
    offset: Tensor,
    input: str,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    filter_apply_order: str = "top_k_first",
    indices: Tensor | None = None,
    check_nan: bool = False,
) -> tuple[Tensor, Tensor]:
    found: tuple[Tensor, Tensor] = sampling._draw(
        rows,
        name=input,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        order=_member("filter_apply_order", filter_apply_order, _core.FilterOrder.__members__),
        indices=indices,
        generator=None,
        check_nan=check_nan,
        seed=seed,
        offset=offset,
        return_valid=True,
    )
    return found


def _draw_shapes(rows: Tensor, indices: Tensor | None, **_: Any) -> Any:
    if indices is not None:
        return _tokens(rows, indices), _bools(rows, indices.shape[0])
    return _ints(rows, *rows.shape[:-1]), _bools(rows, *rows.shape[:-1])


_operator(_draw, _draw_shapes)


def _softmax(logits: Tensor, temperature: Tensor | None = None) -> Tensor:
    return sampling.softmax(logits, temperature)


_operator(_softmax, lambda logits, **_: _floats(logits, *logits.shape))


def _top_k_mask_logits(logits: Tensor, top_k: Tensor) -> Tensor:
    return sampling.top_k_mask_logits(logits, top_k)


_operator(_top_k_mask_logits, lambda logits, **_: logits.new_empty(logits.shape))


def _top_k_renorm_probs(probs: Tensor, top_k: Tensor) -> Tensor:
    return sampling.top_k_renorm_probs(probs, top_k)


def _top_p_renorm_probs(probs: Tensor, top_p: Tensor) -> Tensor:
    return sampling.top_p_renorm_probs(probs, top_p)


for _renorm in (_top_k_renorm_probs, _top_p_renorm_probs):
    _operator(_renorm, lambda probs, **_: _floats(probs, *probs.shape))


def _chain_speculative_sampling(
    draft_probs: Tensor,
    draft_token_ids: Tensor,
    target_probs: Tensor,
    seed: Tensor,
    offset: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return sampling.chain_speculative_sampling(
        draft_probs, draft_token_ids, target_probs, seed=seed, offset=offset
    )


_operator(
    _chain_speculative_sampling,
    lambda draft_probs, target_probs, **_: (
        _ints(target_probs, draft_probs.shape[0], draft_probs.shape[1] + 1),
        _ints(target_probs, draft_probs.shape[0]),
        _ints(target_probs, draft_probs.shape[0]),
    ),
)


def _verify_chain(
    logits: Tensor,
    draft_token_ids: Tensor,
    seed: Tensor,
    offset: Tensor,
    draft_probs: Tensor | None = None,
    draft_logits: Tensor | None = None,
    draft_temperature: Tensor | None = None,
    draft_top_k: Tensor | None = None,
    draft_top_p: Tensor | None = None,
    draft_min_p: Tensor | None = None,
    draft_tie_rule: str = "keep_all",
    draft_filter_apply_order: str = "top_k_first",
    draft_lengths: Tensor | None = None,
    row_begins: Tensor | None = None,
    max_draft: int | None = None,
    temperature: Tensor | None = None,
    top_k: Tensor | None = None,
    top_p: Tensor | None = None,
    min_p: Tensor | None = None,
    tie_rule: str = "keep_all",
    filter_apply_order: str = "top_k_first",
    allowed: Tensor | None = None,
    active: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    filters = LawFilters(
        **_given(
            temperature=draft_temperature,
            top_k=draft_top_k,
            top_p=draft_top_p,
            min_p=draft_min_p,
        ),
        tie_rule=draft_tie_rule,  # type: ignore[arg-type]
        filter_apply_order=draft_filter_apply_order,  # type: ignore[arg-type]
    )
    return speculative.verify_chain(
        logits,
        draft_token_ids,
        draft_probs=draft_probs,
        draft_logits=draft_logits,
        draft_filters=None if draft_logits is None else filters,
        draft_lengths=draft_lengths,
        row_begins=row_begins,
        max_draft=max_draft,
        **_given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        tie_rule=tie_rule,  # type: ignore[arg-type]
        filter_apply_order=filter_apply_order,  # type: ignore[arg-type]
        allowed=allowed,
        active=active,
        seed=seed,
        offset=offset,
    )


def _verify_chain_shapes(
    logits: Tensor, row_begins: Tensor | None, max_draft: int | None, **_: Any
) -> Any:
    if row_begins is None:
        batch, positions = logits.shape[0], logits.shape[1]
    elif max_draft is None:
        raise ValueError(
            "max_draft: is needed with row_begins in a compiled function, because it shapes the "
            "result"
        )
    else:
        batch, positions = row_begins.shape[0] - 1, max_draft + 1
    return _ints(logits, batch, positions), _ints(logits, batch), _ints(logits, batch)


_operator(_verify_chain, _verify_chain_shapes)
