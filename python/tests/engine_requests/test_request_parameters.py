"""Tests the requests of engines: the types of their fields, refused values, and translations."""

import numpy as np
import pytest

import fairdraw

VOCAB = 100

ENGINES = {
    "vllm": (fairdraw.VllmRequest, fairdraw.from_vllm),
    "sglang": (fairdraw.SglangRequest, fairdraw.from_sglang),
    "tensorrt_llm": (fairdraw.TensorRtLlmRequest, fairdraw.from_tensorrt_llm),
    "hugging_face": (fairdraw.HuggingFaceRequest, fairdraw.from_hugging_face),
    "max": (fairdraw.MaxRequest, fairdraw.from_max),
    "llama_cpp": (fairdraw.LlamaCppRequest, fairdraw.from_llama_cpp),
}


def float32(value):
    return float(np.float32(value))


def test_vllm():
    found = fairdraw.from_vllm(
        fairdraw.VllmRequest(
            n=3, temperature=0.7, top_k=-1, top_p=0.9, min_p=0.05, seed=2**63 - 1,
            stop_token_ids=[5, 6], max_tokens=None, min_tokens=2, logprobs=-1,
            logit_bias={3: 150.0, 4: -1.0}, allowed_token_ids=np.arange(50),
            bad_words=[[1, 2], (3,)], repetition_penalty=1.2, frequency_penalty=-0.5,
        ),
        VOCAB,
    )  # fmt: skip
    assert found == fairdraw.RequestParameters(
        temperature=float32(0.7), top_p=float32(0.9), min_p=float32(0.05), seed=2**63 - 1,
        child_seed_rule="seed_plus_index", repetition_penalty=float32(1.2),
        frequency_penalty=-0.5, logit_bias={3: 100.0, 4: -1.0}, bad_words=((1, 2), (3,)),
        allowed_ids=tuple(range(50)), n=3, best_of=3, min_tokens=2, stop_ids=(5, 6), logprobs=-1,
        adjustments=("logit_bias 150 is clamped to [-100, 100]",),
    )  # fmt: skip
    greedy = fairdraw.from_vllm(fairdraw.VllmRequest(temperature=0.0, top_k=5, seed=-1), VOCAB)
    assert greedy.greedy and greedy.temperature == 0 and greedy.top_k == 0 and greedy.seed is None
    raised = fairdraw.from_vllm(fairdraw.VllmRequest(temperature=0.005), VOCAB)
    assert raised.temperature == float32(0.01) and len(raised.adjustments) == 1


def test_the_other_engines():
    trt = fairdraw.from_tensorrt_llm
    assert trt(fairdraw.TensorRtLlmRequest(), VOCAB).greedy  # all unset
    sampled = trt(fairdraw.TensorRtLlmRequest(top_p=0.9), VOCAB)
    assert not sampled.greedy and sampled.seed is None and sampled.temperature == 1
    beams = trt(fairdraw.TensorRtLlmRequest(use_beam_search=True, n=4), VOCAB)
    assert (beams.beam_width, beams.length_penalty, beams.early_stopping) == (4, 0, 1)

    hf = fairdraw.from_hugging_face
    assert hf(fairdraw.HuggingFaceRequest(temperature=0.5), VOCAB).greedy  # no do_sample
    sampled = hf(fairdraw.HuggingFaceRequest(do_sample=True, max_new_tokens=7), VOCAB)
    assert (sampled.top_k, sampled.max_tokens) == (50, 7)
    beams = hf(fairdraw.HuggingFaceRequest(num_beams=3, early_stopping="never"), VOCAB)
    assert (beams.beam_width, beams.length_penalty, beams.early_stopping) == (3, 1, 2)
    beams = hf(fairdraw.HuggingFaceRequest(num_beams=3, early_stopping=True), VOCAB)
    assert beams.early_stopping == 1

    sglang = fairdraw.from_sglang(fairdraw.SglangRequest(top_k=-1, top_p=0.5, n=2), VOCAB)
    assert (sglang.filter_apply_order, sglang.top_k, sglang.max_tokens) == ("joint", 0, 128)
    assert fairdraw.from_max(fairdraw.MaxRequest(temperature=0.0), VOCAB).greedy
    llama = fairdraw.from_llama_cpp(
        fairdraw.LlamaCppRequest(samplers=["temperature", "top_k"], seed=3, n_predict=9), VOCAB
    )
    assert (llama.top_p, llama.min_p, llama.top_k, llama.seed) == (1, 0, 40, 3)
    assert (llama.tie_rule, llama.max_tokens, llama.differences) == ("lowest_id", 9, ())
    default = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(), VOCAB)
    assert default.seed is None and default.max_tokens is None
    assert any("top_p" in sentence for sentence in default.differences)  # it precedes temperature


def test_a_dense_bias_becomes_one_of_ids():
    def translated(bias, **fields):
        request = fairdraw.TensorRtLlmRequest(top_k=9, embedding_bias=bias, **fields)
        return fairdraw.from_tensorrt_llm(request, VOCAB)

    bias = np.zeros(VOCAB)
    bias[[3, 99]] = 1.5, -np.inf
    found = translated(bias)
    assert found.logit_bias == {3: 1.5, 99: -np.inf} and found.differences == ()
    assert dict(found.batch_request().bias) == found.logit_bias
    assert translated(bias.tolist()) == found
    assert (
        "before the repetition penalty" in translated(bias, repetition_penalty=1.5).differences[0]
    )
    nothing = translated(np.zeros(VOCAB), repetition_penalty=1.5)
    assert nothing.logit_bias == {} and nothing.differences == ()
    for value in (np.nan, np.inf, 2.0**65):
        bias[50] = value
        with pytest.raises(
            ValueError, match=r"embedding_bias\[50\] is .*; allowed: -2\^64 to 2\^64"
        ):
            translated(bias)
    with pytest.raises(ValueError, match=r"embedding_bias has shape \[99\]; \[100\] is needed"):
        translated(np.zeros(VOCAB - 1))
    with pytest.raises(TypeError, match="embedding_bias holds complex128"):
        translated(np.zeros(VOCAB, complex))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_vocabulary_out_of_range(engine):
    kind, translate = ENGINES[engine]
    with pytest.raises(ValueError, match="vocab is 0; allowed: 1 to 1048576"):
        translate(kind(), 0)


@pytest.mark.parametrize(
    "error, message, engine, fields",
    [
        (ValueError, r"temperature is 3; allowed: 0 to 2", "vllm", {"temperature": 3.0}),
        (ValueError, "n is 2; allowed: 1 where temperature is 0", "vllm", {"n": 2, "temperature": 0}),
        (ValueError, r"stop_token_ids\[1\] is 100", "vllm", {"stop_token_ids": [1, VOCAB]}),
        (ValueError, r"stop_token_ids\[0\] is 4294967296; allowed: -2147483648 to", "vllm",
         {"stop_token_ids": [2**32]}),
        (ValueError, "allowed_token_ids", "vllm", {"allowed_token_ids": []}),
        (ValueError, "top_k is 36893488147419103232; allowed: -9223372036854775808 to", "vllm",
         {"top_k": 2**65}),
        (TypeError, "top_k is 1.5; an integer is needed", "vllm", {"top_k": 1.5}),
        (TypeError, "top_k is True; an integer is needed", "vllm", {"top_k": True}),
        (TypeError, "top_k is None; an integer is needed", "vllm", {"top_k": None}),
        (TypeError, "temperature is 'hot'; a number is needed", "vllm", {"temperature": "hot"}),
        (TypeError, "ignore_eos is 1; True or False is needed", "vllm", {"ignore_eos": 1}),
        (TypeError, "stop_token_ids is 5; a sequence is needed", "vllm", {"stop_token_ids": 5}),
        (TypeError, r"bad_words\[0\] is 1; a sequence is needed", "vllm", {"bad_words": [1]}),
        (TypeError, r"logit_bias\[0\]\[3\] is None; a number", "vllm", {"logit_bias": {3: None}}),
        (ValueError, "top_k is 0", "sglang", {"top_k": 0}),
        (ValueError, "typical_p is 0", "hugging_face", {"do_sample": True, "typical_p": 0}),
        (ValueError, "early_stopping is 'no'; allowed: False, True, 'never'", "hugging_face",
         {"early_stopping": "no"}),
        (RuntimeError, "logprobs is 129; allowed: 0 to 128, or of all", "vllm", {"logprobs": 129}),
        (RuntimeError, "logprobs is 129; allowed: 0 to 128", "tensorrt_llm", {"logprobs": 129}),
        (RuntimeError, "top_p_min is 0", "tensorrt_llm", {"top_p_decay": 0.5, "top_p_min": 0}),
        (ValueError, "temperature is 2.5", "max", {"temperature": 2.5}),
        (ValueError, "mirostat is 3; allowed: 0 to 2", "llama_cpp", {"mirostat": 3}),
        (ValueError, r"samplers\[0\] is 'mirostat'; allowed: 'penalties', 'dry'", "llama_cpp",
         {"samplers": ["mirostat"]}),
        (ValueError, "seed is -1; allowed: 0 to 4294967295", "llama_cpp", {"seed": -1}),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_field(error, message, engine, fields):
    kind, translate = ENGINES[engine]
    with pytest.raises(error, match=message):
        translate(kind(**fields), VOCAB)


def test_parameters_make_requests_of_a_batch_and_calls_of_sample():
    request = fairdraw.VllmRequest(
        n=2, temperature=0.8, top_k=30, top_p=0.9, seed=41, min_tokens=3, stop_token_ids=[6],
        presence_penalty=0.5, logit_bias={7: 2.0}, bad_words=[[8, 9]],
    )  # fmt: skip
    parameters = fairdraw.from_vllm(request, VOCAB)
    made = parameters.batch_request([1, 2], eos_id=5, child=1)
    assert made == fairdraw.BatchRequest(
        temperature=float32(0.8), top_k=30, top_p=float32(0.9), presence_penalty=0.5, seed=42,
        min_tokens=3, stop_ids=(6, 5), bias={7: 2.0}, bad_words=((8, 9),), prompt=(1, 2),
    )  # fmt: skip
    state = fairdraw.BatchState(vocab=VOCAB, capacity=1, max_length=9)
    state.add(1, made)
    plain = fairdraw.from_vllm(fairdraw.VllmRequest(temperature=0.8, top_k=30, seed=41), VOCAB)
    state.remove(1)
    state.add(1, plain.batch_request())
    processor = fairdraw.FusedSamplingProcessor(state)
    logits = np.random.default_rng(1).standard_normal((1, VOCAB), np.float32) * 3
    processor.step(logits)
    assert state.output(1) == fairdraw.sample(logits, **plain.filters(), seed=plain.seed).tolist()

    # llama.cpp's penalties count the last 64 tokens, those of the prompt too.
    windowed = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(penalty_freq=0.5), VOCAB)
    made = windowed.batch_request(tie_rule="lowest_id")
    assert (made.penalty_window, made.counts_of_prompt) == (64, 1)

    unseeded = fairdraw.from_vllm(fairdraw.VllmRequest(), VOCAB)
    assert unseeded.batch_request(fresh_seed=9, child=3).seed == 12
    assert unseeded.batch_request().seed != unseeded.batch_request().seed
    greedy = fairdraw.from_hugging_face(fairdraw.HuggingFaceRequest(), VOCAB)
    assert greedy.batch_request().temperature == 0


@pytest.mark.parametrize(
    "error, message, request_of, options",
    [
        (RuntimeError, "tie_rule is lowest_id; allowed: keep_all", {}, {}),
        (ValueError, "child is -1; allowed: >= 0", {}, {"child": -1, "tie_rule": "lowest_id"}),
        (ValueError, "tie_rule is 'x'; allowed: 'keep_all', 'lowest_id'", {}, {"tie_rule": "x"}),
        (ValueError, r"prompt\[1\] is 4294967296", {}, {"prompt": [1, 2**32]}),
    ],
)  # fmt: skip
def test_what_a_state_cannot_do_is_refused(error, message, request_of, options):
    parameters = fairdraw.from_llama_cpp(fairdraw.LlamaCppRequest(**request_of), VOCAB)
    with pytest.raises(error, match=message):
        parameters.batch_request(**options)
