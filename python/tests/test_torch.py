"""Tests fairdraw.torch, whose samplers are called in the ways of vLLM, transformers and
TensorRT-LLM."""

import math

import pytest

import fairdraw

torch = pytest.importorskip("torch")

import fairdraw.torch as drop_in  # noqa: E402

ROWS, VOCAB = 5, 200


def logits_of(number, rows=ROWS):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(number)) * 3


def seeded(number):
    return torch.Generator().manual_seed(number)


def vllm_mask(logits, k, p):
    """Masks logits as vLLM's apply_top_k_top_p_pytorch does, for logits without ties, in
    float64."""
    ascending, order = logits.double().sort(dim=-1)
    if k is not None:
        kth = ascending.gather(1, (VOCAB - k.long())[:, None])
        ascending = ascending.masked_fill(ascending < kth, -math.inf)
    if p is not None:
        cumulated = ascending.softmax(-1).cumsum(-1)
        dropped = cumulated <= 1 - p.double()[:, None]
        dropped[:, -1] = False
        ascending = ascending.masked_fill(dropped, -math.inf)
    return torch.full_like(ascending, -math.inf).scatter(1, order, ascending) > -math.inf


@pytest.mark.parametrize("with_k", [False, True])
@pytest.mark.parametrize("with_p", [False, True])
def test_processed_rows_are_vllms(with_k, with_p):
    # The 20 rows have different masses, and no cumulative mass is near top_p.
    for number in range(4):
        logits = logits_of(number)
        k = torch.tensor([1, 5, 50, VOCAB, 7]) if with_k else None
        p = torch.tensor([0.5, 0.9, 1.0, 0.3, 0.99]) if with_p else None
        kept = vllm_mask(logits, k, p)
        sampler = drop_in.TopKTopPSampler("processed_logits")
        tokens, processed = sampler.forward(logits, {}, k, p)
        assert torch.equal(processed, logits.masked_fill(~kept, -math.inf))
        assert tokens.dtype == torch.int64 and tokens.shape == (ROWS,)
        assert kept.gather(1, tokens[:, None]).all()
        _, logprobs = drop_in.TopKTopPSampler("processed_logprobs")(logits, {}, k, p)
        assert logprobs.dtype == torch.float32
        assert torch.equal(logprobs, processed.log_softmax(-1))
        for raw in ("raw_logits", "raw_logprobs"):
            assert drop_in.TopKTopPSampler(raw)(logits, {}, k, p)[1] is None


def test_a_generator_is_honoured_wherever_its_row_is():
    sampler = drop_in.TopKTopPSampler()
    logits = logits_of(1)
    p = torch.full((ROWS,), 0.95)

    def steps(row, neighbours):
        generator = seeded(42)
        drawn = []
        for step in range(20):
            batch = logits_of(100 + step)
            batch[row] = logits_of(step)[0]
            generators = {row: generator}
            if neighbours:
                generators[(row + 1) % ROWS] = seeded(step)
            drawn.append(int(sampler(batch, generators, None, p)[0][row]))
        return drawn

    alone = steps(0, neighbours=False)
    assert steps(3, neighbours=True) == alone == steps(1, neighbours=False)
    assert len(set(alone)) > 1
    # Two generators with the same seed give the same draws, and a generator that was used has
    # advanced.
    used = seeded(1)
    first = sampler(logits, {0: used}, None, None)[0][0]
    assert sampler(logits, {0: seeded(1)}, None, None)[0][0] == first
    flat = torch.zeros(1, VOCAB)
    assert len({int(sampler(flat, {0: used}, None, None)[0]) for _ in range(8)}) > 1


def test_rows_without_a_generator_differ_and_follow_manual_seed():
    sampler = drop_in.TopKTopPSampler()
    flat = torch.zeros(64, VOCAB)
    torch.manual_seed(5)
    first = sampler(flat, {}, None, None)[0]
    second = sampler(flat, {}, None, None)[0]
    torch.manual_seed(5)
    assert torch.equal(sampler(flat, {}, None, None)[0], first)
    assert not torch.equal(first, second)
    # 64 uniform draws from 200 ids give fewer than 20 distinct ids with a probability below C(200,
    # 19) * (19 / 200)^64 < 1e-38.
    assert len(set(first.tolist())) >= 20


def test_rows_that_fail_and_arguments_that_are_refused():
    sampler = drop_in.TopKTopPSampler()
    logits = logits_of(1)
    logits[2, 5] = math.nan
    tokens, _ = sampler(logits, {i: seeded(i) for i in range(ROWS)}, None, None)
    assert tokens[2] == -1 and (tokens[[0, 1, 3, 4]] >= 0).all()
    for mode in ("raw_logits", "processed_logits"):
        ended, _ = drop_in.TopKTopPSampler(mode, failed_token=9)(logits, {}, None, None)
        assert ended[2] == 9 and (ended >= 0).all()
    with pytest.raises(ValueError, match="failed_token is -2; allowed: -1, or an id"):
        drop_in.TopKTopPSampler(failed_token=-2)
    with pytest.raises(ValueError, match="failed_token is 200; allowed: -1 to 199"):
        drop_in.TopKTopPSampler(failed_token=200)(logits, {}, None, None)
    with pytest.raises(ValueError, match="generators has row 5; allowed: 0 to 4"):
        sampler(logits, {5: seeded(0)}, None, None)
    with pytest.raises(ValueError, match="logprobs_mode is 'raw'; allowed: 'raw_logits'"):
        drop_in.TopKTopPSampler("raw")


def tiny_model():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=64, n_embd=16, n_layer=1, n_head=2
    )
    return transformers.GPT2LMHeadModel(config).eval()


def generate(model, ids, sampler, **options):
    return model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        logits_processor=[sampler],
        max_new_tokens=8,
        eos_token_id=None,
        pad_token_id=0,
        **options,
    )[:, ids.shape[1] :]


def test_generate_draws_what_sample_draws():
    model = tiny_model()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    seeds = torch.tensor([7, 8])
    parameters = {"temperature": 0.8, "top_k": 40, "top_p": 0.9}
    sampler = drop_in.GenerationSampler(**parameters, seed=seeds)
    together = generate(model, ids, sampler, do_sample=True)
    assert torch.equal(generate(model, ids, sampler, do_sample=False), together)
    # The same generation is done in a loop by hand, without a cache.
    history = ids
    for _ in range(8):
        logits = model(history).logits[:, -1].float()
        tokens = fairdraw.sample(logits, **parameters, seed=seeds, offset=history.shape[1])
        history = torch.cat([history, tokens.to(torch.int64)[:, None]], dim=1)
    assert torch.equal(history[:, 3:], together)


def test_a_tensorrt_llm_request():
    sampler = drop_in.RequestSampler(0.7, 50, 0.9, seed=2**63 + 5)
    ids = [3, 4]
    for step in range(6):
        logits = logits_of(step, 1)
        expected = fairdraw.sample(logits, 0.7, 50, 0.9, seed=2**63 + 5, offset=len(ids))
        shaped = logits.clone()[None]  # [1, beams, vocab]
        assert sampler(1, shaped, [ids], None, None) is None
        assert shaped.shape == (1, 1, VOCAB)
        assert (shaped > -math.inf).sum() == 1
        ids.append(int(shaped.argmax()))
        assert ids[-1] == int(expected[0])
    with pytest.raises(ValueError, match="logits of request 9 has 2 rows for 2 beams"):
        sampler(9, logits_of(0, 2), [[1], [1]], None)


def sglang_requests():
    """Returns custom_params of requests in SGLang's form: one dictionary per request, which SGLang
    keeps.
    """
    filters = [
        {"temperature": 0.8},
        {"top_k": 5, "min_p": 0.01},
        {"temperature": 0.0},
        {"top_p": 0.5},
    ]
    return [
        drop_in.SglangSampler.params(seed=2**64 - 1 - row, **filters[row % 4])
        for row in range(ROWS)
    ]


def test_sglang_requests_draw_what_sample_draws():
    sampler = drop_in.SglangSampler()
    together, alone = sglang_requests(), sglang_requests()[3]
    for step in range(6):
        logits = logits_of(step)
        drawn = sampler(logits.clone(), together)
        assert drawn.shape == logits.shape and ((drawn > -math.inf).sum(-1) == 1).all()
        for row, params in enumerate(sglang_requests()):
            seed = torch.tensor([params.pop("seed") - 2**64])
            want = fairdraw.sample(logits[row : row + 1], **params, seed=seed, offset=step)
            assert int(drawn[row].argmax()) == int(want[0])
        assert torch.equal(sampler(logits[3:4].clone(), [alone])[0], drawn[3])


def test_sglang_requests_that_are_not_sampled_keep_their_logits():
    good = drop_in.SglangSampler.params(seed=1)
    bad = [None, {}, {**good, "seed": "x"}, {**good, "top_p": None}, {**good, "temperature": -1.0}]
    bad += [{**good, "top_k": -(2**70)}, {**good, "min_p": math.nan}, {**good, "top_p": 10**400}]
    logits = logits_of(1, len(bad) + 1)
    drawn = drop_in.SglangSampler()(logits.clone(), [*bad, good])
    assert torch.equal(drawn[:-1], logits[:-1])
    assert (drawn[-1] > -math.inf).sum() == 1
    empty = torch.empty(0, VOCAB)
    assert drop_in.SglangSampler()(empty, []) is empty
    with pytest.raises(ValueError, match="custom_param_list has 0 entries; 2 are needed"):
        drop_in.SglangSampler()(logits[:2])
    with pytest.raises(ValueError, match="top_p is 2; allowed: 0 to 1"):
        drop_in.SglangSampler.params(seed=1, top_p=2.0)
