"""Makes capsules of calls: what an engine answered in a case of the gate, to be judged again without
the engine.

A capsule of calls is a JSON file with the case, its seed, and the tokens of every call. The gate
makes the calls of a case from the seed alone, so that a capsule has a hash of each call in place of
its arrays. `replayed` is an engine that answers from a capsule. A call that the capsule does not
have fails the case: the gate makes other calls than it did when the capsule was made.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairdraw import Batch
from fairdraw.verification import Suite

from ._engine import DraftEngine, Engine, OperationEngine, RunningEngine, Sampler
from .matrix import judge, matching_cases

Array = np.ndarray[Any, Any]
Calls = dict[str, Array]

#: What decides the answer of a call. The names are attributes of a batch.
INPUTS = (
    "input", "dtype", "rows", "vocab", "outputs", "num_samples", "tie_rule", "filter_apply_order",
    "seed_is_scalar", "logits", "temperature", "top_k", "top_p", "min_p", "allowed", "indices",
    "seed", "offset", "mark_scheme", "mark_window", "mark_key", "mark_output",
)  # fmt: skip
#: Results besides tokens, which a capsule does not have.
OTHER_RESULTS = ("reports_", "scripted_words", "processing")
FIELDS = {
    "schema_version": int, "engine": str, "calls": str, "seen_with": str, "semantics": str,
    "abilities": list, "suite": str, "case": str, "seed": int, "verdict": str, "answers": dict,
}  # fmt: skip
SCHEMA_VERSION = 1
DIGEST_BYTES = 12


def _bytes_of(value: Any) -> bytes:
    """Returns the same bytes for an array of NumPy and of torch."""
    if type(value).__module__.startswith("torch"):
        import torch

        value = value.contiguous()
        value = (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, np.ndarray):
        return repr(value.shape).encode() + np.ascontiguousarray(value).tobytes()
    return repr(value).encode()


def digest_of(batch: Batch) -> str:
    """Returns a hash of a call, which is equal for equal calls, whatever the library of arrays."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for name in INPUTS:
        digest.update(name.encode() + b"=" + _bytes_of(getattr(batch, name)) + b"\n")
    return digest.hexdigest()


def _packed(tokens: Array) -> str:
    return base64.b64encode(zlib.compress(tokens.astype("<i4").tobytes(), 9)).decode()


def _unpacked(text: str) -> Array:
    return np.frombuffer(zlib.decompress(base64.b64decode(text, validate=True)), "<i4")


def _recording(engine: Engine, calls: Calls) -> Engine:
    """Returns the engine, whose sampler also writes its answers into `calls`."""

    def make(seed: int) -> Sampler:
        sampler = engine.make(seed)

        def sample(batch: Batch) -> Any:
            digest = digest_of(batch)
            tokens = np.asarray(sampler(batch)).reshape(batch.outputs, batch.num_samples)
            before = calls.setdefault(digest, tokens.reshape(-1).astype(np.int32))
            if not np.array_equal(before, tokens.reshape(-1)):
                raise ValueError(
                    "equal calls have other tokens, so that a capsule cannot have both"
                )
            return tokens

        return sample

    return dataclasses.replace(engine, make=make)


def recorded(engine: Engine, suite: Suite, case: str, seed: int) -> dict[str, Any]:
    """Judges a case, and returns its capsule.

    Raises:
        ValueError: The engine reports more than tokens, or keeps no request's seed, so that a hash
            of a call does not decide its answer; or no case has this id.
    """
    if isinstance(engine, DraftEngine | OperationEngine | RunningEngine):
        raise ValueError(
            f"{engine.name}: takes no batches; allowed: an engine that samples batches"
        )
    more = [a for a in engine.abilities if a.startswith(OTHER_RESULTS)]
    if more:
        raise ValueError(
            f"{engine.name}: has the ability {more[0]}; allowed: engines that give tokens alone"
        )
    if "per_request_seeds" not in engine.abilities:
        raise ValueError(
            f"{engine.name}: has no per-request seeds; allowed: engines that have them"
        )
    (case,) = matching_cases(suite, [case])
    calls: Calls = {}
    (result,) = judge(_recording(engine, calls), engine.semantics, suite, case, seed).cases
    return {
        "schema_version": SCHEMA_VERSION,
        "engine": engine.name,
        "calls": engine.calls,
        "seen_with": engine.version(),
        "semantics": engine.semantics,
        "abilities": list(engine.abilities),
        "suite": suite,
        "case": case,
        "seed": seed,
        "verdict": result.verdict,
        "answers": {digest: _packed(tokens) for digest, tokens in calls.items()},
    }


def name_of(capsule: Mapping[str, Any]) -> str:
    return f"{capsule['engine']}-{capsule['case'].replace('/', '-')}.json"


def write(capsule: Mapping[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name_of(capsule)
    file.write_text(json.dumps(capsule, indent=1) + "\n")
    return file


def read(file: Path) -> dict[str, Any]:
    """Reads a capsule of calls. Raises ValueError with the file and the field if it is none."""
    try:
        capsule = json.loads(file.read_text())
    except ValueError as error:
        raise ValueError(f"{file}: is no JSON: {error}") from None
    if not isinstance(capsule, dict) or capsule.keys() != FIELDS.keys():
        raise ValueError(f"{file}: has other fields; allowed: {', '.join(FIELDS)}")
    for field, kind in FIELDS.items():
        if not isinstance(capsule[field], kind) or isinstance(capsule[field], bool):
            raise ValueError(f"{file}: {field} is {capsule[field]!r}; allowed: {kind.__name__}")
    if capsule["schema_version"] != SCHEMA_VERSION:
        raise ValueError(
            f"{file}: schema_version is {capsule['schema_version']}; allowed: {SCHEMA_VERSION}"
        )
    return capsule


def replayed(capsule: Mapping[str, Any]) -> Engine:
    """Returns an engine that answers the calls of a capsule as the recorded engine did.

    Raises ValueError if an answer is no list of tokens.
    """
    try:
        answers = {digest: _unpacked(text) for digest, text in capsule["answers"].items()}
    except (TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"answers: is not what `record` writes: {error}") from None

    def sample(batch: Batch) -> Any:
        tokens = answers.get(digest_of(batch))
        if tokens is None:
            raise LookupError(
                "the capsule has no such call: the gate makes other calls than when it was made"
            )
        return tokens.reshape(batch.outputs, batch.num_samples)

    make: Callable[[int], Sampler] = lambda seed: sample  # noqa: E731
    return Engine(
        name=capsule["engine"],
        semantics=capsule["semantics"],
        calls=capsule["calls"],
        version=lambda: str(capsule["seen_with"]),
        make=make,
        arrays="numpy",
        abilities=capsule["abilities"],
    )


def replay(capsule: Mapping[str, Any]) -> tuple[str, str]:
    """Judges a capsule's case again. Returns the verdict and the message."""
    engine = replayed(capsule)
    arguments = (capsule["semantics"], capsule["suite"], capsule["case"], capsule["seed"])
    (result,) = judge(engine, *arguments).cases
    return result.verdict, result.message
