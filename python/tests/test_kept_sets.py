"""Tests kept sets, and their replay by a trainer that computes in float32."""

import numpy as np
import pytest

import fairdraw


def logits_of(rows=5, vocab=700):
    return np.random.default_rng(3).normal(0, 3, (rows, vocab)).astype(np.float32)


def test_sets_are_the_survivors_and_the_tokens_those_of_sample():
    logits = logits_of()
    drawn = fairdraw.sample_with_kept_sets(logits, 0.8, 50, 0.9, seed=7)
    details = fairdraw.sample(logits, 0.8, 50, 0.9, seed=7, return_details=True)
    assert (drawn.tokens == details.tokens).all() and (drawn.statuses == 0).all()
    assert (drawn.logprobs == details.logprob_filtered).all()
    assert drawn.seed == 7 and not drawn.kept.overflow.any()
    bits = np.unpackbits(details.mask.view(np.uint8), axis=1, bitorder="little")
    for output in range(5):
        assert (drawn.kept.of(output) == bits[output].nonzero()[0]).all()
        assert drawn.tokens[output] in drawn.kept.of(output)


def test_the_layout_is_that_of_vllms_sampling_mask():
    kept = fairdraw.sample_with_kept_sets(logits_of(), top_p=0.5, seed=7).kept
    lists = kept.to_sampling_mask()  # SamplingMask(*lists)
    assert lists == (kept.token_ids.tolist(), kept.offsets.tolist())
    assert lists[1][0] == 0 and lists[1][-1] == len(lists[0])
    again = fairdraw.KeptSets.from_sampling_mask(*lists)
    assert (again.token_ids == kept.token_ids).all() and (again.offsets == kept.offsets).all()
    for wrong in ([], [0, 3], [1, len(lists[0])], [0, 5, 3, len(lists[0])]):
        with pytest.raises(ValueError, match="offsets"):
            fairdraw.KeptSets.from_sampling_mask(lists[0], wrong)


def test_a_mask_becomes_the_sets_of_its_columns():
    logits = logits_of()
    drawn = fairdraw.sample_with_kept_sets(logits, top_p=0.7, seed=7)
    mask = fairdraw.sample(logits, top_p=0.7, seed=7, return_details=True).mask
    same = fairdraw.kept_sets_of_mask(mask, 700)
    assert same.to_sampling_mask() == drawn.kept.to_sampling_mask()
    # The mask's columns 64 to 364, taken as ids of the vocabulary, for some of the outputs.
    part = fairdraw.kept_sets_of_mask(
        np.ascontiguousarray(mask[:, 2:]), 300, 64, np.array([3, 0, 9]),
        statuses=np.array([0, 5, 0], np.int32),
    )  # fmt: skip
    ids = drawn.kept.of(3)
    assert part.of(0).tolist() == ids[(ids >= 64) & (ids < 364)].tolist()
    assert part.offsets.tolist()[1:] == [len(part.of(0))] * 3
    with pytest.raises(ValueError, match="mask: 22 words per row"):
        fairdraw.kept_sets_of_mask(mask, 705)


def test_drafts_have_a_set_for_each_emitted_token():
    batch, drafts, vocab = 4, 3, 200
    logits = np.random.default_rng(8).normal(0, 2, (batch, drafts + 1, vocab)).astype(np.float32)
    ids = logits[:, :drafts].argmax(-1).astype(np.int32)  # some are accepted
    call = {"top_p": 0.6, "seed": np.arange(batch, dtype=np.uint64)}
    plain = fairdraw.accept_chain(logits, ids, **call)
    found = fairdraw.accept_chain_with_kept_sets(logits, ids, **call)
    # The parents give the same drafts in the form of a tree.
    parents = np.tile(np.array([-1, 0, 1], np.int32), (batch, 1))
    tree = fairdraw.accept_tree_with_kept_sets(logits, ids, parents=parents, **call)
    for mine, other in zip(plain, found.verified, strict=True):
        assert (mine == other).all()
    assert (tree.verified.tokens == plain.tokens).all()
    assert tree.kept.to_sampling_mask() == found.kept.to_sampling_mask()
    rows = fairdraw.sample_with_kept_sets(logits.reshape(-1, vocab), top_p=0.6, seed=1).kept
    tokens = plain.tokens.reshape(-1)
    assert (tokens >= 0).sum() > batch and (tokens < 0).any()
    for place, token in enumerate(tokens):
        expected = rows.of(place).tolist() if token >= 0 else []
        assert found.kept.of(place).tolist() == expected
        assert token < 0 or token in expected
    narrow = fairdraw.accept_chain_with_kept_sets(logits, ids, **call, room=0)
    assert (narrow.kept.overflow == (tokens >= 0)).all()


def test_a_set_without_room_is_told():
    logits = np.zeros((3, 8), np.float32)
    drawn = fairdraw.sample_with_kept_sets(logits, top_k=np.array([8, 1, 8]), seed=1, room=8)
    assert drawn.kept.overflow.tolist() == [False, True, True]
    assert drawn.kept.offsets.tolist() == [0, 8, 8, 8]
    with pytest.raises(ValueError, match="room is -1; allowed: >= 0"):
        fairdraw.sample_with_kept_sets(logits, room=-1)


def test_calls_and_requests_without_a_seed_say_which_one_they_drew():
    logits = np.zeros((1, 2**16), np.float32)
    first, second = (fairdraw.sample_with_kept_sets(logits, room=0) for _ in range(2))
    assert first.seed != second.seed
    again = fairdraw.sample(logits, seed=first.seed)
    assert (again == first.tokens).all()
    assert len({fairdraw.BatchRequest().seed for _ in range(100)}) == 100
    assert len({fairdraw.BatchRequest(temperature=0.5).seed for _ in range(100)}) == 100


torch = pytest.importorskip("torch")

import fairdraw.torch  # noqa: E402


def torch_logits(rows, vocab, dtype):
    numbers = torch.Generator().manual_seed(rows)
    return (torch.randn(rows, vocab, generator=numbers) * 3).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_replay_gives_the_samplers_log_probabilities(dtype, temperature):
    logits = torch_logits(7, 900, dtype)
    drawn = fairdraw.sample_with_kept_sets(logits, temperature, 60, 0.9, seed=3)
    replayed = fairdraw.torch.replay_logprobs(logits, drawn.tokens, drawn.kept, temperature)
    assert torch.equal(replayed, drawn.logprobs)
    # A single row, and rows in another order, give the same bits as the batch.
    for row in range(7):
        ids = drawn.kept.of(row)
        alone = fairdraw.torch.replay_logprobs(
            logits[row : row + 1],
            drawn.tokens[row : row + 1],
            fairdraw.KeptSets(ids, torch.tensor([0, len(ids)]), None),
            temperature,
        )
        assert torch.equal(alone, replayed[row : row + 1])


@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.5])
def test_gradients_are_those_of_float64(temperature):
    logits = torch_logits(6, 900, torch.float32).requires_grad_()
    drawn = fairdraw.sample_with_kept_sets(logits.detach(), temperature, 0, 0.95, seed=3)
    slopes = torch.linspace(-2, 2, 6)
    fairdraw.torch.replay_logprobs(logits, drawn.tokens, drawn.kept, temperature).backward(slopes)

    exact = logits.detach().double().requires_grad_()
    outside = torch.ones(6, 900, dtype=torch.bool)
    for row in range(6):
        outside[row, drawn.kept.of(row).long()] = False
    logprobs = (exact / np.float32(temperature)).masked_fill(outside, -torch.inf).log_softmax(-1)
    chosen = logprobs.gather(1, drawn.tokens.long()[:, None])[:, 0]
    chosen.backward(slopes.double())
    assert (logits.grad.double() - exact.grad).abs().max() < 1e-6
    assert (logits.grad[outside] == 0).all()
    assert (drawn.logprobs.double() - chosen.detach()).abs().max() < 2e-6


def test_gradients_by_finite_differences():
    logits = torch_logits(2, 40, torch.float64).float().requires_grad_()
    drawn = fairdraw.sample_with_kept_sets(logits.detach(), top_k=6, seed=3)
    fairdraw.torch.replay_logprobs(logits, drawn.tokens, drawn.kept).sum().backward()
    step = 0.03125
    for row in range(2):
        for token in drawn.kept.of(row).tolist():
            moved = [logits.detach().clone() for _ in range(2)]
            moved[0][row, token] += step
            moved[1][row, token] -= step
            up, down = (
                fairdraw.torch.replay_logprobs(each, drawn.tokens, drawn.kept)[row].double()
                for each in moved
            )
            # Central differences are off by step^2 / 6 times a third derivative, which is at most
            # 1/8 (of ln of a logistic function). Central differences are also off by 2^-22 of a
            # value near 4 over 2 steps.
            bound = step**2 / 48 + 4 * 2**-22 / step
            assert abs((up - down) / (2 * step) - logits.grad[row, token]) < bound


def test_sets_with_room_behind_them_are_replayed_and_become_a_sampling_mask():
    logits = torch_logits(4, 300, torch.float32)
    drawn = fairdraw.sample_with_kept_sets(logits, top_k=9, seed=3)
    room = torch.full((5,), -1, dtype=torch.int32)
    longer = drawn.kept._replace(token_ids=torch.cat([drawn.kept.token_ids, room]))
    assert torch.equal(fairdraw.torch.replay_logprobs(logits, drawn.tokens, longer), drawn.logprobs)
    assert longer.to_sampling_mask() == drawn.kept.to_sampling_mask()
    again = fairdraw.KeptSets.from_sampling_mask(*longer.to_sampling_mask(), device="cpu")
    for tensor, same in zip(again, drawn.kept, strict=True):
        assert tensor.dtype == same.dtype and torch.equal(tensor, same)


def test_what_cannot_be_replayed_is_named():
    logits = torch.zeros(2, 5)
    tokens = torch.tensor([1, 2])
    sets = fairdraw.KeptSets.from_sampling_mask([1, 2], [0, 2, 2])
    with pytest.raises(ValueError, match="kept: output 1 has no set"):
        fairdraw.torch.replay_logprobs(logits, tokens, sets)
    with pytest.raises(ValueError, match="an id is no token; allowed: 0 to 4"):
        wrong = fairdraw.KeptSets.from_sampling_mask([1, 5], [0, 1, 2])
        fairdraw.torch.replay_logprobs(logits, tokens, wrong)
    with pytest.raises(ValueError, match="temperature"):
        right = fairdraw.KeptSets.from_sampling_mask([1, 2], [0, 1, 2])
        fairdraw.torch.replay_logprobs(logits, tokens, right, 0.0)
    with pytest.raises(ValueError, match="kept has 1 sets"):
        one = fairdraw.KeptSets.from_sampling_mask([1], [0, 1])
        fairdraw.torch.replay_logprobs(logits, tokens, one)
    outside = fairdraw.KeptSets.from_sampling_mask([0, 2], [0, 1, 2])
    assert fairdraw.torch.replay_logprobs(logits, tokens, outside).tolist() == [-torch.inf, 0.0]
