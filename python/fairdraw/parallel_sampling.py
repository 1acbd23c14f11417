"""Supports several outputs of one prompt: a seed for each output, cumulative log-probabilities, and
a choice of the best n outputs (fairdraw/parallel_sampling.h).

>>> seeds = fairdraw.child_seeds([7], n=4)[0]          # of the four outputs of a prompt
>>> tokens, report = fairdraw.sample(logits, seed=seeds, logprobs=0)
>>> fairdraw.add_logprobs(cumulative, report.values)   # [4] float64, step after step
>>> fairdraw.best_of(cumulative[None], n=2, lengths=lengths[None], length_penalty=1.0).chosen
array([[3, 0]], dtype=int32)

Definition: fairdraw/parallel_sampling.h, which names the sources: Salmon et al. 2011 (Threefry),
vLLM, TensorRT-LLM, Hugging Face.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, or an array has a wrong shape or
        device.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from . import _core
from ._host_arrays import array, each, like, shaped

ChildSeedRule = Literal["threefry", "seed_plus_index"]


class BestOf(NamedTuple):
    """The best candidates of each prompt. Entries after the last candidate are -1 and -inf."""

    chosen: Any  #: [prompts, n] int32, indices of the chosen candidates, best first
    scores: Any  #: [prompts, n] float64
    statuses: Any  #: [prompts] int32; if a status is not 0, no candidate of the prompt is chosen


def child_seeds(seeds: Any, n: int, rule: ChildSeedRule = "threefry") -> Any:
    """Returns the seeds of the first n outputs of each prompt: [prompts, n] from the prompts' seeds
    [prompts], uint64 (torch: int64, the same bits).

    The seed of an output depends only on its prompt's seed and on the output's number. With rule
    "threefry" output 0 has the prompt's seed, and the seeds of the other outputs are far from every
    prompt's seed. With rule "seed_plus_index" output i has seed + i as in vLLM, so that prompts
    with consecutive seeds share outputs.
    """
    if rule not in ("threefry", "seed_plus_index"):
        raise ValueError(f"rule is {rule!r}; allowed: 'threefry', 'seed_plus_index'")
    backend = like(seeds, "seeds")
    parents = array("seeds", seeds, "uint64", axes=(1,))
    children = backend.empty((len(parents), max(n, 0)), "int64")
    _core.child_seeds(parents, n, rule == "seed_plus_index", len(parents), backend.lend(children))
    return children.view(np.uint64) if isinstance(children, np.ndarray) else children


def add_logprobs(cumulative: Any, logprobs: Any, kept: Any = None) -> Any:
    """Adds a step's log-probabilities to `cumulative` [outputs] float64, in place.

    `logprobs` is [outputs] or [outputs, m], float32. `kept` [outputs] says how many of the m values
    are added, and may come from check_stop. Values are added one by one from the left, so that
    steps of one token and steps of several tokens give the same bits. Returns statuses [outputs]
    int32. A status is not 0 if a value is NaN or +inf, or if `kept` is not in 0 to m; the sum then
    stays unchanged.
    """
    backend = like(cumulative, "cumulative")
    values = array("logprobs", logprobs, "float32", axes=(1, 2))
    outputs = values.shape[0]
    statuses = backend.empty((outputs,), "int32")
    _core.add_logprobs(
        values,
        values.shape[1] if values.ndim == 2 else 1,
        None if kept is None else shaped("kept", kept, "int32", (outputs,)),
        outputs,
        backend.lend(cumulative),
        backend.lend(statuses),
    )
    return statuses


def best_of(
    cumulative: Any,
    n: int,
    *,
    lengths: Any = None,
    length_penalty: Any = 0.0,
    statuses: Any = None,
) -> BestOf:
    """Picks the n best candidates of each prompt. Among equal scores, the candidate with the lower
    number comes first.

    `cumulative` [prompts, candidates] holds the candidates' sums of log-probabilities, in float64.
    A score is cumulative / length^length_penalty in float64: penalty 0 scores by the sum itself,
    and penalty 1 by the mean. `length_penalty` is one value, or [prompts]. If the penalty is not 0,
    `lengths` [prompts, candidates] is needed. `statuses` [prompts, candidates] excludes the
    candidates whose status is not 0.
    """
    backend = like(cumulative, "cumulative")
    sums = array("cumulative", cumulative, "float64", axes=(2,))
    prompts, candidates = sums.shape
    chosen = backend.empty((prompts, max(n, 0)), "int32")
    scores = backend.empty((prompts, max(n, 0)), "float64")
    prompt_statuses = backend.empty((prompts,), "int32")
    if lengths is not None:
        lengths = shaped("lengths", lengths, "int32", sums.shape)
    if statuses is not None:
        statuses = shaped("statuses", statuses, "int32", sums.shape)
    penalty = each("length_penalty", length_penalty, "float64", prompts, meaning="one per prompt")
    if lengths is None and bool((penalty != 0).any()):
        raise ValueError("lengths: is needed if length_penalty is not 0")
    _core.best_of(
        dict(
            prompts=prompts,
            candidates=candidates,
            n=n,
            cumulative=sums,
            lengths=np.ones(sums.shape, np.int32) if lengths is None else lengths,
            length_penalty=penalty,
            statuses=statuses,
            chosen=backend.lend(chosen),
            scores=backend.lend(scores),
            prompt_statuses=backend.lend(prompt_statuses),
        )
    )
    return BestOf(chosen, scores, prompt_statuses)
