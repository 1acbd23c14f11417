"""Gives one row to an engine, and finds errors in the answer by a profile."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from fairdraw import Batch
from fairdraw.verification import expected_row

from ._engine import Engine, Sampler

Array = np.ndarray[Any, Any]
LARGEST = float(np.finfo(np.float32).max)
SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
#: Maximum probability, over all tokens of a row, that the count of some token from a right sampler
#: is judged wrong.
FALSE_FAIL_RATE = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One row: [vocab] float32 logits, with -inf for excluded tokens, and the parameters."""

    logits: Array
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    @property
    def vocab(self) -> int:
        return len(self.logits)

    def filters(self) -> list[str]:
        """Returns the names of the row's filters that are on."""
        asked = {"top_k": self.top_k != 0, "top_p": self.top_p != 1, "min_p": self.min_p != 0}
        return [name for name, on in asked.items() if on]

    def parameters(self) -> tuple[float, int, float, float]:
        return self.temperature, self.top_k, self.top_p, self.min_p


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    kept: Array | None  # [vocab] bool: the tokens that the filters kept, if the engine reports them
    tokens: Array  # [draws]


def unpacked(words: Any, vocab: int) -> Array:
    """Unpacks 32-bit words to [rows, vocab] bool."""
    raw = np.ascontiguousarray(np.asarray(words)).view(np.uint8)
    return np.unpackbits(raw, axis=1, bitorder="little")[:, :vocab].astype(bool)


def batch_of(engine: Engine, row: Row, draws: int) -> Any:
    """Returns the part of a fairdraw.Batch that adapters read: the row, and `draws` outputs with
    seeds."""
    fields: dict[str, Any] = {
        "logits": row.logits[None, :].copy(),
        "temperature": np.array([row.temperature], np.float32),
        "top_k": np.array([row.top_k], np.int32),
        "top_p": np.array([row.top_p], np.float32),
        "min_p": np.array([row.min_p], np.float32),
        "indices": np.zeros(draws, np.int32),
        "seed": np.arange(1, draws + 1, dtype=np.int64),
        "offset": np.zeros(draws, np.int64),
    }
    if "reports_mask" in engine.abilities:
        fields["out_mask"] = np.zeros((1, (row.vocab + 31) // 32), np.int32)
    if engine.arrays == "torch":
        import torch

        fields = {name: torch.from_numpy(array) for name, array in fields.items()}
    return SimpleNamespace(
        **{"out_mask": None, **fields},
        dtype="float32", rows=1, vocab=row.vocab, outputs=draws, num_samples=1, allowed=None,
        seed_is_scalar=False, out_support_size=None,
    )  # fmt: skip


def answer_of(engine: Engine, sampler: Sampler, row: Row, draws: int) -> Answer:
    """Returns the engine's answer to a call with only this row."""
    batch = batch_of(engine, row, draws)
    tokens = np.asarray(sampler(batch)).reshape(-1)
    kept = None if batch.out_mask is None else unpacked(batch.out_mask, row.vocab)[0]
    return Answer(kept, tokens)


def expected_of(profile: str, row: Row) -> dict[str, Any]:
    """Returns the result of fairdraw.verification.expected_row for the row."""
    logits = np.ascontiguousarray(row.logits, np.float32)
    return expected_row(profile, logits, *row.parameters())


def counts_allowed(expected: dict[str, Any], draws: int) -> dict[int, tuple[int, int]]:
    """Maps each token with a known probability to the smallest and the largest count that a right
    sampler gives.

    By Bernstein's inequality a count of n draws of probability q is off n q by t or more with a
    probability of at most 2 exp(-t^2 / (2 (n q (1 - q) + t / 3))). Bernstein's probability is the
    rate r at t = l / 3 + sqrt(l^2 / 9 + 2 n q (1 - q) l), with l = ln(2 / r). The probability q may
    differ from the profile's probability by the bound on the total variation.
    """
    known = [(token, q) for token, q in enumerate(expected["probability"]) if q >= 0]
    if not known:
        return {}
    length = math.log(2 * len(known) / FALSE_FAIL_RATE)
    allowed = {}
    for token, q in known:
        t = length / 3 + math.sqrt(length * length / 9 + 2 * draws * q * (1 - q) * length)
        t += draws * expected["total_variation_bound"]
        allowed[token] = (max(0, math.ceil(draws * q - t)), min(draws, math.floor(draws * q + t)))
    return allowed


def symptoms(expected: dict[str, Any], answer: Answer) -> dict[str, str]:
    """Maps the names of an answer's symptoms to descriptions with numbers. The first symptom is
    reported."""
    found: dict[str, str] = {}
    drawn = answer.tokens[answer.tokens >= 0]
    judged = expected["defined"] and not expected["must_fail"]
    if judged and answer.kept is not None:
        kept = set(np.flatnonzero(answer.kept).tolist())
        if missing := sorted(set(expected["kept"]) - kept):
            found["drops"] = f"drops {_ids(missing)}, which must be kept"
        if extra := sorted(kept - set(expected["may_be_kept"])):
            found["keeps"] = f"keeps {_ids(extra)}, which must be dropped"
        low, high = expected["fewest"], expected["most"]
        if not low <= len(kept) <= high:
            size = f"{low}" if low == high else f"{low} to {high}"
            name = "too_few" if len(kept) < low else "too_many"
            found[name] = f"keeps {len(kept)} tokens, but must keep {size}"
    if answer.kept is not None:
        if len(left := np.unique(drawn[~answer.kept[drawn]])):
            found["leaves_mask"] = f"draws {_ids(left)}, which its own filters dropped"
    if judged and (outside := sorted(set(drawn.tolist()) - set(expected["may_be_kept"]))):
        found["outside"] = f"draws {_ids(outside)}, which no right sampler draws"
    if expected["must_fail"] and len(drawn):
        found["gives_token"] = f"draws {_ids(np.unique(drawn))} from a row that has no distribution"
    if judged:
        counts = np.bincount(drawn, minlength=len(expected["probability"]))
        for token, (low, high) in counts_allowed(expected, len(answer.tokens)).items():
            if not low <= counts[token] <= high:
                found.setdefault(
                    "counts",
                    f"draws token {token} in {counts[token]} of {len(answer.tokens)} draws, but a "
                    f"right sampler draws this token in {low} to {high} of them",
                )
    return found


def _ids(tokens: Any) -> str:
    first = ", ".join(str(token) for token in list(tokens)[:4])
    if len(tokens) == 1:
        return f"token {first}"
    return f"tokens {first}" + (f" and {len(tokens) - 4} more" if len(tokens) > 4 else "")


def trait(row: Row) -> str:
    """Describes in words the unusual property of a row's logits."""
    logits = row.logits.astype(np.float64)
    finite = logits[np.isfinite(logits)]
    if np.isnan(logits).any() or (logits == np.inf).any():
        return "NaN or +inf among the logits"
    if not len(finite):
        return "no allowed token"
    largest = float(np.abs(finite).max())
    if row.temperature > 0 and largest / row.temperature > LARGEST:
        return "logits that overflow float32 when they are divided by the temperature"
    if largest > 1e8:
        return "logits beyond 1e8"
    if 0 < largest < SMALLEST_NORMAL:
        return "subnormal logits"
    if (finite == 0).any() and len(np.unique(np.signbit(finite[finite == 0]))) == 2:
        return "zeros of both signs"
    if (finite == finite.max()).sum() > 1:
        return "ties of the largest logit"
    return "ordinary logits"


def call_of(batch: Batch) -> tuple[Array, Array]:
    """Returns the logits as float32 with -inf for excluded tokens, and the row of each output."""
    if type(batch.logits).__module__.startswith("torch"):
        from ._tensors import float32_logits

        logits = float32_logits(batch).numpy()
    else:
        from .llamacpp import float32_rows

        logits = float32_rows(batch)
    rows = np.arange(batch.rows) if batch.indices is None else np.asarray(batch.indices)
    return logits, rows
