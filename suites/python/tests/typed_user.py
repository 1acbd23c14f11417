"""A user's file, for the type checker: mypy --strict sees all types of what is called here."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

import fairdraw


def greedy(batch: fairdraw.Batch) -> npt.NDArray[np.int64]:
    largest: npt.NDArray[np.int64] = np.argmax(batch.logits, axis=1)
    return largest


def judge(folder: Path) -> list[str]:
    report = fairdraw.verify(greedy, semantics="vllm_torch", suite="smoke", jobs=1)
    report.write(folder)
    if report.verdict != "passed":
        report.raise_for_failures()
    return [f"{case.id}: {case.message}" for case in report.failures]


def draw(logits: npt.NDArray[np.float32]) -> int:
    tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
    details: fairdraw.SampleDetails = fairdraw.sample(logits, seed=7, return_details=True)
    return int(tokens[0]) + int(details.statuses[0])


def serve(logits: npt.NDArray[np.float32]) -> list[int]:
    state = fairdraw.BatchState(vocab=logits.shape[1], capacity=1, max_length=16)
    state.add(1, fairdraw.BatchRequest(temperature=0.7, bias={3: -1.0}, prompt=[1, 2]))
    processor = fairdraw.FusedSamplingProcessor(state)
    processor.step(logits)
    snapshot: fairdraw.RequestSnapshot = state.evict(1)
    slot: int = state.restore(snapshot)
    return [slot, *state.output(1)]
