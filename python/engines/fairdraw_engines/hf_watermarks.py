"""Adapts the watermarks of Hugging Face transformers: SynthIDTextWatermarkLogitsProcessor and
WatermarkLogitsProcessor, the green lists of Kirchenbauer et al.

The samplers are judged by profile `hf`. As in generate(), the processor of the watermark gets the
scores after all warpers (hf.py), and then softmax and torch.multinomial draw. Each row has a torch
generator made of its seed, as generate() has for a prompt alone after torch.manual_seed.

A processor has one key for all rows of a call, so that rows with equal keys are processed together.
SynthID's processor keeps the contexts of its rows. The adapter gives the processor every prefix of
the request's ids, as generate() does, and then the row. SynthID's list of keys, one for each layer,
is made from the key of 64 bits. Its ngram_len is one more than the number of ids of a context. The
processor of green lists gets a prompt before the ids, because generate() always has one.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fairdraw import Batch

from ._engine import Engine, Sampler
from ._marks import ABILITIES, CASES, by_key_and_history, draw_rows
from ._one_row import counts_allowed
from ._packages import package, version_of
from .hf import warped

if TYPE_CHECKING:
    import torch

MODULE = "transformers.generation.logits_process"

#: The number of layers of tournaments that SynthID's paper uses, and defaults of transformers.
LAYERS, TABLE_SIZE, TABLE_SEED, HISTORY_SIZE = 30, 2**16, 0, 1024

#: The id of which prompts consist.
PROMPT = 1

#: Returns the scores of rows that have this key and this history of ids.
Mark = Callable[[int, tuple[int, ...], "torch.Tensor"], "torch.Tensor"]


@functools.cache
def layer_keys(key: int) -> tuple[int, ...]:
    """Returns the keys of all layers for a key of 64 bits."""
    return tuple(np.random.default_rng(key).integers(0, 2**62, LAYERS).tolist())


def synthid(window: int) -> Mark:
    """Returns the marks of SynthID. States after a history are kept, because they do not depend on
    the key."""
    import torch

    processor = package(MODULE).SynthIDTextWatermarkLogitsProcessor(
        ngram_len=window + 1,
        keys=layer_keys(0),
        sampling_table_size=TABLE_SIZE,
        sampling_table_seed=TABLE_SEED,
        context_history_size=HISTORY_SIZE,
        device=torch.device("cpu"),
    )

    @functools.cache
    def state_after(history: tuple[int, ...]) -> Any:
        """Returns the processor's state after the call for the last id but one of the history."""
        processor.state = None
        for length in range(len(history)):
            ids = torch.tensor([[PROMPT, *history[:length]]])
            processor(ids, torch.zeros(1, 1))
        return processor.state

    def mark(key: int, history: tuple[int, ...], scores: torch.Tensor) -> torch.Tensor:
        rows = len(scores)
        processor.state = copy.copy(state_after(history))
        if processor.state is not None:
            processor.state.context = processor.state.context.expand(rows, -1)
            processor.state.context_history = processor.state.context_history.expand(rows, -1)
        processor.keys = torch.tensor(layer_keys(key))
        found: torch.Tensor = processor(torch.tensor([[PROMPT, *history]]).expand(rows, -1), scores)
        return found

    return mark


def green_list(window: int) -> Mark:
    """Returns the marks of WatermarkLogitsProcessor with transformers' share and bias."""
    import torch

    @functools.lru_cache(256)  # a processor shuffles a table of a million ids
    def processor_of(key: int, vocab: int) -> Any:
        return package(MODULE).WatermarkLogitsProcessor(
            vocab, "cpu", hashing_key=key, context_width=window
        )

    def mark(key: int, history: tuple[int, ...], scores: torch.Tensor) -> torch.Tensor:
        ids = torch.tensor([[PROMPT] * window + list(history)]).expand(len(scores), -1)
        found: torch.Tensor = processor_of(key, scores.shape[1])(ids, scores)
        return found

    return mark


def make(marks: Callable[[int], Mark], seed: int) -> Sampler:
    """Makes a sampler that takes every row's seed from the batch. `seed` is only for samplers with
    a state."""
    import torch

    mark_of = functools.cache(marks)

    def sample(batch: Batch) -> Any:
        scores, refused = warped(batch)
        for (key, history), rows in by_key_and_history(batch).items():
            scores[rows] = mark_of(batch.mark_window)(key, history, scores[rows])
        probs = torch.nn.functional.softmax(scores, dim=-1)
        refused |= ~torch.isfinite(probs).all(dim=1)
        tokens = torch.full((batch.rows,), -1, dtype=torch.int64)
        draw_rows(batch, probs, tokens, torch.nonzero(~refused).flatten())
        return tokens

    return sample


SYNTHID = Engine(
    name="hf_synthid",
    semantics="hf",
    calls="transformers: the warpers, SynthIDTextWatermarkLogitsProcessor; torch.multinomial",
    version=lambda: version_of("transformers", "torch"),
    make=functools.partial(make, synthid),
    abilities=(*ABILITIES, "marks_by_key_and_seed"),
    cases=CASES,
)

_DRAWS, _EQUAL = 65536, [1 / 8] * 8
_COUNTS = counts_allowed({"probability": _EQUAL, "total_variation_bound": 0.0}, _DRAWS)

GREEN_LIST = Engine(
    name="hf_green_list",
    semantics="hf",
    calls="transformers: the warpers, WatermarkLogitsProcessor; torch.multinomial",
    version=lambda: version_of("transformers", "torch"),
    make=functools.partial(make, green_list),
    abilities=(*ABILITIES, "marks_green_lists"),
    cases=CASES,
    standalone="green_list",
    example={
        "what": "marks a token again whose context, the id 3, has occurred before in the text",
        "call": {
            "logits": [0.0] * 8,
            "ids": [PROMPT, 3, 5, 3],
            "key": 15485863,
            "width": 1,
            "draws": _DRAWS,
        },
        "right": "A right sampler does not mark a repeated context, and draws each token equally often.",
        "expected": {
            "kept": list(range(8)),
            "may_be_kept": list(range(8)),
            "fewest": 8,
            "most": 8,
            "must_fail": False,
            "counts": [[token, *bounds] for token, bounds in _COUNTS.items()],
        },
    },
)
