"""Defines rules by which engines turn a request's seed into random numbers, written from the
engines' sources.

The module calls no package of an engine. Each rule says which numbers decide a draw, and a
textbook's sampler draws by these numbers. The gate can then answer the questions of docs/seeds.md:
which tokens are the same, and which are different? `python -m fairdraw engines seeds` writes the
gate's answers to seeds.json.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairdraw import Batch, __version__, verify
from fairdraw.verification import Ability, Promise, Suite

from ._engine import Sampler
from ._one_row import call_of
from .standalone.rules import Array, Textbook

SUITE: Suite = "smoke"
SEED = 1
NOT_JUDGED = "not judged"
FLAT = "streams/all_equal/v131072/none/t1"


@dataclass(frozen=True)
class Question:
    """A question about seeds, and the cases that answer the question.

    The tokens are "same" or "different". The answer is `kept` if the sampler keeps the promises,
    and `broken` if a failure's message contains the text `sign`. Any other failure answers another
    question about seeds.
    """

    name: str
    text: str
    cases: Sequence[str]
    randomness: Sequence[Promise]
    kept: str
    broken: str
    sign: str
    abilities: Sequence[Ability] = ()


MATES = ["batches/gaussian_wide/v1000/unfiltered", "replay/gaussian_wide/v1000/unfiltered"]

# Questions about samples and prompts have a second promise, because the gate compares sequences.
QUESTIONS = (
    Question(
        "again", "the same call again", [FLAT], ("offsets", "replays"), "same", "different", "again"
    ),
    Question(
        "prompts",
        "one seed, many prompts",
        [FLAT],
        ("outputs", "seeds"),
        "different",
        "same",
        "outputs with one seed",
    ),
    Question(
        "samples",
        "n samples of a prompt",
        [FLAT],
        ("samples", "seeds"),
        "different",
        "same",
        "samples of one output",
        ("num_samples",),
    ),
    Question(
        "next_seed",
        "n samples by seed s and by s + 1",
        [FLAT],
        ("samples", "seeds", "offsets"),
        "different",
        "same",
        "seed + 0x1, sample - 0x1",
        ("num_samples",),
    ),
    Question(
        "batch",
        "a request alone and in a batch",
        MATES,
        ("seeds", "replays"),
        "same",
        "different",
        "alone",
    ),
)
#: Only fairdraw answers this question, because no adapter splits another engine's vocabulary over
#: ranks.
RANKS = Question("ranks", "one GPU and tensor parallel", MATES, (), "same", "different", "expected")


class Draws:
    """The numbers that a rule may use for the draws of one call, as uint64 [outputs, samples]."""

    def __init__(self, batch: Batch, calls: int) -> None:
        shape = (batch.outputs, batch.num_samples)
        self.seed, self.offset = (
            np.broadcast_to(np.asarray(column, np.uint64)[:, None], shape)
            for column in (batch.seed, batch.offset)
        )
        self.output, self.sample = np.indices(shape, np.uint64)
        self.size = np.full(shape, batch.outputs, np.uint64)
        self.call = np.full(shape, calls, np.uint64)
        #: Number of the request among the requests with the same seed. A request with a seed of its
        #: own has the number 0.
        self.request = self.output if batch.seed_is_scalar else np.zeros(shape, np.uint64)

    @property
    def first_seed(self) -> Array:
        return np.full_like(self.seed, self.seed[0, 0])

    @property
    def first_offset(self) -> Array:
        return np.full_like(self.offset, self.offset[0, 0])

    @property
    def place(self) -> Array:
        """Numbers the rows of a call whose samples are rows of their own."""
        return self.output * np.uint64(self.sample.shape[1]) + self.sample


@dataclass(frozen=True)
class SeedRule:
    """One engine's rule about seeds: the numbers that decide a draw. Everything else is the
    textbook's."""

    name: str
    engine: str
    text: str
    sources: Sequence[str]
    key: Callable[[Draws], Sequence[Array]]
    samples: bool = False  # whether the source says how n samples of a prompt get their seeds
    #: True if one request with a filter makes the whole batch draw by ranks instead of ids.
    ranks_if_any_filter: bool = False


ABILITIES: tuple[Ability, ...] = ("float16", "allowed_mask", "indices", "per_request_seeds")
_LOW = np.uint64(0xFFFFFFFF)

RULES = (
    SeedRule(
        "vllm_v1",
        "vLLM, V1",
        "a generator per request; sample i of n has seed + i",
        [
            "https://github.com/vllm-project/vllm/pull/2514",
            "https://github.com/vllm-project/vllm/pull/10980",
        ],
        lambda d: (d.seed + d.sample, d.offset),
        samples=True,
    ),
    SeedRule(
        "vllm_v2",
        "vLLM, model runner V2",
        "a hash of the seed and 32 bits of the position; sample i of n has seed + i",
        [
            "https://github.com/vllm-project/vllm/pull/51367",
            "https://github.com/vllm-project/vllm/pull/10980",
        ],
        lambda d: (d.seed + d.sample, d.offset & _LOW),
        samples=True,
    ),
    SeedRule(
        "sglang",
        "SGLang",
        "the process's generator; a request's seed has no effect",
        ["https://docs.sglang.io/docs/advanced_features/deterministic_inference"],
        lambda d: (d.call, d.place),
    ),
    SeedRule(
        "sglang_deterministic",
        "SGLang, deterministic mode",
        "a hash of the seed, the position and the column; the column is a rank, not an id, if a "
        "request of the batch has a filter",
        ["https://github.com/sgl-project/sglang/pull/35697"],
        lambda d: (d.seed, d.offset),
        ranks_if_any_filter=True,
    ),
    SeedRule(
        "tensorrt_llm",
        "TensorRT-LLM, TorchSampler",
        "FlashInfer with a seed per request, of which FlashInfer reads the first",
        ["https://github.com/NVIDIA/TensorRT-LLM/pull/17172"],
        lambda d: (d.first_seed, d.first_offset, d.place),
    ),
    SeedRule(
        "max",
        "MAX",
        "seed + length of the sequence + a hash of the request's id",
        ["https://github.com/modular/modular/blob/main/max/python/max/pipelines/sampling/seeds.py"],
        lambda d: (d.seed + d.offset + hashed(d.request),),
    ),
    SeedRule(
        "llamacpp",
        "llama.cpp",
        "a generator per sequence, started from 32 bits of the seed",
        ["https://github.com/ggml-org/llama.cpp/pull/6835"],
        lambda d: (d.seed & _LOW, d.offset),
    ),
    SeedRule(
        "transformers",
        "transformers",
        "torch's generator for all rows of the call, which `set_seed` starts; n samples are rows",
        ["https://huggingface.co/docs/transformers/main_classes/text_generation"],
        lambda d: (d.first_seed, d.first_offset, d.size, d.place),
        samples=True,
    ),
    SeedRule(
        "flashinfer",
        "FlashInfer",
        "the first seed of the call and the number of the row; n samples are rows",
        ["https://github.com/flashinfer-ai/flashinfer/pull/4861"],
        lambda d: (d.first_seed, d.first_offset, d.place),
        samples=True,
    ),
    SeedRule(
        "rosellm",
        "RoseLLM",
        "torch's generator, one row after the other",
        ["https://github.com/chtho-like/rosellm"],
        lambda d: (d.first_seed, d.first_offset, d.size, d.place),
    ),
)


def hashed(*parts: Array) -> Array:
    """Mixes several uint64 arrays of one shape into one array, by the finaliser of splitmix64."""
    state = np.zeros_like(parts[0])
    for part in parts:
        state = (state + part + np.uint64(0x9E3779B97F4A7C15)) & ~np.uint64(0)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state ^= state >> np.uint64(31)
    return state


def make_sampler(rule: SeedRule) -> Sampler:
    textbook, calls = Textbook(0), 0

    def sample(batch: Batch) -> Any:
        nonlocal calls
        calls += 1
        logits, rows = call_of(batch)
        names = ("temperature", "top_k", "top_p", "min_p")
        columns = [np.asarray(getattr(batch, name)) for name in names]
        refused = textbook.refuses(logits, *columns)
        given = np.where(refused[:, None], np.float32(0), logits)
        neutral = [np.where(refused, off, c) for off, c in zip((1, 0, 1, 0), columns, strict=True)]
        weights = textbook.filtered(given, *neutral)[1]
        order = np.broadcast_to(np.arange(batch.vocab), weights.shape)
        _, top_k, top_p, min_p = neutral
        if rule.ranks_if_any_filter and np.any((top_k > 0) | (top_p < 1) | (min_p > 0)):
            order = np.argsort(-weights, axis=1, kind="stable")
            weights = np.take_along_axis(weights, order, axis=1)
        sums = weights.cumsum(axis=1)
        uniform = (hashed(*rule.key(Draws(batch, calls))) >> np.uint64(11)) * 2.0**-53
        tokens = np.full(uniform.shape, -1, np.int64)
        for output, row in enumerate(rows):
            if not refused[row]:
                ranks = np.searchsorted(sums[row], uniform[output] * sums[row, -1], side="right")
                tokens[output] = order[row, ranks]
        return tokens

    return sample


def answer(rule: SeedRule, question: Question) -> dict[str, Any]:
    """Asks the gate one question about a rule. `tokens` is "same", "different" or "not judged"."""
    if "num_samples" in question.abilities and not rule.samples or question is RANKS:
        return _answer(question, [])
    return _answer(
        question,
        [
            verify(
                make_sampler(rule),
                "fairdraw",
                SUITE,
                name=rule.name,
                arrays="numpy",
                abilities=[*ABILITIES, *question.abilities],
                randomness=question.randomness,
                case=case,
                logits=[],
                seed=SEED,
            ).cases[0]
            for case in question.cases
        ],
    )


def answers_of(rule: SeedRule) -> dict[str, dict[str, Any]]:
    found = {question.name: answer(rule, question) for question in (*QUESTIONS, RANKS)}
    # The cases with batches also make the same call again.
    if found["again"]["tokens"] == NOT_JUDGED and found["batch"]["tokens"] == "same":
        found["again"] = found["batch"]
    return found


def own_answers() -> dict[str, dict[str, Any]]:
    """Asks the gate about fairdraw's own samplers, which make all promises.

    The samplers' tokens are compared with those of the integer model, which has no ranks. Tokens of
    a split vocabulary are therefore the same as those of a whole vocabulary.
    """
    return {
        question.name: _answer(
            question,
            [
                verify(sampler, "fairdraw", SUITE, case=case, logits=[], seed=SEED).cases[0]
                for case in question.cases
            ],
        )
        for question in (*QUESTIONS, RANKS)
        for sampler in ["sharded:4" if question is RANKS else "cpu"]
    }


def _answer(question: Question, cases: Sequence[Any]) -> dict[str, Any]:
    failed = [case for case in cases if case.verdict == "failed"]
    tokens = NOT_JUDGED
    if any(question.sign in case.message for case in failed):
        tokens = question.broken
    elif cases and all(case.verdict == "passed" for case in cases):
        tokens = question.kept
    return {
        "tokens": tokens,
        "cases": [
            {"case": case.id, "verdict": case.verdict, "message": case.message} for case in cases
        ],
    }


def record() -> dict[str, Any]:
    """Judges every rule, and fairdraw's own samplers, by every question."""
    rules = [
        {
            "engine": rule.engine,
            "rule": rule.text,
            "sources": [*rule.sources],
            "answers": answers_of(rule),
        }
        for rule in RULES
    ]
    own = "Philox at the seed, the offset, and the numbers of the output and the sample"
    rules.append({"engine": "fairdraw", "rule": own, "sources": [], "answers": own_answers()})
    return {
        "schema_version": 1,
        "tool": f"fairdraw {__version__}",
        "date": datetime.date.today().isoformat(),
        "suite": SUITE,
        "seed": SEED,
        "questions": {question.name: question.text for question in (*QUESTIONS, RANKS)},
        "rules": rules,
    }
