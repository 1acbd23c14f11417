"""Defines `verify_speculation`, the gate for a Python callable that verifies drafted tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from . import _core
from ._device_calls import DeviceFunction
from ._judged import (
    INDEPENDENCE,
    Arrays,
    Filter,
    Promise,
    expect_means,
    expect_name,
    expect_names,
    expression,
    given,
    replay_call,
)
from .verification import Report, Suite, expect_coverage, run

#: Abilities of a callable beyond valid requests with float32 rows. "bad_drafts" says that bad
#: drafts make only their own request fail. Bad drafts are rows that are not distributions, ids
#: outside the vocabulary, drafts to which their own distribution gives probability 0, and invalid
#: lengths. "counts_all_positions" says that, for chains, out_passed counts the positions that pass
#: their own test, including positions after a rejection. All other abilities have the same meaning
#: as for `verify`.
DraftAbility = Literal[
    "active_rows",
    "allowed_mask",
    "bad_drafts",
    "bfloat16",
    "counts_all_positions",
    "exact_integer",
    "float16",
    "joint_order",
    "lowest_id_ties",
    "per_request_seeds",
    "reports_status",
    "scripted_words",
]
#: Kind of knowledge about the distribution from which a draft was drawn.
DraftKind = Literal["unknown", "probs", "logits"]
AcceptanceRuleName = Literal["token_wise", "block"]

_OWN = ("bad_drafts", "counts_all_positions")
_ABILITIES = get_args(DraftAbility)


def _expect_drafts(target: Any, drafts: Any, acceptance_rule: Any) -> tuple[list[str], Any]:
    """Returns the kinds of drafts and the acceptance rule in the form that `_core` takes."""
    expect_name("target", target, ["logits", "probs"])
    if drafts is None:
        drafts = ("unknown", "probs") if target == "logits" else ("probs",)
    kinds = expect_names("drafts", drafts, ["unknown", "probs", "logits"])
    if target == "probs" and kinds != ["probs"]:
        raise ValueError(f"drafts is {drafts!r}; allowed where target is 'probs': ('probs',)")
    if not kinds:
        raise ValueError("drafts is empty; allowed: one kind at least")
    if acceptance_rule is not None:
        expect_name("acceptance_rule", acceptance_rule, ["token_wise", "block"])
    return kinds, acceptance_rule


def verify_speculation(
    verifier: Callable[[Any], Any],
    semantics: str = "fairdraw",
    suite: Suite = "gate",
    *,
    target: Literal["logits", "probs"] = "logits",
    drafts: Sequence[DraftKind] | None = None,
    acceptance_rule: AcceptanceRuleName | None = None,
    name: str | None = None,
    version: str = "",
    arrays: Arrays | None = None,
    device: Any = "cpu",
    abilities: Sequence[DraftAbility] = (),
    lacks: Sequence[Filter] = (),
    randomness: Sequence[Promise] = INDEPENDENCE,
    case: str | None = None,
    seed: int | None = None,
    seed_from: str | None = None,
    require: Iterable[str] = (),
    max_skipped: float | None = None,
    jobs: int = 0,
    progress: bool | Callable[[str, int, int], object] | None = None,
) -> Report:
    """Judges a callable that verifies chains of drafted tokens, and returns the report.

    Whatever the drafts are, the emitted tokens must have the target's distribution. Raises an
    exception only for bad arguments.

    `verifier` is a callable that gets a `fairdraw.DraftBatch` of requests, each with up to n
    drafted tokens and n + 1 rows of the target. The callable returns the emitted tokens as
    [requests, n + 1] integers, an array or lists: the accepted drafts, then one token of the
    target's own, then -1. The callable may also return a tuple of these tokens and the numbers of
    accepted drafts, [requests]. A third way is to write into batch.out_tokens and, unless it is
    None, batch.out_accepted, and to return the batch. Arrays are lent for the call. An exception or
    a bad result fails the case, and the run goes on.

    The argument `target` names the kind of the target's rows. With "logits" the rows are unfiltered
    logits with temperature, top_k, top_p and min_p for each request, and the cases of checks verify
    and verify_law judge the callable. With "probs" the rows are probabilities without parameters,
    in any scale unless the profile requires a sum of 1 (`flashinfer`), and the cases of checks
    chain and chain_law judge the callable.

    `drafts` lists the kinds of drafts that the verifier takes. Drafts of the kind "unknown" are
    only tokens (n-grams, a greedy draft), and batch.draft_probs is None. "probs" drafts were drawn
    from batch.draft_probs. "logits" drafts were drawn from batch.draft_logits, with filters of
    their own. The default is "unknown" and "probs"; for target="probs" it is "probs".

    `acceptance_rule` is "token_wise", "block" or None. With "token_wise" each draft is accepted
    with probability min(1, target / draft), and the token in place of a rejected draft is drawn
    from the positive part of target - draft. "block" is block verification (Sun et al. 2024,
    Algorithm 2). With a rule, accepted drafts and their frequency are judged too. With None only
    the emitted tokens are judged, whose distribution every lossless rule keeps.

    `abilities` lists `DraftAbility` names. With "per_request_seeds" a request's tokens depend only
    on its rows, drafts, parameters, seed and offset; position i has offset + i.

    `require` and `max_skipped` mean the same as for `verify`, for the cases of the target's kind.
    All other arguments mean the same as for `verify`.

    Definition: Leviathan et al. 2023 and Chen et al. 2023 for "token_wise", Sun et al. 2024 for
    "block"; harness/contract/drafts.h for requests and statuses.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A name is unknown, a number is out of its range, no case matches, or arguments
            exclude each other.
    """
    if not callable(verifier):
        raise TypeError(f"verifier: a callable is needed, not {type(verifier).__name__}")
    kinds, rule = _expect_drafts(target, drafts, acceptance_rule)
    able = expect_names("abilities", abilities, _ABILITIES)
    if target == "logits" and "counts_all_positions" in able:
        raise ValueError("abilities: 'counts_all_positions' is one where target is 'probs'")
    lacking = expect_names("lacks", lacks, _core.filter_names())
    promises = expect_names("randomness", randomness, _core.promise_names())
    gpu, means = expect_means(semantics, arrays, device, version, name, seed, seed_from)
    features, most = expect_coverage(require, max_skipped)
    modules: list[str] = []
    who = expression(verifier, name, modules)
    return run(
        name=name or str(getattr(verifier, "__name__", type(verifier).__name__)),
        **means,
        replay=replay_call(
            "verify_speculation",
            who,
            modules,
            {"semantics": semantics, "suite": suite},
            given(
                target=target,
                drafts=None if drafts is None else list(drafts),
                acceptance_rule=acceptance_rule,
                name=name,
                version=version,
                arrays=arrays,
                device=str(device),
                abilities=able,
                lacks=lacking,
                randomness=promises,
            ),
        ),
        suite=suite,
        abilities=[ability for ability in able if ability not in _OWN],
        lacks=lacking,
        randomness=promises,
        case=case,
        require=features,
        max_skipped=most,
        jobs=jobs,
        progress=progress,
        drafts={
            "verifier": verifier if gpu is None else DeviceFunction(verifier, gpu),
            "target": target,
            "drafts": kinds,
            "acceptance": rule,
            "faults": "bad_drafts" in able,
            "counts_all": "counts_all_positions" in able,
        },
    )
