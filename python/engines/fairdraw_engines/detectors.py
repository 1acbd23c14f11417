"""Adapts other engines' detectors of watermarks, for `fairdraw.verify_detector`.

Each detector gets the ids of a text without its prompt, and a key. A text that the engine refuses
because it is too short has no p-value. The SynthID detector of transformers is a classifier without
p-values, which cannot be judged. Definition: the engine's own.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairdraw.detector_verification import Detector

from ._packages import package, version_of
from ._vllm_wheel import version_with
from .sglang_watermark import load as load_sglang
from .vllm_watermark import GUMBEL
from .vllm_watermark import load as load_vllm

SGLANG = "sglang.srt.sampling.watermarking.detector"


@dataclass(frozen=True)
class EngineDetector:
    """An engine's detector. `make(vocab)` returns it; `make` and `version` raise Unavailable if the
    engine is not available."""

    calls: str  # names of the engine's functions, for readers
    version: Callable[[], str]
    make: Callable[[int], Detector]


def hugging_face(vocab: int, ignore_repeated: bool) -> Detector:
    """Returns transformers' WatermarkDetector with its default configuration."""
    torch = package("torch")
    watermarking = package("transformers.generation.watermarking")
    # No text begins with the id of the first token, which the detector would leave out.
    model = types.SimpleNamespace(bos_token_id=vocab, is_encoder_decoder=False, vocab_size=vocab)
    width = 1

    def detect(ids: Any, key: int) -> float | None:
        if len(ids) <= width:
            return None
        rule = {"greenlist_ratio": 0.25, "bias": 2.0, "context_width": width, "hashing_key": key}
        detector = watermarking.WatermarkDetector(model, "cpu", rule, ignore_repeated)
        found = detector(torch.tensor(ids, dtype=torch.int64)[None, :], return_dict=True)
        return float(found.p_value[0])

    return detect


def vllm(vocab: int) -> Detector:
    """Returns vLLM's GumbelWatermarkDetector with its defaults."""
    gumbel, _ = load_vllm()
    return lambda ids, key: gumbel.GumbelWatermarkDetector(key).detect(ids.tolist()).p_value


def sglang(vocab: int) -> Detector:
    """Returns SGLang's WatermarkDetector with its defaults and one key."""
    module = load_sglang(SGLANG)
    return lambda ids, key: (
        module.WatermarkDetector(f"{key:x}").detect_tokens(ids.tolist()).combined.p_value
    )


_TRANSFORMERS = functools.partial(version_of, "transformers", "torch")

DETECTORS = {
    "hf_green_list": EngineDetector(
        "transformers: WatermarkDetector",
        _TRANSFORMERS,
        functools.partial(hugging_face, ignore_repeated=False),
    ),
    "hf_green_list_distinct": EngineDetector(
        "transformers: WatermarkDetector(ignore_repeated_ngrams=True)",
        _TRANSFORMERS,
        functools.partial(hugging_face, ignore_repeated=True),
    ),
    "vllm_watermark": EngineDetector(
        "vllm: GumbelWatermarkDetector", functools.partial(version_with, GUMBEL, "torch"), vllm
    ),
    "sglang_watermark": EngineDetector(
        "sglang: WatermarkDetector",
        functools.partial(version_with, SGLANG, "msgspec", engine="sglang"),
        sglang,
    ),
}
