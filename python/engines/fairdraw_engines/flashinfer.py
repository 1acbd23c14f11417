"""Adapts FlashInfer's samplers (flashinfer-python) on a CUDA device, for probabilities and for
logits.

The samplers are judged by the profiles `flashinfer` (top_k_first) and `flashinfer_joint` (both
filters apply to the whole row's mass). Probabilities come from flashinfer.softmax with the
temperature, and top_k_top_p_sampling_from_probs then draws. Rows with min_p use top_k_renorm_probs,
top_p_renorm_probs and min_p_sampling_from_probs, one after the other. That order of filters exists
only for top_k_first, so that the joint order has no cases with min_p. Logits are multiplied by the
inverse temperature (0 for 0, as in softmax), and top_k_top_p_sampling_from_logits draws. The
parameters of this function are in tensors, which selects its slow path. The function cake_sampling
is judged by `flashinfer_cake`. The function cake_sampling runs after softmax, with top_k and top_p
in tensors and also the largest k, in cases in which every row has a top_k. The function
chain_speculative_sampling is judged as a verifier of drafts by profile `flashinfer`, whose
probabilities sum to 1. The adapter uses only the number of emitted drafts, because the other count
tests the rejected position again. FlashInfer compiles its kernels with nvcc at the first call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fairdraw import Batch
from fairdraw.verification import Ability

from ._engine import DraftEngine, Engine, Sampler
from ._packages import Unavailable, package, version_of
from ._tensors import CHUNK, float32_logits, generator_of, places_in_range, rows_of


def version() -> str:
    torch = package("torch")
    if not torch.cuda.is_available():
        raise Unavailable("torch sees no CUDA device")
    package("flashinfer")
    return f"{version_of('flashinfer-python', 'torch')}, {torch.cuda.get_device_name()}"


def _from_probs(sampling: Any, order: str, generator: Any, inputs: tuple[Any, ...]) -> Any:
    logits, temperature, top_k, top_p, min_p = inputs
    probs = sampling.softmax(logits, temperature)
    tokens = sampling.top_k_top_p_sampling_from_probs(
        probs, top_k, top_p, filter_apply_order=order, generator=generator
    )
    chained = min_p > 0
    if chained.any():
        rest = sampling.top_k_renorm_probs(probs[chained].contiguous(), top_k[chained])
        rest = sampling.top_p_renorm_probs(rest, top_p[chained])
        tokens[chained] = sampling.min_p_sampling_from_probs(
            rest, min_p[chained], generator=generator
        )
    return tokens


def _from_logits(sampling: Any, order: str, generator: Any, inputs: tuple[Any, ...]) -> Any:
    logits, temperature, top_k, top_p, _ = inputs
    inverse = temperature.reciprocal().masked_fill(temperature == 0, 0.0)
    return sampling.top_k_top_p_sampling_from_logits(
        (logits * inverse[:, None]).contiguous(),
        top_k,
        top_p,
        filter_apply_order=order,
        generator=generator,
    )


def _cake(sampling: Any, order: str, generator: Any, inputs: tuple[Any, ...]) -> Any:
    logits, temperature, top_k, top_p, _ = inputs
    return package("flashinfer.cake_sampling").top_k_top_p_sampling_from_probs(
        sampling.softmax(logits, temperature),
        top_k,
        top_p,
        top_k_max=int(top_k.max()),
        generator=generator,
    )


def make(draw: Any, order: str, seed: int) -> Sampler:
    import torch

    version()
    sampling = package("flashinfer.sampling")
    generator = generator_of(seed, "cuda")

    def sample(batch: Batch) -> Any:
        logits = float32_logits(batch).cuda()
        columns = [c.cuda() for c in (batch.temperature, batch.top_k, batch.top_p, batch.min_p)]
        rows = rows_of(batch)
        tokens = torch.full((len(rows),), -1, dtype=torch.int64)
        for places in torch.split(places_in_range(batch, rows), max(1, CHUNK // batch.vocab)):
            part = rows[places].cuda()
            drawn = draw(sampling, order, generator, tuple(c[part] for c in (logits, *columns)))
            tokens[places] = drawn.cpu().long()
        return tokens.reshape(batch.outputs, batch.num_samples)

    return sample


def make_chain(seed: int) -> Any:
    version()
    sampling = package("flashinfer.sampling")
    generator = generator_of(seed, "cuda")

    def verify(batch: Any) -> Any:
        tokens, _, emitted = sampling.chain_speculative_sampling(
            batch.draft_probs.cuda(),
            batch.draft_tokens.cuda(),
            batch.target.cuda(),
            generator=generator,
        )
        return tokens.cpu(), emitted.cpu()

    return verify


ABILITIES: tuple[Ability, ...] = ("float16", "bfloat16", "allowed_mask", "indices", "num_samples")
#: Globs of cases without min_p: ids that do not contain min_p, and no lists of operations with
#: min_p.
WITHOUT_MIN_P = (
    "*/none/t*",
    "*/top_k_*/t*",
    "*/top_p_*/t*",
    "*/unfiltered*",
    "*/top_k_alone*",
    "*/top_p_alone*",
    "*/top_k_and_top_p*",
)


def _engine(name: str, semantics: str, calls: str, draw: Any, order: str, cases: Any) -> Engine:
    return Engine(
        name=name,
        semantics=semantics,
        calls=f"flashinfer: {calls}",
        version=version,
        make=partial(make, draw, order),
        abilities=ABILITIES,
        cases=cases,
        standalone="flashinfer",
        settings={"function": draw.__name__.removeprefix("_from_").strip("_"), "order": order},
    )


PROBS = _engine(
    "flashinfer_probs",
    "flashinfer",
    "softmax, top_k_top_p_sampling_from_probs, renorm functions and min_p_sampling_from_probs",
    _from_probs,
    "top_k_first",
    ("*",),
)
PROBS_JOINT = _engine(
    "flashinfer_probs_joint",
    "flashinfer_joint",
    'softmax, top_k_top_p_sampling_from_probs(filter_apply_order="joint")',
    _from_probs,
    "joint",
    WITHOUT_MIN_P,
)
LOGITS = _engine(
    "flashinfer_logits",
    "flashinfer",
    "top_k_top_p_sampling_from_logits",
    _from_logits,
    "top_k_first",
    WITHOUT_MIN_P,
)
LOGITS_JOINT = _engine(
    "flashinfer_logits_joint",
    "flashinfer_joint",
    'top_k_top_p_sampling_from_logits(filter_apply_order="joint")',
    _from_logits,
    "joint",
    WITHOUT_MIN_P,
)
CAKE = _engine(
    "flashinfer_cake",
    "flashinfer_cake",
    "softmax, cake_sampling.top_k_top_p_sampling_from_probs",
    _cake,
    "top_k_first",
    ("*/top_k_*/t*",),
)
CHAIN = DraftEngine(
    name="flashinfer_chain",
    semantics="flashinfer",
    calls="flashinfer: chain_speculative_sampling",
    version=version,
    make=make_chain,
    target="probs",
    cases=("chain_law/*",),
)
