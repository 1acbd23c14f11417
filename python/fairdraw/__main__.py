"""`python -m fairdraw`: the command line."""

import importlib.util
import os
import sys
from collections.abc import Sequence

from . import _core
from .verification import data_folder

#: Verbs that distributions of their own bring: `main` of fairdraw_VERB.__main__.
SEPARATE = ("audit", "engines", "ray")


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    verb = words[0] if words else ""
    if verb in SEPARATE:
        if importlib.util.find_spec(f"fairdraw_{verb}") is None:
            print(
                f"fairdraw: '{verb}' is a verb of the distribution fairdraw-{verb}, which is not "
                "installed",
                file=sys.stderr,
            )
            return 2
        return int(importlib.import_module(f"fairdraw_{verb}.__main__").main(words[1:]))
    # The command line looks for its captured logits there.
    os.environ["FAIRDRAW_DATA"] = str(data_folder())
    sys.stdout.flush()
    return _core.command_line(["fairdraw", *words])


if __name__ == "__main__":
    sys.exit(main())
