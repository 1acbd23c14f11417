"""Tests fairdraw.torch.ShardedSampler in several processes, each of which has some columns of the
logits."""

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("torch without gloo", allow_module_level=True)

import sharded_exchange_ranks  # noqa: E402
import sharded_method_ranks  # noqa: E402
import sharded_peer_ranks  # noqa: E402
import sharded_ranks  # noqa: E402
import torch.multiprocessing  # noqa: E402

import fairdraw.torch  # noqa: E402


@pytest.mark.parametrize("ranks", [2, 4])
def test_every_rank_gets_the_tokens_of_the_whole_rows(ranks, tmp_path):
    torch.multiprocessing.spawn(sharded_ranks.run, (ranks, tmp_path), nprocs=ranks)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_methods_over_columns_are_the_functions_over_whole_rows(ranks, tmp_path):
    torch.multiprocessing.spawn(sharded_method_ranks.run, (ranks, tmp_path), nprocs=ranks)


@pytest.mark.parametrize("ranks", [1, 2])
def test_calls_on_gpus_make_the_exchanges_that_they_need(ranks, tmp_path):
    torch.multiprocessing.spawn(sharded_exchange_ranks.run, (ranks, tmp_path), nprocs=ranks)


needs_two_gpus = pytest.mark.skipif(
    torch.cuda.device_count() < 2 or not torch.distributed.is_nccl_available(),
    reason="needs two GPUs and torch with NCCL",
)


@needs_two_gpus
def test_ranks_with_a_gpu_each_get_the_tokens_of_the_whole_rows(tmp_path):
    torch.multiprocessing.spawn(sharded_ranks.run_on_gpu, (2, tmp_path), nprocs=2)


@needs_two_gpus
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
def test_ranks_exchange_blocks_through_their_own_memory(backend, tmp_path):
    torch.multiprocessing.spawn(sharded_peer_ranks.run, (2, tmp_path, backend), nprocs=2)


@pytest.mark.parametrize(
    "limits, said",
    [
        ({"rows": 0}, "rows is 0; allowed: 1 to 2147483647"),
        ({"rows": 1, "num_samples": 0}, "num_samples is 0; allowed: 1 to 2147483647"),
        ({"rows": 1, "logprobs": 129}, "logprobs is 129; allowed: 0 to 128"),
    ],
)
def test_limits_of_peers_are_checked(limits, said):
    with pytest.raises(ValueError, match=said):
        fairdraw.torch.PeerLimits(**limits)


def test_calls_beyond_the_limits_of_peers_are_named():
    limits = fairdraw.torch.PeerLimits(rows=4, num_samples=2)
    limits.expect(0, 0, 1, None)
    limits.expect(4, 4, 2, None)
    with pytest.raises(ValueError, match="logits has 5 rows; allowed: 0 to 4 through peers"):
        limits.expect(5, 5, 1, None)
    with pytest.raises(ValueError, match="indices has 5 values; allowed: 0 to 4 through peers"):
        limits.expect(4, 5, 1, None)
    with pytest.raises(ValueError, match="num_samples is 3; allowed: 1 to 2 through peers"):
        limits.expect(1, 1, 3, None)
    with pytest.raises(ValueError, match="logprobs is 0; allowed: None through peers"):
        limits.expect(1, 1, 1, 0)


def test_wrong_arguments_are_named(tmp_path):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        with pytest.raises(ValueError, match="columns has 2 entries; 1 are needed, one per rank"):
            fairdraw.torch.ShardedSampler(columns=[3, 4])
        sampler = fairdraw.torch.ShardedSampler()
        with pytest.raises(TypeError, match=r"logits: a tensor \[rows, columns\] is needed"):
            sampler([[1.0]])
        with pytest.raises(ValueError, match="offset: is given without a seed"):
            sampler(torch.zeros(1, 3), offset=1)
        with pytest.raises(ValueError, match="gather is False; allowed: True, of logits in host"):
            sampler(torch.zeros(1, 3), seed=1, gather=False)
        assert sampler(torch.zeros(2, 3), seed=1).shape == (2,)
        assert sampler.exchanges == 2 and sampler.exchanged_bytes > 0
        wide = torch.linspace(0, 1, 4000).repeat(2, 1)
        assert sampler.gathered_rows == 0
        again = fairdraw.torch.ShardedSampler()
        assert torch.equal(again(wide, top_p=0.9, seed=1), fairdraw.sample(wide, top_p=0.9, seed=1))
        # The sums above the proposals decide these rows.
        assert again.exchanges == 3 and again.gathered_rows == 0
        assert torch.equal(again(wide, top_k=999, seed=1), fairdraw.sample(wide, top_k=999, seed=1))
        assert again.exchanges == 2 and again.gathered_rows == 2
        with pytest.raises(ValueError, match="logits.vocab is 4; allowed: 3"):
            sampler(torch.zeros(2, 4), seed=1)
        for method in ("softmax", "log_softmax", "top_k_mask_logits"):
            with pytest.raises(TypeError, match=r"logits: a tensor \[..., columns\] is needed"):
                getattr(sampler, method)([[1.0]], *([1] if "top_k" in method else []))
        with pytest.raises(ValueError, match="input is 'weights'; allowed: 'logits', 'probs'"):
            sampler(torch.zeros(2, 3), input="weights", seed=1)
        with pytest.raises(ValueError, match="columns: are not given; with peers they are needed"):
            fairdraw.torch.ShardedSampler(peers=fairdraw.torch.PeerLimits(rows=1))
        with pytest.raises(ValueError, match="processing has 0 entries; 2 are needed, one per row"):
            sampler(torch.zeros(2, 3), processing=[], seed=1)
    finally:
        torch.distributed.destroy_process_group()
