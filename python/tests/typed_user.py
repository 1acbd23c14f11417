"""A file as a user would write it, for the type checker: mypy --strict must know all types of the
calls in this file.
"""

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


def judge_on_a_gpu() -> fairdraw.Report:
    return fairdraw.verify(
        greedy, device="cuda:0", abilities=["float16", "indices"], lacks=["top_p"], randomness=[]
    )


class Greedy:
    """A minimal fairdraw.RunningBatch, which keeps only the seed of each slot."""

    def begin(
        self, slots: int, vocab: int, dtype: str, tie_rule: str, filter_apply_order: str
    ) -> None:
        self.seeds: dict[int, int] = {}

    def add(self, slot: int, request: fairdraw.BatchRequest) -> None:
        self.seeds[slot] = request.seed

    def step(
        self, slots: npt.NDArray[np.int32], logits: npt.NDArray[np.float32], allowed: object
    ) -> npt.NDArray[np.int64]:
        largest: npt.NDArray[np.int64] = np.argmax(logits, axis=1)
        return largest

    def evict(self, slot: int) -> None:
        del self.seeds[slot]

    def restore(self, slot: int, request: fairdraw.BatchRequest, output: list[int]) -> None:
        self.add(slot, request)

    def end(self, slot: int) -> None:
        self.evict(slot)


def judge_running_batch() -> fairdraw.Report:
    return fairdraw.verify(greedy, running_batch=Greedy, suite="smoke", case="sequences/*")


def draw(logits: npt.NDArray[np.float32]) -> int:
    tokens = fairdraw.sample(logits, temperature=0.7, top_p=0.9, seed=7)
    details: fairdraw.SampleDetails = fairdraw.sample(logits, seed=7, return_details=True)
    return int(tokens[0]) + int(details.statuses[0])


def serve(logits: npt.NDArray[np.float32]) -> list[int]:
    state = fairdraw.BatchState(vocab=logits.shape[1], capacity=1, max_length=16)
    state.add(1, fairdraw.BatchRequest(temperature=0.7, bias={3: -1.0}, prompt=[1, 2]))
    processor = fairdraw.FusedSamplingProcessor(state)
    processor.step(logits)
    processor.start_async_token_copy()
    copied: fairdraw.CopiedStep = processor.wait_for_tokens(return_details=True)
    assert copied.counts.sum() == 1
    snapshot: fairdraw.RequestSnapshot = state.evict(1)
    slot: int = state.restore(snapshot)
    return [slot, *state.output(1)]


def speculate(logits: npt.NDArray[np.float32], ids: npt.NDArray[np.int32]) -> list[int]:
    found: fairdraw.VerifiedChains = fairdraw.verify_chain(
        logits, ids, draft_logits=logits[:, 1:], draft_filters=fairdraw.LawFilters(0.7), seed=7
    )
    history = [fairdraw.RequestProcessing(presence_penalty=0.5, output=[1, 2])]
    trees: fairdraw.VerifiedTrees = fairdraw.verify_tree(
        logits, ids, ids, processing=history, draft_probs=logits, siblings="without_replacement"
    )
    return [int(found.accepted[0]), int(trees.nodes[0, 0])]


def search(logits: npt.NDArray[np.float32]) -> float:
    beams = fairdraw.BeamSearch(1, 4, max_tokens=8, end_ids=[2], early_stopping=2)
    while not beams.done:
        step: fairdraw.BeamStep = beams.step(np.repeat(logits, beams.rows, axis=0))
        assert step.tokens.shape == (1, 4)
    result: fairdraw.BeamResult = beams.result(2)
    return float(result.scores[0, 0])


def several(logits: npt.NDArray[np.float32]) -> int | None:
    parameters = fairdraw.from_vllm(fairdraw.VllmRequest(n=2, temperature=0.7, seed=1), 32000)
    seeds = fairdraw.child_seeds([parameters.seed or 0], parameters.n, parameters.child_seed_rule)
    tokens = fairdraw.sample(np.repeat(logits, 2, axis=0), **parameters.filters(), seed=seeds[0])
    stopped: fairdraw.StopStep = fairdraw.check_stop(tokens, max_tokens=parameters.max_tokens)
    best: fairdraw.BestOf = fairdraw.best_of([[-1.0, -2.0]], 1)
    if fairdraw.FinishReason(stopped.reasons[0]).api_name is None:
        return None
    return int(best.chosen[0, 0])
