"""vllm draws token 0, which its own filters dropped, in a row of 2 tokens with logits that overflow float32 when they are divided by the temperature and temperature 1e-04.

Seen with vllm 0.33.0, torch 2.13.0+cpu. Ends with 1 where it shows, with 0 where it does not.
"""

inf, nan = float('inf'), float('nan')

"""vLLM's PyTorch path (vllm/v1/sample/ops/topk_topp_sampler.py), for capsules.

Uses an installed vllm, or the wheel that the environment variable VLLM_WHEEL names: the one file of
it, on the CPU, with stand-ins for what it imports of the rest.
"""

import importlib
import os
import sys
import types
import zipfile

import numpy as np
import torch

MODULE = "vllm.v1.sample.ops.topk_topp_sampler"


class Nothing:
    def __getattr__(self, name):
        return lambda *_, **__: None


def load():
    if "VLLM_WHEEL" not in os.environ:
        return importlib.import_module(MODULE)
    members = {
        "vllm": {"envs": Nothing()},
        "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
        "vllm.config": {},
        "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": str},
        "vllm.logger": {"init_logger": lambda name: Nothing()},
        "vllm.platforms": {"CpuArchEnum": Nothing(), "current_platform": Nothing()},
        "vllm.platforms.interface": {"DeviceCapability": object},
        "vllm.triton_utils": {"HAS_TRITON": False},
    }
    for name, content in members.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)
    module = types.ModuleType(MODULE)
    with zipfile.ZipFile(os.environ["VLLM_WHEEL"]) as wheel:
        exec(wheel.read(MODULE.replace(".", "/") + ".py"), module.__dict__)
    return module


def answer(logits, temperature, top_k, top_p, min_p, draws):
    """(ids that the filters keep, tokens drawn): the steps of vLLM's Sampler in their order."""
    module = load()
    vocab = len(logits)
    rows = torch.tensor(np.array(logits, np.float32))[None, :]
    if temperature < 1e-5:
        largest = int(rows.argmax())
        return {largest}, [largest] * draws
    rows = rows / np.float32(temperature)
    if min_p > 0:
        probs = rows.softmax(dim=-1)
        rows[probs < np.float32(min_p) * probs.amax(dim=-1, keepdim=True)] = -float("inf")
    k = torch.tensor([min(top_k, vocab)]) if 0 < top_k < vocab else None
    p = torch.tensor([top_p], dtype=torch.float32) if top_p < 1 else None
    if k is not None or p is not None:
        rows = module.apply_top_k_top_p_pytorch(rows, k, p)
    kept = set(torch.nonzero(rows[0] > -float("inf")).flatten().tolist())
    torch.manual_seed(1)
    probs = rows.softmax(dim=-1).expand(draws, vocab).contiguous()
    return kept, module.random_sample(probs, {}).tolist()


LOGITS = [-inf, 3e+36]
TEMPERATURE = 1e-04
TOP_K = 0
TOP_P = 1
MIN_P = 0
DRAWS = 4
KEPT = None
MAY_BE_KEPT = []
FEWEST = 0
MOST = 0
MUST_FAIL = False
COUNTS = {}

"""What a capsule's script ends with: the row by its constants, the engine's answer, what was expected."""


def main():
    kept, tokens = answer(LOGITS, TEMPERATURE, TOP_K, TOP_P, MIN_P, DRAWS)
    wrong = []
    if kept is not None and KEPT is not None:
        if missing := sorted(set(KEPT) - kept):
            wrong.append(f"the filters drop {missing[:8]}, which have to stay")
        if extra := sorted(kept - set(MAY_BE_KEPT)):
            wrong.append(f"the filters keep {extra[:8]}, which have to go")
        if not FEWEST <= len(kept) <= MOST:
            wrong.append(f"{len(kept)} tokens stay; expected: {FEWEST} to {MOST}")
    if kept is not None and (left := sorted({t for t in tokens if t >= 0} - kept)):
        wrong.append(f"{left[:8]} are drawn, which the filters of the same call dropped")
    if KEPT is not None and (outside := sorted({t for t in tokens if t >= 0} - set(MAY_BE_KEPT))):
        wrong.append(f"{outside[:8]} are drawn; expected: one of {MAY_BE_KEPT[:8]}")
    if MUST_FAIL and any(t >= 0 for t in tokens):
        wrong.append(f"a row without a distribution gives tokens {sorted(set(tokens))[:8]}")
    for token, (fewest, most) in COUNTS.items():
        if not fewest <= tokens.count(token) <= most:
            wrong.append(
                f"token {token} is drawn {tokens.count(token)} times in {DRAWS}; "
                f"expected: {fewest} to {most}"
            )
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
