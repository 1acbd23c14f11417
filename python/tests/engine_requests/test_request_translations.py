"""Tests the requests of engines: the meaning of each field, and the values that engines or fairdraw
refuse.

A row of a table is an engine, the fields of its request that differ from the defaults, and the
translation of the request. The expected values follow the engines' code, which the dataclasses
name.
"""

import math
import re

import numpy as np
import pytest
from test_request_parameters import ENGINES, float32

import fairdraw

VOCAB = 1000
NAN, INF = math.nan, math.inf
GREEDY = {"greedy": True, "temperature": 0, "top_k": 0, "top_p": 1, "min_p": 0}


def translated(engine, fields):
    kind, translate = ENGINES[engine]
    return translate(kind(**fields), VOCAB)


@pytest.mark.parametrize(
    "engine, fields, expected",
    [
        ("vllm", {}, {
            "greedy": False, "temperature": 1, "top_k": 0, "top_p": 1, "max_tokens": 16,
            "seed": None, "child_seed_rule": "seed_plus_index",
            "filter_apply_order": "top_k_first", "adjustments": (), "differences": (),
        }),
        ("vllm", {"temperature": 0, "top_k": 5, "top_p": 0.5, "min_p": 0.1}, GREEDY),
        *(("vllm", {"top_k": off}, {"top_k": 0}) for off in (0, -1, VOCAB, VOCAB + 1)),
        ("vllm", {"top_k": VOCAB - 1}, {"top_k": VOCAB - 1}),
        ("vllm", {"top_k": 1}, GREEDY),
        ("vllm", {"seed": -1}, {"seed": None}),
        ("vllm", {"seed": 0}, {"seed": 0}),
        ("vllm", {"seed": -2}, {"seed": 2**64 - 2}),
        ("vllm", {"max_tokens": None}, {"max_tokens": None}),
        ("vllm", {"max_tokens": 2**31 - 1}, {"max_tokens": None}),
        ("vllm", {"max_tokens": 2**31 - 2}, {"max_tokens": 2**31 - 2}),
        ("vllm", {
            "stop_token_ids": [5, 7, 5], "logit_bias": {3: 250.0, 4: -INF, 6: 0.5},
            "allowed_token_ids": [1, 2], "bad_words": [[1], [2, 3]],
        }, {
            "stop_ids": (5, 7), "logit_bias": {3: 100.0, 4: -100.0, 6: 0.5},
            "adjustments": (
                "logit_bias 250 is clamped to [-100, 100]",
                "logit_bias -inf is clamped to [-100, 100]",
            ),
            "allowed_ids": (1, 2), "bad_words": ((1,), (2, 3)),
        }),
        ("sglang", {}, {
            "max_tokens": 128, "filter_apply_order": "joint", "repetition_of_prompt": False,
        }),
        ("sglang", {"temperature": 9e-7}, GREEDY),
        # top_k is already 1 when the engine checks it.
        ("sglang", {"temperature": 0, "top_k": 0}, GREEDY),
        ("sglang", {"top_k": 1}, GREEDY),
        ("sglang", {"temperature": 1e-6}, {"greedy": False, "temperature": float32(1e-6)}),
        ("sglang", {"top_k": -1}, {"top_k": 0}),
        ("sglang", {"sampling_seed": 42}, {"seed": 42}),
        ("sglang", {"min_p": 0.1}, {"filter_apply_order": "top_k_first", "differences": ()}),
        ("sglang", {"logit_bias": {4: -INF}}, {"logit_bias": {4: -INF}}),
        ("tensorrt_llm", {}, GREEDY),
        # The request sets none of temperature, top_k and top_p.
        ("tensorrt_llm", {"min_p": 0.5}, GREEDY),
        ("tensorrt_llm", {"temperature": 0}, GREEDY),
        ("tensorrt_llm", {"top_p": 0, "temperature": 2}, GREEDY),
        ("tensorrt_llm", {"top_k": 1}, GREEDY),
        ("tensorrt_llm", {"temperature": 1, "min_p": 1}, GREEDY),
        ("tensorrt_llm", {"top_p_decay": 1, "top_p_min": 0.5, "top_p_reset_ids": 3}, {
            **GREEDY, "top_p_decay": 1, "top_p_min": 1e-6, "top_p_reset_id": -1,
        }),
        # A decay makes a request that sets nothing else one that is sampled.
        ("tensorrt_llm", {"top_p_decay": 0.5}, {
            "greedy": False, "top_p": 1, "top_p_decay": 0.5, "top_p_min": float32(1e-6),
            "top_p_reset_id": -1,
        }),
        ("tensorrt_llm", {"top_k": 1, "top_p_decay": 0.5}, {**GREEDY, "top_p_decay": 1}),
        ("tensorrt_llm", {"top_k": 0}, {
            "greedy": False, "temperature": 1, "top_k": 0, "top_p": 1, "seed": None,
            "max_tokens": 32, "adjustments": (), "differences": (),
        }),
        # best_of 0 means n.
        ("tensorrt_llm", {"top_k": 40, "seed": 9, "n": 2, "best_of": 0, "stop_words": [[1, 2]]}, {
            "top_k": 40, "seed": 9, "best_of": 2, "adjustments": (), "stop_sequences": ((1, 2),),
        }),
        ("tensorrt_llm", {"use_beam_search": True, "n": 2, "best_of": 4}, {
            "beam_width": 4, "n": 2, "early_stopping": 1, "length_penalty": 0,
        }),
        ("tensorrt_llm", {
            "use_beam_search": True, "best_of": 4, "early_stopping": 7, "length_penalty": 0.5,
        }, {"early_stopping": 2, "length_penalty": 0.5}),
        # The engine does not read these fields.
        ("hugging_face", {"temperature": 0, "top_p": 7}, GREEDY),
        ("hugging_face", {"do_sample": True}, {
            "greedy": False, "top_k": 50, "temperature": 1, "seed": None,
        }),
        *(("hugging_face", {"do_sample": True, "top_k": off}, {"top_k": 0}) for off in (None, 0)),
        ("hugging_face", {}, {"max_tokens": 20}),
        ("hugging_face", {"prompt_tokens": 15}, {"max_tokens": 5}),
        ("hugging_face", {
            "prompt_tokens": 15, "max_new_tokens": 100, "min_length": 40, "min_new_tokens": 10,
        }, {"max_tokens": 100, "min_tokens": 25}),
        ("hugging_face", {
            "num_beams": 4, "num_return_sequences": 3, "eos_token_id": [2, 3],
            "early_stopping": "never",
        }, {
            "beam_width": 4, "n": 3, "best_of": 4, "early_stopping": 2, "length_penalty": 1,
            "stop_ids": (2, 3),
        }),
        ("hugging_face", {"num_beams": 4}, {"early_stopping": 0}),
        ("max", {}, {
            "greedy": False, "max_tokens": None, "filter_apply_order": "joint",
            "repetition_of_prompt": True,
        }),
        ("max", {"temperature": 0}, GREEDY),
        ("max", {"top_k": 1}, GREEDY),
        ("max", {"top_k": 0}, {"top_k": 0}),
        ("llama_cpp", {}, {
            "top_k": 40, "top_p": float32(0.95), "temperature": float32(0.8),
            "tie_rule": "lowest_id", "penalty_window": 64, "counts_of_prompt": True, "seed": None,
            "max_tokens": None,
            # The condition x >= max + ln(min_p) before the division by T becomes x/T >= max/T +
            # ln(min_p)/T after the division.
            "min_p": float32(float32(0.05) ** (1 / float32(0.8))),
        }),
        ("llama_cpp", {
            "samplers": ["temperature", "min_p", "top_k", "top_p"],
            "penalty_repeat": 1.5,  # penalties are not in the request's chain of samplers
        }, {
            "differences": (), "adjustments": (), "min_p": float32(0.05), "repetition_penalty": 1,
            "filter_apply_order": "top_k_first",
        }),
        ("llama_cpp", {"samplers": ["top_p", "top_k"]}, {
            "filter_apply_order": "joint", "temperature": 1, "min_p": 0, "differences": (),
        }),
        ("llama_cpp", {"penalty_last_n": 0, "penalty_repeat": 1.5}, {"repetition_penalty": 1}),
        *(("llama_cpp", {"temp": cold}, {**GREEDY, "differences": ()}) for cold in (0.0, -1.0)),
        ("llama_cpp", {"top_k": -5, "top_p": 2, "min_p": -1, "seed": 7, "n_predict": 3}, {
            "top_k": 0, "top_p": 1, "min_p": 0, "seed": 7, "max_tokens": 3,
        }),
    ],
)  # fmt: skip
def test_what_fields_mean(engine, fields, expected):
    found = translated(engine, fields)
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize("low", [1e-9, 9e-6, 0.005])
def test_vllms_temperatures_below_a_hundredth_are_raised(low):
    found = translated("vllm", {"temperature": low})
    assert found.temperature == float32(0.01) and not found.greedy
    assert found.adjustments == (f"temperature {low:.9g} is raised to 0.01",)


@pytest.mark.parametrize(
    "engine, fields, sentences",
    [
        ("sglang", {"min_p": 0.1, "top_p": 0.9}, ["SGLang measures top_p before min_p"]),
        ("hugging_face", {"do_sample": True, "top_p": 0.9, "min_p": 0.1},
         ["Hugging Face measures top_p before min_p"]),
        ("max", {"min_p": 0.1, "top_p": 0.5}, ["MAX measures top_p on the whole mass"]),
        ("tensorrt_llm", {"top_p": 0.5}, ["TensorRT-LLM's nucleus is the least with more than"]),
        ("tensorrt_llm", {"top_p": 0}, []),  # greedy
        ("llama_cpp", {}, ["top_p is measured before the temperature",
                           "top_p is measured before min_p"]),
        ("llama_cpp", {"samplers": ["top_k", "penalties"], "penalty_repeat": 1.5},
         ["penalties come after other samplers in the chain"]),
    ],
)  # fmt: skip
def test_where_distributions_differ(engine, fields, sentences):
    found = translated(engine, fields).differences
    assert len(found) == len(sentences)
    assert all(each.startswith(begin) for each, begin in zip(found, sentences, strict=True))


def test_min_p_before_llama_cpps_temperature_keeps_the_same_tokens():
    # The logits are 0, -1/4, ... -3, and the boundary ln(0.2) = -1.609 is far from all of them.
    logits = -0.25 * np.arange(13, dtype=np.float32)[None]
    request = fairdraw.LlamaCppRequest(temp=0.5, min_p=0.2, samplers=["min_p", "temperature"])
    parameters = fairdraw.from_llama_cpp(request, 13)
    assert parameters.differences == ()
    details = fairdraw.sample(logits, **parameters.filters(), seed=1, return_details=True)
    assert details.support_size.tolist() == [7]  # 0 to -1.5


REFUSED = [
    ("vllm", "n is 2; allowed: 1 where temperature is 0", {"temperature": 0, "n": 2}),
    ("vllm", "n is 0; allowed: 1 to 16384", {"n": 0}),
    ("vllm", "n is 16385", {"n": 16385}),
    *(("vllm", "temperature is", {"temperature": bad}) for bad in (-0.1, 2.1, NAN, INF, -INF)),
    *(("vllm", "top_p is", {"top_p": bad}) for bad in (0.0, -0.1, 1.1, NAN)),
    *(("vllm", "min_p is", {"min_p": bad}) for bad in (-0.1, 1.1, NAN)),
    ("vllm", "top_k is -2; allowed: >= -1", {"top_k": -2}),
    *((engine, f"{name} is", {name: bad})
      for engine in ("vllm", "sglang", "max")
      for name in ("presence_penalty", "frequency_penalty")
      for bad in (-2.1, 2.1, NAN, INF)),
    *(("vllm", "repetition_penalty is", {"repetition_penalty": bad})
      for bad in (0.0, -1.0, NAN, INF, 1e300, 1e-300)),
    ("vllm", "max_tokens is 0", {"max_tokens": 0}),
    ("vllm", "min_tokens is -1", {"min_tokens": -1}),
    ("vllm", "min_tokens is 17; allowed: 0 to max_tokens (16)", {"min_tokens": 17}),
    ("vllm", "logprobs is -2", {"logprobs": -2}),
    ("vllm", "stop_token_ids[1] is 1000; allowed: 0 to 999", {"stop_token_ids": [1, 1000]}),
    ("vllm", "logit_bias[0] is nan", {"logit_bias": {1: NAN}}),
    ("vllm", "logit_bias[0] is -1;", {"logit_bias": {-1: 0.0}}),
    ("vllm", "allowed_token_ids is empty", {"allowed_token_ids": []}),
    ("vllm", "allowed_token_ids[0] is -1", {"allowed_token_ids": [-1]}),
    ("vllm", "bad_words[1] is empty", {"bad_words": [[1], []]}),
    ("vllm", "bad_words[0][1] is 1000", {"bad_words": [[1, 1000]]}),
    ("sglang", "top_k is 0; allowed: -1, or >= 1", {"top_k": 0}),
    *(("sglang", "temperature is", {"temperature": bad}) for bad in (-1e-9, NAN, INF)),
    ("sglang", "temperature is", {"temperature": 1e30}),  # above the limit 2^64
    ("sglang", "top_p is 0", {"top_p": 0}),
    ("sglang", "min_p is", {"min_p": -0.5}),
    ("sglang", "repetition_penalty is 2.5; allowed: above 0, up to 2", {"repetition_penalty": 2.5}),
    ("sglang", "repetition_penalty is 0", {"repetition_penalty": 0}),
    ("sglang", "frequency_penalty is 3", {"frequency_penalty": 3}),
    ("sglang", "presence_penalty is -3", {"presence_penalty": -3}),
    ("sglang", "min_new_tokens is 129; allowed: 0 to max_new_tokens (128)",
     {"min_new_tokens": 129}),
    ("sglang", "max_new_tokens is -1", {"max_new_tokens": -1}),
    ("sglang", "n is 0", {"n": 0}),
    ("sglang", "logit_bias[0] is 1000", {"logit_bias": {1000: 1.0}}),
    ("sglang", "logit_bias[0] is 1e+30", {"logit_bias": {1: 1e30}}),
    ("tensorrt_llm", "best_of is 2; allowed: 1 for a greedy request", {"best_of": 2}),
    ("tensorrt_llm", "best_of is 3", {"n": 3}),
    ("tensorrt_llm", "best_of is 1025; allowed: 1 to 1024",
     {"use_beam_search": True, "best_of": 1025}),
    ("tensorrt_llm", "best_of is 4; allowed: n to", {"use_beam_search": True, "best_of": 4, "n": 5}),
    ("tensorrt_llm", "length_penalty is -1",
     {"use_beam_search": True, "best_of": 4, "length_penalty": -1}),
    ("tensorrt_llm", "early_stopping is -1",
     {"use_beam_search": True, "best_of": 4, "early_stopping": -1}),
    ("tensorrt_llm", "temperature is -1", {"temperature": -1}),
    ("tensorrt_llm", "temperature is nan", {"temperature": NAN}),
    ("tensorrt_llm", "temperature is 0 as float32", {"temperature": 1e-60}),
    ("tensorrt_llm", "top_k is -1; allowed: >= 0", {"top_k": -1}),
    ("tensorrt_llm", "top_p is 1.5", {"top_p": 1.5}),
    ("tensorrt_llm", "min_p is -1", {"min_p": -1}),
    ("tensorrt_llm", "repetition_penalty is 0", {"repetition_penalty": 0}),
    ("tensorrt_llm", "frequency_penalty is inf", {"frequency_penalty": INF}),
    ("tensorrt_llm", "presence_penalty is nan", {"presence_penalty": NAN}),
    ("tensorrt_llm", "min_tokens is 33", {"min_tokens": 33}),
    ("tensorrt_llm", "stop_words[0] is empty", {"stop_words": [[]]}),
    ("hugging_face", "max_length is 20; allowed: above prompt_tokens (20)", {"prompt_tokens": 20}),
    ("hugging_face", "max_new_tokens is 0", {"max_new_tokens": 0}),
    ("hugging_face", "min_new_tokens is 30", {"min_new_tokens": 30}),
    ("hugging_face", "num_return_sequences is 5; allowed: 1 to num_beams (4)",
     {"num_beams": 4, "num_return_sequences": 5}),
    ("hugging_face", "num_return_sequences is 2", {"num_return_sequences": 2}),
    ("hugging_face", "num_beams is 0", {"num_beams": 0}),
    *(("hugging_face", f"{name} is {bad}", {"do_sample": True, name: bad})
      for name, bad in (("temperature", 0), ("top_k", -1), ("top_p", 1.5), ("min_p", 2))),
    ("hugging_face", "repetition_penalty is -1", {"repetition_penalty": -1}),
    ("hugging_face", "eos_token_id[0] is -1", {"eos_token_id": [-1]}),
    ("hugging_face", "typical_p is 0", {"do_sample": True, "typical_p": 0}),
    ("llama_cpp", "typ_p is nan", {"typ_p": NAN}),
    ("llama_cpp", "mirostat is 3; allowed: 0 to 2", {"mirostat": 3}),
    ("llama_cpp", "dynatemp_range is nan", {"dynatemp_range": NAN}),
    ("llama_cpp", "dynatemp_exponent is -1", {"dynatemp_exponent": -1}),
    ("llama_cpp", "mirostat_tau is nan", {"mirostat": 2, "mirostat_tau": NAN}),
    ("llama_cpp", "adaptive_target is 1.5; allowed: at most 1", {"adaptive_target": 1.5}),
    ("llama_cpp", "adaptive_target is nan", {"adaptive_target": NAN}),
    ("llama_cpp", "adaptive_decay is nan", {"adaptive_decay": NAN}),
    ("llama_cpp", "top_n_sigma is nan", {"top_n_sigma": NAN}),
    ("llama_cpp", "xtc_probability is 1.5", {"xtc_probability": 1.5}),
    ("llama_cpp", "dry_multiplier is -1", {"dry_multiplier": -1}),
    ("llama_cpp", "dry_allowed_length is 0", {"dry_multiplier": 1, "dry_allowed_length": 0}),
    ("llama_cpp", "dry_penalty_last_n is -2", {"dry_penalty_last_n": -2}),
    ("llama_cpp", "dry_breakers[0] is -1", {"dry_breakers": [-1]}),
    ("hugging_face", "top_h is 1.5", {"do_sample": True, "top_h": 1.5}),
    ("vllm", "thinking_token_budget is -1", {"thinking_token_budget": -1}),
    ("vllm", "think_end_token_ids is empty",
     {"thinking_token_budget": 5, "think_start_token_ids": [1]}),
    ("tensorrt_llm", "no_repeat_ngram_size is 0; allowed: >= 1", {"no_repeat_ngram_size": 0}),
    ("tensorrt_llm", "top_p_decay is 0; allowed: above 0, up to 1", {"top_p_decay": 0}),
    ("tensorrt_llm", "top_p_min is 1.5; allowed: 0 to 1", {"top_p_min": 1.5}),
    ("tensorrt_llm", "top_p_reset_ids is -1; allowed: 0 to", {"top_p_reset_ids": -1}),
    ("max", "temperature is 2.5; allowed: 0 to 2", {"temperature": 2.5}),
    ("max", "temperature is nan", {"temperature": NAN}),
    ("max", "top_k is -2", {"top_k": -2}),
    ("max", "top_p is -1", {"top_p": -1}),
    ("max", "min_p is 2", {"min_p": 2}),
    ("max", "repetition_penalty is inf", {"repetition_penalty": INF}),
    *(("llama_cpp", f"{name} is nan", {name: NAN}) for name in ("temp", "top_p", "min_p")),
    ("llama_cpp", "penalty_last_n is -2", {"penalty_last_n": -2}),
    ("llama_cpp", "repetition_penalty is 0", {"penalty_repeat": 0}),
    ("llama_cpp", "frequency_penalty is nan", {"penalty_freq": NAN}),
    ("llama_cpp", "n_predict is -2", {"n_predict": -2}),
    ("llama_cpp", "samplers[1] is 'top_k'; allowed: each sampler once",
     {"samplers": ["top_k", "top_k"]}),
    ("llama_cpp", "samplers[0] is 9", {"samplers": [9]}),
]  # fmt: skip

NOT_HERE = [
    ("tensorrt_llm", "beam_search_diversity_rate is 0.5", {"beam_search_diversity_rate": 0.5}),
    (
        "tensorrt_llm",
        "top_p_decay is 0.5; allowed: 1 with beam search",
        {"use_beam_search": True, "top_p_decay": 0.5},
    ),
    ("tensorrt_llm", "top_p_min is 0; allowed: above 0", {"top_p_decay": 0.5, "top_p_min": 0}),
    ("hugging_face", "do_sample is true", {"num_beams": 2, "do_sample": True}),
    ("hugging_face", "num_beam_groups is 2", {"num_beam_groups": 2}),
    ("hugging_face", "diversity_penalty is 1", {"diversity_penalty": 1}),
    ("max", "thinking_temperature is set", {"thinking_temperature": 1}),
    ("llama_cpp", "min_keep is 2", {"min_keep": 2}),
    (
        "llama_cpp",
        "dynatemp_range is 0.5; allowed: <= 0 where temp",
        {"dynatemp_range": 0.5, "temp": 0},
    ),
    (
        "llama_cpp",
        "dynatemp_range is 0.5; allowed: <= 0 with adaptive_p",
        {"dynatemp_range": 0.5, "adaptive_target": 0.3, "samplers": ["temperature", "adaptive_p"]},
    ),
]


@pytest.mark.parametrize(
    "error, engine, message, fields",
    [(ValueError, *row) for row in REFUSED] + [(RuntimeError, *row) for row in NOT_HERE],
)
def test_what_is_refused(error, engine, message, fields):
    with pytest.raises(error, match=f"^{re.escape(message)}") as refusal:
        translated(engine, fields)
    assert "; allowed: " in str(refusal.value)


@pytest.mark.parametrize("vocab", [0, 2**20 + 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_vocabulary_out_of_its_range(engine, vocab):
    kind, translate = ENGINES[engine]
    with pytest.raises(ValueError, match=f"vocab is {vocab}; allowed: 1 to {2**20}"):
        translate(kind(), vocab)


#: All parameters of a batch's request, each with another value than its default.
ALL_SET = {
    "temperature": 0.5, "top_k": 7, "top_p": 0.25, "min_p": 0.125, "seed": 99,
    "repetition_penalty": 1.5, "repetition_of_prompt": False, "frequency_penalty": 2.0,
    "presence_penalty": -1.0, "logit_bias": {4: 0.5, 5: -3.0}, "bad_words": [[1, 2], [3]],
    "allowed_ids": [1, 2, 3], "min_tokens": 5, "stop_ids": [8],
}  # fmt: skip


def parameters_of(**changes):
    return fairdraw.RequestParameters(**{**ALL_SET, **changes})


def test_a_batchs_request_takes_every_parameter():
    made = parameters_of().batch_request([10, -1, 11], eos_id=9)
    assert made == fairdraw.BatchRequest(
        temperature=0.5, top_k=7, top_p=0.25, min_p=0.125, seed=99, repetition_penalty=1.5,
        repetition_of_prompt=False, frequency_penalty=2.0, presence_penalty=-1.0,
        bias={4: 0.5, 5: -3.0}, bad_words=((1, 2), (3,)), allowed_ids=(1, 2, 3), min_tokens=5,
        stop_ids=(8, 9), prompt=(10, -1, 11),
    )  # fmt: skip
    fairdraw.BatchState(vocab=100, capacity=2, max_length=16).add(1, made)
    assert parameters_of(ignore_eos=True).batch_request(eos_id=9).stop_ids == (8,)


@pytest.mark.parametrize("rule", ["threefry", "seed_plus_index"])
def test_seeds_of_children_and_of_requests_that_have_none(rule):
    for seed, parent in ((99, 99), (None, 1234), (0, 0), (2**64 - 1, 2**64 - 1)):
        parameters = parameters_of(child_seed_rule=rule, seed=seed)
        expected = fairdraw.child_seeds(np.array([parent], np.uint64), 4, rule)[0].tolist()
        made = [parameters.batch_request(fresh_seed=1234, child=i).seed for i in range(4)]
        assert made == expected


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_requests_without_a_seed_have_fresh_ones(engine):
    kind, translate = ENGINES[engine]
    fields = {"hugging_face": {"do_sample": True}, "tensorrt_llm": {"top_k": 40}}.get(engine, {})
    parameters = translate(kind(**fields), 1000)
    assert not parameters.greedy and parameters.seed is None
    # Among 1000 random values out of 2^64, two are equal with probability 3e-14.
    of_state = {name: getattr(parameters, name) for name in OF_STATE}
    assert len({parameters.batch_request(**of_state).seed for _ in range(1000)}) == 1000


def test_tensorrt_llms_nucleus_is_the_engines_own():
    # Half of the mass is in token 0, which is not more than top_p, so that the engine keeps a
    # second token.
    logits = np.log(np.array([[0.5, 0.25, 0.25]], np.float32))
    parameters = fairdraw.from_tensorrt_llm(fairdraw.TensorRtLlmRequest(top_p=0.5), 3)
    details = fairdraw.sample(logits, **parameters.filters(), seed=1, return_details=True)
    assert details.support_size.tolist() == [1]  # the weights of 0.5 and 0.25 are exact in the draw
    assert "exactly top_p" in parameters.differences[0]


OF_STATE = {"tie_rule": "lowest_id", "filter_apply_order": "joint"}


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"tie_rule": "lowest_id"}, "tie_rule is lowest_id; allowed: keep_all, the batch state's"),
        ({"filter_apply_order": "joint"},
         "filter_apply_order is joint; allowed: top_k_first, the batch state's"),
    ],
)  # fmt: skip
def test_what_a_state_cannot_do(changes, message):
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}$"):
        parameters_of(**changes).batch_request()


def test_filters_before_the_temperature():
    sampled = {
        "do_sample": True,
        "top_k": 0,
        "typical_p": 0.5,
        "epsilon_cutoff": 1,
        "eta_cutoff": 0.25,
    }
    off = {"typical_p": 2, "epsilon_cutoff": -1, "eta_cutoff": INF, "no_repeat_ngram_size": -1}
    found = fairdraw.from_hugging_face(fairdraw.HuggingFaceRequest(**{**sampled, **off}), 100)
    plain = fairdraw.HuggingFaceRequest(do_sample=True, top_k=0)
    assert found == fairdraw.from_hugging_face(plain, 100)
    found = fairdraw.from_hugging_face(fairdraw.HuggingFaceRequest(**sampled), 100)
    assert (found.typical_p, found.epsilon_cutoff, found.eta_cutoff) == (0.5, 0, 0.25)
    assert found.differences == ()
    made = found.batch_request()
    assert (made.typical_p, made.epsilon_cutoff, made.eta_cutoff) == (0.5, 0, 0.25)
    with pytest.raises(RuntimeError, match="typical_p is 0.5; allowed: 1 without processing"):
        found.filters()
    warm = fairdraw.from_hugging_face(fairdraw.HuggingFaceRequest(**sampled, temperature=2), 100)
    assert [each.split()[3] for each in warm.differences] == ["typical_p", "eta_cutoff"]
    greedy = fairdraw.from_hugging_face(fairdraw.HuggingFaceRequest(typical_p=0.5), 100)
    assert greedy.greedy and greedy.typical_p == 1

    chained = {"top_n_sigma": 1.5, "typ_p": 0.5, "top_p": 1, "min_p": 0, "temp": 0.5}
    found = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**chained, top_k=0), 100)
    assert (found.top_n_sigma, found.typical_p, len(found.differences)) == (1.5, 0.5, 1)
    last = fairdraw.LlamaCppRequest(**chained, samplers=["top_k", "top_n_sigma", "typ_p"])
    assert len(fairdraw.from_llama_cpp(last, 100).differences) == 3
    # The chain drops the likeliest token before the temperature decides, unless top_k has left it alone.
    for cold in ({"temp": 0}, {"top_p": 0}):
        cold = fairdraw.LlamaCppRequest(**{**chained, "top_k": 0, **cold})
        found = fairdraw.from_llama_cpp(cold, 100)
        assert (found.greedy, found.typical_p) == (True, 0.5)
    left_alone = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**chained, top_k=1), 100)
    assert (left_alone.greedy, left_alone.typical_p) == (True, 1)
    alone = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(top_n_sigma=1.5), 100)
    logits = np.array([[0, 0, 0, 4]], np.float32)  # sigma is sqrt(3), so that 4 - 1.5 sigma > 1
    details = fairdraw.sample(logits, **alone.filters(), seed=1, return_details=True)
    assert details.support_size.tolist() == [1]


def kept_by(request, logits):
    """Returns the ids that a translated request keeps, before its own filters."""
    processing = [fairdraw.RequestProcessing(
        top_n_sigma=request.top_n_sigma, typical_p=request.typical_p,
        xtc_probability=request.xtc_probability, xtc_threshold=request.xtc_threshold, xtc_seed=1,
        filter_chain=request.filter_chain, chain_temperature=request.chain_temperature,
        chain_top_k=request.chain_top_k, chain_top_p=request.chain_top_p,
        chain_min_p=request.chain_min_p,
    )]  # fmt: skip
    details = fairdraw.sample(
        np.asarray([logits], np.float32), temperature=request.temperature, seed=1,
        processing=processing, return_details=True,
    )  # fmt: skip
    return np.flatnonzero(details.probs[0]).tolist()


def test_filter_chains_keep_an_engines_order():
    default = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(), 1000, exact_order=True)
    assert default.filter_chain == ("top_k", "top_p", "min_p", "temperature")
    assert (default.temperature, default.chain_temperature) == (float32(0.8), float32(0.8))
    assert (default.chain_top_k, default.top_k, default.top_p, default.min_p) == (40, 0, 1, 0)
    assert (default.chain_top_p, default.chain_min_p) == (float32(0.95), float32(0.05))
    assert [each.split()[2] for each in default.differences] == ["exactly"]
    assert default.adjustments == ()
    with pytest.raises(RuntimeError, match="filter_chain is .*; allowed: .. without processing"):
        default.filters()
    made = default.batch_request()
    assert (made.filter_chain, made.chain_top_k, made.top_k) == (default.filter_chain, 40, 0)

    # 1/2, 1/4, 1/8, 1/8; at temperature 1/2 they are 16, 4, 1 and 1 of 22.
    logits = np.log([0.5, 0.25, 0.125, 0.125])

    def llama(samplers, **fields):
        off = {"top_k": 0, "top_p": 1, "min_p": 0, "temp": 0.5}
        request = fairdraw.LlamaCppRequest(**{**off, **fields}, samplers=samplers)
        return fairdraw.from_llama_cpp(request, 1000, exact_order=True)

    found = llama(["top_p", "temperature"], top_p=0.65)
    assert kept_by(found, logits) == [0, 1] and found.differences == ()
    assert kept_by(llama(["temperature", "top_p"], top_p=0.65), logits) == [0]
    xtc = {"xtc_probability": 1, "xtc_threshold": 0.2}
    assert kept_by(llama(["xtc", "top_k"], **xtc, top_k=1), logits) == [1]
    assert kept_by(llama(["top_k", "xtc"], **xtc, top_k=1), logits) == [0]
    # What comes after the coldest temperature sees one logit.
    cold = llama(["temperature", "xtc"], **xtc, temp=0)
    assert (cold.greedy, cold.filter_chain, kept_by(cold, logits)) == (True, (), [0])
    cold = llama(["xtc", "temperature"], **xtc, temp=0)
    assert (cold.greedy, cold.filter_chain, kept_by(cold, logits)) == (True, ("xtc",), [1])

    def hugging_face(**fields):
        request = fairdraw.HuggingFaceRequest(do_sample=True, top_k=0, **fields)
        return fairdraw.from_hugging_face(request, 1000, exact_order=True)

    # Of the first two tokens alone, the second has 1/3.
    found = hugging_face(top_p=0.6, epsilon_cutoff=0.3)
    assert found.filter_chain == ("top_p", "epsilon_cutoff") and found.differences == ()
    assert (found.top_p, found.chain_top_p) == (1, float32(0.6))
    assert kept_by(found, logits) == [0, 1]
    found = hugging_face(temperature=0.5, min_p=0.2, top_p=0.9)  # 1/16 is below 0.2
    assert found.filter_chain == ("temperature", "top_p", "min_p") and found.differences == ()
    assert kept_by(found, logits) == [0, 1]
    assert hugging_face(top_p=0).filter_chain == ()  # greedy
    assert hugging_face().filter_chain == ()


def test_a_temperature_of_llama_cpp_that_follows_the_entropy():
    def translate(exact_order=False, **fields):
        request = fairdraw.LlamaCppRequest(
            **{"temp": 1, "top_k": 0, "top_p": 1, "min_p": 0, "dynatemp_range": 0.5, **fields}
        )
        return fairdraw.from_llama_cpp(request, 1000, exact_order=exact_order)

    found = translate()
    assert (found.temperature, found.dynatemp_range, found.dynatemp_exponent) == (1, 0.5, 1)
    assert found.differences == ()
    made = found.batch_request()
    assert (made.dynatemp_range, made.dynatemp_exponent) == (0.5, 1)
    assert len(translate(top_k=40).differences) == 1
    assert len(translate(top_k=40, exact_order=True).differences) == 1  # ties alone
    assert len(translate(top_p=0.5, exact_order=True).differences) == 0
    after = translate(top_p=0.5, exact_order=True, samplers=["temperature", "top_p"])
    assert [each.split()[1] for each in after.differences] == ["come"]
    assert translate(temp=0, dynatemp_range=0).greedy
    assert translate(dynatemp_range=-1).dynatemp_range == 0
    # 1/2, 1/4, 1/8 and 1/8 have 7/8 of the entropy of four equal tokens: the temperature is 1.375.
    logits = np.log([[0.5, 0.25, 0.125, 0.125]]).astype(np.float32)
    processing = [fairdraw.RequestProcessing(dynatemp_range=0.5)]
    details = fairdraw.sample(logits, seed=1, processing=processing, return_details=True)
    weights = np.array([4.0, 2.0, 1.0, 1.0]) ** (1 / 1.375)
    assert np.abs(details.probs[0] - weights / weights.sum()).max() < 2.0**-20


def test_mirostat_of_llama_cpp():
    logits = np.log([[0.5, 0.25, 0.125, 0.125]]).astype(np.float32)
    given = fairdraw.LlamaCppRequest(mirostat=2, temp=0.5, mirostat_tau=1, top_k=1)
    found = fairdraw.from_llama_cpp(given, 1000)
    assert (found.filter_chain, found.temperature) == (("temperature", "epsilon_cutoff"), 0.5)
    assert (found.mirostat, found.mirostat_tau, found.mirostat_eta) == (2, 1, float32(0.1))
    assert (found.top_k, found.differences) == (0, ())
    with pytest.raises(RuntimeError, match="mirostat is 2; allowed: 0 in a running batch"):
        found.batch_request()
    state = fairdraw.Mirostat(found.mirostat_tau, found.mirostat_eta)
    assert (state.mu, state.epsilon_cutoff()) == (2, 0.25)
    for cutoff, kept in ((state.epsilon_cutoff(), 1), (0.18, 2)):  # 16, 4, 1 and 1 of 22
        processing = fairdraw.RequestProcessing(
            filter_chain=found.filter_chain,
            chain_temperature=found.chain_temperature,
            epsilon_cutoff=cutoff,
        )
        details = fairdraw.sample(
            logits, temperature=0.5, seed=1, processing=[processing], return_details=True
        )
        assert details.support_size.tolist() == [kept]
    state.observe(np.log(0.5))  # a surprise of 1 is tau; ln 2 in float32 is off by less than 2^-25
    assert abs(state.mu - 2) < 0.1 * 2.0**-24
    with pytest.raises(ValueError, match="logprob_filtered is 0.5; allowed: finite, at most 0"):
        state.observe(0.5)
    with pytest.raises(ValueError, match="tau is nan; allowed: a finite number"):
        fairdraw.Mirostat(tau=NAN)

    found = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(mirostat=1), 1000)
    assert found.filter_chain == ("temperature", "top_k") and len(found.differences) == 1
    # Of 1 / place^2 the exponent is 2, and k is sqrt(2^mu / (1 - 1/1000)) = sqrt(73.6) = 8.58.
    zipf = -2 * np.log(np.arange(1, 101)).astype(np.float32)
    assert fairdraw.Mirostat(mu=6.2).top_k(zipf, 1000) == 8
    with pytest.raises(ValueError, match="length of largest is 1; allowed: >= 2"):
        fairdraw.Mirostat().top_k(zipf[:1], 1000)
    assert fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(mirostat=1, temp=0), 9).greedy


def test_adaptive_p_of_llama_cpp():
    def translate(**fields):
        samplers = fields.pop("samplers", ("adaptive_p", "top_k", "temperature"))
        given = {"adaptive_target": 0.5, "temp": 0.5, "top_k": 2, "samplers": samplers, **fields}
        return fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**given), 1000)

    found = translate()
    assert found.filter_chain == ("top_k", "temperature", "adaptive_p")
    assert (found.temperature, found.chain_temperature, found.top_k) == (1, 0.5, 0)
    assert (found.adaptive_target, found.adaptive_decay) == (0.5, float32(0.9))
    assert found.adjustments == ()
    with pytest.raises(RuntimeError, match="adaptive_target is 0.5; allowed: below 0 in a running"):
        found.batch_request()

    # top_k leaves 2/3 and 1/3, and the temperature 1/2 makes 4/5 and 1/5 of them: 0.3 away both.
    logits = np.log([[0.5, 0.25, 0.125, 0.125]]).astype(np.float32)
    state = fairdraw.AdaptiveP(found.adaptive_target, decay=0.75)
    chain = {name: getattr(found, name)
             for name in ("filter_chain", "chain_top_k", "chain_temperature")}  # fmt: skip
    processing = fairdraw.RequestProcessing(**chain, adaptive_target=state.adapted_target())
    details = fairdraw.sample(
        logits, temperature=found.temperature, seed=1, processing=[processing], return_details=True
    )
    # A probability of 1/5 in float32 has an error below 2^-22, and the logits have 100/3 of it.
    assert np.abs(details.probs[0] - [0.5, 0.5, 0, 0]).max() < 2.0**-16
    before = fairdraw.log_probabilities(
        logits, np.array([0], np.int32), logprobs_mode="processed_logprobs",
        temperature=found.chain_temperature, processing=[fairdraw.RequestProcessing(**chain)],
    )  # fmt: skip
    state.observe(math.exp(before.values[0]))
    assert abs(state.mean - (0.75 * 0.5 + 0.25 * 0.8)) < 0.25 * 2.0**-21
    assert abs(state.adapted_target() - 0.425) < 2.0**-22

    assert translate(adaptive_decay=2).adaptive_decay == float32(0.99)
    assert translate(adaptive_decay=2).adjustments == ("adaptive_decay 2 is clamped to [0, 0.99]",)
    fairdraw.AdaptiveP(0.5, translate(adaptive_decay=2).adaptive_decay).observe(1)
    without = translate(samplers=("top_k", "adaptive_p"))
    assert (without.filter_chain, without.temperature) == (("top_k", "adaptive_p"), 1)
    off = (
        translate(adaptive_target=-0.5),
        translate(temp=0),
        translate(top_k=1),
        translate(samplers=("top_k", "temperature")),
        translate(mirostat=2),
    )
    for each in off:
        assert "adaptive_p" not in each.filter_chain and each.adaptive_target == -1
    assert [each.greedy for each in off] == [False, True, True, False, False]
    assert "adaptive_p" not in fairdraw.LlamaCppRequest().samplers


def test_adaptive_p_names_what_is_out_of_range():
    for message, arguments in (
        ("target is 1.5; allowed: at most 1", (1.5,)),
        ("target is nan; allowed: at most 1", (NAN,)),
        ("decay is 1.0; allowed: 0 to 0.99", (0.5, 1)),
        ("mean is 2.0; allowed: 0 to 1", (0.5, 0.9, 2)),
    ):
        with pytest.raises(ValueError, match=message):
            fairdraw.AdaptiveP(*arguments)
    with pytest.raises(ValueError, match="probability is 1.5; allowed: 0 to 1"):
        fairdraw.AdaptiveP(0.5).observe(1.5)
    off = fairdraw.AdaptiveP(-1)
    off.observe(0.5)
    assert (off.adapted_target(), off.mean) == (-1, -1)


def test_rules_of_histories_go_where_they_change_rows():
    rules = {"penalty_window": 64, "counts_of_prompt": True, "no_repeat_ngram_size": 3}
    made = parameters_of(**rules).batch_request()
    assert (made.penalty_window, made.counts_of_prompt, made.no_repeat_ngram_size) == (64, 1, 3)
    plain = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0}
    made = parameters_of(**rules, **plain).batch_request()
    assert (made.penalty_window, made.counts_of_prompt, made.no_repeat_ngram_size) == (-1, 0, 3)
    for kind, translate in (ENGINES["tensorrt_llm"], ENGINES["hugging_face"]):
        assert translate(kind(no_repeat_ngram_size=3), 1000).no_repeat_ngram_size == 3


def test_tensorrt_llms_top_p_decays():
    request = fairdraw.TensorRtLlmRequest(
        temperature=1, top_p=0.9, top_p_decay=0.5, top_p_min=0.25, top_p_reset_ids=3
    )
    made = fairdraw.from_tensorrt_llm(request, 4).batch_request()
    assert (made.top_p_decay, made.top_p_min, made.top_p_reset_id) == (0.5, 0.25, 3)
    logits = np.log([[0.4, 0.3, 0.2, 0.1]]).astype(np.float32)
    for output, kept in (([], 3), ([0], 2), ([0, 0], 1), ([0, 0, 3], 3), ([3, 0], 2)):
        rule = fairdraw.RequestProcessing(
            output=output, top_p_decay=0.5, top_p_min=0.25, top_p_reset_id=3
        )
        details = fairdraw.sample(
            logits, top_p=0.85, seed=1, processing=[rule], return_details=True
        )
        assert details.support_size.tolist() == [kept]


def test_a_budget_of_thinking():
    request = fairdraw.VllmRequest(
        thinking_token_budget=5, think_start_token_ids=[1, 2], think_end_token_ids=[3, 4]
    )
    translated = fairdraw.from_vllm(request, 1000)
    assert [each.split()[0] for each in translated.differences] == ["vLLM"]  # of several ids
    made = translated.batch_request()
    assert (made.forced_after, made.forced_delay, made.forced_tokens) == (2, 5, (3, 4))
    state = fairdraw.BatchState(vocab=1000, capacity=1, max_length=16)
    state.add(1, fairdraw.from_vllm(request, 1000).batch_request([1, 2]))
    processor = fairdraw.FusedSamplingProcessor(state)
    for _ in range(8):
        processor.step(np.eye(1, 1000, 9, dtype=np.float32) * 100)
    assert state.output(1) == [9] * 5 + [3, 4, 9]


def test_llama_cpps_dry_and_xtc():
    plain = {"top_k": 0, "top_p": 1, "min_p": 0, "temp": 1}
    dry = {"dry_multiplier": 0.5, "dry_penalty_last_n": 64, "dry_breakers": [7]}
    made = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**plain, **dry), 100)
    assert made.differences == ()
    request = made.batch_request()
    assert (request.dry_multiplier, request.dry_base, request.dry_window) == (0.5, 1.75, 64)
    assert request.dry_breakers == (7,)
    off = [{"dry_multiplier": 0}, {"dry_base": 0.5}, {"dry_penalty_last_n": 0}]
    for change in off:
        made = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**{**plain, **dry, **change}), 100)
        assert made.batch_request(fresh_seed=1) == fairdraw.from_llama_cpp(
            fairdraw.LlamaCppRequest(**plain), 100
        ).batch_request(fresh_seed=1)
    xtc = {"xtc_probability": 0.5, "xtc_threshold": 0.25, "seed": 9}
    made = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**plain, **xtc), 100)
    assert [each.split()[0] for each in made.differences] == ["llama.cpp"]  # ties alone
    request = made.batch_request()
    assert (request.xtc_probability, request.xtc_threshold) == (0.5, 0.25)
    assert request.xtc_seed == request.seed
    for change in ({"xtc_threshold": 0.6}, {"xtc_probability": 0}):
        made = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**{**plain, **xtc, **change}), 100)
        assert made.xtc_probability == 0
    for order in (["temperature", "dry"], ["xtc", "dry"], ["xtc", "typ_p"], ["xtc", "top_n_sigma"]):
        fields = {**plain, **xtc, **dry, "temp": 0.5, "typ_p": 0.5, "top_n_sigma": 1.0}
        made = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**fields, samplers=order), 100)
        assert any(each.startswith(f"{order[1]} comes after") for each in made.differences), order
    # The coldest temperature comes last, so that xtc may have excluded the largest logit; top_k 1
    # has left it alone before.
    cold = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**{**plain, **xtc, "temp": 0}), 100)
    assert (cold.greedy, cold.xtc_probability) == (True, 0.5)
    alone = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**{**plain, **xtc, "top_k": 1}), 100)
    assert (alone.greedy, alone.xtc_probability) == (True, 0)
    top_h = fairdraw.HuggingFaceRequest(do_sample=True, top_k=0, top_h=0.5)
    made = fairdraw.from_hugging_face(top_h, 100)
    assert (made.batch_request().top_h, len(made.differences)) == (0.5, 1)


def test_rules_of_the_state_and_rules_that_decide_nothing_are_taken():
    assert parameters_of(**OF_STATE).batch_request(**OF_STATE).top_k == 7
    neutral = parameters_of(
        **OF_STATE, top_k=0, repetition_penalty=1.0, frequency_penalty=0.0, presence_penalty=0.0,
        counts_of_prompt=True, penalty_window=64,
    )  # fmt: skip
    assert neutral.batch_request().top_k == 0
    with pytest.raises(ValueError, match="child is -1; allowed: >= 0"):
        parameters_of().batch_request(child=-1)
