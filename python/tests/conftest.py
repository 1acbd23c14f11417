"""Makes the tests use the package of the build tree, or the installed package if there is no build
tree."""

import inspect
import re
import sys
from pathlib import Path

import pytest

import fairdraw
from fairdraw import _core

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

#: Test files that need serving; a build without serving ignores these files.
collect_ignore = []
if not _core.HAS_SERVING:
    about = "beam_search cuda_* enums hostile_arrays kept_sets outputs readme"
    about += " running_batches serving sharded speculation_verification speculative torch_cuda"
    about += " torch_operators watermark"
    collect_ignore = [path.name for word in about.split() for path in HERE.glob(f"test_{word}.py")]
    collect_ignore.append("engine_requests")


def pytest_collection_modifyitems(items):
    """Skips tests that call serving in a build without serving."""
    if _core.HAS_SERVING:
        return
    for item in items:
        names = re.findall(r"\bfairdraw\.([A-Za-z_]\w*)", inspect.getsource(item.function))
        missing = [name for name in names if not hasattr(fairdraw, name)]
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"{missing[0]} is of serving"))
