"""Generates text with a tiny decoder-only language model, in the way of an inference engine.

    python -m fairdraw.examples.generate --do-sample --temperature 0.8 --top-p 0.9 --seed 7

The prefill is one pass over the whole prompt, which fills the cache of keys and values. The first
token is sampled from the logits of the last position. Each decode step then adds one token, with
the help of the cache. Step i draws with offset i, so that a text is a function of prompt, weights,
parameters and seed. The weights are random, so that the text is noise. The option --weights reads
other weights.
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import fairdraw

Array = Any  # a NumPy array; NumPy's own types say little about an array's content

#: One token per character of the alphabet.
ALPHABET = "\n" + "".join(chr(code) for code in range(32, 127))


@dataclass(frozen=True)
class Shape:
    vocab: int = len(ALPHABET)
    width: int = 64
    heads: int = 4
    layers: int = 2
    context: int = 512


def random_weights(shape: Shape, seed: int = 0) -> dict[str, Array]:
    """Returns a model's float32 weights by name, scaled so that activations keep their size."""
    random = np.random.default_rng(seed)
    width = shape.width

    def matrix(rows: int, columns: int) -> Array:
        return (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)

    weights = {
        "embedding": matrix(shape.vocab, width) * 8,
        "position": matrix(shape.context, width),
    }
    for layer in range(shape.layers):
        weights[f"{layer}.qkv"] = matrix(width, 3 * width)
        weights[f"{layer}.out"] = matrix(width, width)
        weights[f"{layer}.up"] = matrix(width, 4 * width)
        weights[f"{layer}.down"] = matrix(4 * width, width)
    weights["head"] = matrix(width, shape.vocab) * 2
    return weights


def _normed(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-5))


class Model:
    """A decoder-only transformer with a cache of keys and values. `step` appends tokens and returns
    the logits of the last token."""

    def __init__(self, weights: dict[str, Array], shape: Shape) -> None:
        self._weights = weights
        self._shape = shape
        head = shape.width // shape.heads
        self._keys = np.zeros((shape.layers, shape.heads, shape.context, head), np.float32)
        self._values = np.zeros_like(self._keys)
        self._length = 0

    def step(self, tokens: list[int]) -> Array:
        """Returns the logits [1, vocab], float32, after `tokens`, which are the whole prompt or the
        newest token."""
        w, shape, start = self._weights, self._shape, self._length
        end = start + len(tokens)
        if not tokens or end > shape.context:
            raise ValueError(f"{end} tokens; allowed: 1 to {shape.context}")
        x = w["embedding"][tokens] + w["position"][start:end]
        future = np.arange(end)[None, :] > np.arange(start, end)[:, None]
        for layer in range(shape.layers):
            x = x + self._attention(layer, _normed(x), start, end, future)
            x = x + np.maximum(_normed(x) @ w[f"{layer}.up"], 0) @ w[f"{layer}.down"]
        self._length = end
        return np.ascontiguousarray(_normed(x[-1:]) @ w["head"], np.float32)

    def _attention(self, layer: int, x: Array, start: int, end: int, future: Array) -> Array:
        shape, head = self._shape, self._keys.shape[-1]
        qkv = (x @ self._weights[f"{layer}.qkv"]).reshape(len(x), 3, shape.heads, head)
        query, key, value = qkv.transpose(1, 2, 0, 3)
        self._keys[layer, :, start:end] = key
        self._values[layer, :, start:end] = value
        scores = query @ self._keys[layer, :, :end].transpose(0, 2, 1) / np.sqrt(np.float32(head))
        scores[:, future] = -np.inf
        rows = scores.reshape(-1, end)
        attention = fairdraw.softmax(rows).reshape(scores.shape)
        mixed = attention @ self._values[layer, :, :end]
        return mixed.transpose(1, 0, 2).reshape(len(x), -1) @ self._weights[f"{layer}.out"]


@dataclass(frozen=True)
class Sampling:
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


def generate(
    model: Model, prompt: list[int], sampling: Sampling, max_new_tokens: int
) -> Iterator[tuple[int, Array]]:
    """Yields each new token, and the logits from which the token was drawn."""
    tokens = prompt
    for step in range(max_new_tokens):
        logits = model.step(tokens)  # step 0 is the prefill of the prompt
        (token,) = fairdraw.sample(
            logits,
            sampling.temperature if sampling.do_sample else 0.0,
            sampling.top_k,
            sampling.top_p,
            seed=sampling.seed,
            offset=step,
        )
        tokens = [int(token)]
        yield tokens[0], logits


def encode(text: str) -> list[int]:
    """Returns the tokens of a text. Characters without a token become '?'."""
    return [ALPHABET.index(c if c in ALPHABET else "?") for c in text]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fairdraw.examples.generate", description="Text of a tiny language model."
    )
    parser.add_argument("--prompt", default="Once upon a time", help="beginning of the text")
    parser.add_argument("--do-sample", action="store_true", help="draw; without it, greedy")
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--top-k", type=int, default=0, help="0 is off")
    parser.add_argument("--top-p", type=float, default=1.0, help="1 is off")
    parser.add_argument("--max-new-tokens", type=int, default=64, metavar="N")
    parser.add_argument(
        "--seed", type=int, help="64 bits; without it a fresh one, printed on stderr"
    )
    parser.add_argument("--weights", metavar="FILE.npz", help="instead of random ones")
    options = parser.parse_args(arguments)
    shape = Shape()
    weights = random_weights(shape)
    try:
        if options.weights:
            with np.load(options.weights) as file:
                weights = {name: np.asarray(file[name], np.float32) for name in weights}
        seed = secrets.randbits(64) if options.seed is None else options.seed
        if options.seed is None and options.do_sample:
            print(f"seed {seed}", file=sys.stderr)
        sampling = Sampling(
            options.do_sample, options.temperature, options.top_k, options.top_p, seed
        )
        print(options.prompt, end="", flush=True)
        model = Model(weights, shape)
        for token, _ in generate(model, encode(options.prompt), sampling, options.max_new_tokens):
            print(ALPHABET[token], end="", flush=True)
        print()
    except (ValueError, KeyError, OSError) as error:
        print(f"\ngenerate: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
