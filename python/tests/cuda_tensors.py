"""Helps the tests on a GPU, which are skipped without torch, a GPU, or the package's CUDA part."""

import dataclasses

import pytest

import fairdraw
from fairdraw import _core

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("torch has no CUDA device", allow_module_level=True)
if _core.why_no_cuda():
    pytest.skip(f"no kernels for the GPU: {_core.why_no_cuda()}", allow_module_level=True)


def on_gpu(value):
    if isinstance(value, torch.Tensor):
        return value.cuda()
    if isinstance(value, fairdraw.LawFilters):
        fields = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return fairdraw.LawFilters(**{name: on_gpu(field) for name, field in fields})
    return value


def expect_same(here, there):
    """Expects tensors on a GPU to equal the tensors on the CPU, bit for bit."""
    if here is None:  # not asked for
        assert there is None
        return
    assert there.is_cuda and there.dtype == here.dtype
    bits = {2: torch.int16, 4: torch.int32}.get(here.element_size(), here.dtype)
    assert torch.equal(here.view(bits), there.cpu().view(bits))


def same_on_both(operation, *arguments, **named):
    """Returns an operation's result on the CPU, after comparing the result bit for bit with that of
    the GPU."""
    there = [on_gpu(a) for a in arguments], {name: on_gpu(a) for name, a in named.items()}
    want = operation(*arguments, **named)
    got = operation(*there[0], **there[1])
    several = isinstance(want, tuple)
    for here, there in zip(want if several else [want], got if several else [got], strict=True):
        expect_same(here, there)
    return want
