"""Runs `python -m fairdraw`, the command line."""

import importlib.util
import os
import sys
from collections.abc import Sequence

from . import _core
from .verification import data_folder

#: Maps each verb that a separate distribution adds (`main` of fairdraw_VERB.__main__) to a
#: description of the verb.
SEPARATE = {
    "audit": "Judge a served model over HTTP, without its logits",
    "engines": "Judge samplers of other engines by their own definitions",
    "ray": "Run the gate on a Ray cluster",
}

#: Source folders whose names differ from their verbs.
FOLDERS = {"ray": "cluster"}


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    verb = words[0] if words else ""
    if verb in SEPARATE:
        if importlib.util.find_spec(f"fairdraw_{verb}") is None:
            print(
                f"fairdraw: '{verb}' is a verb of the distribution fairdraw-{verb}, which is not "
                f"installed: python/{FOLDERS.get(verb, verb)} of the repository has it",
                file=sys.stderr,
            )
            return 2
        return int(importlib.import_module(f"fairdraw_{verb}.__main__").main(words[1:]))
    # The command line looks in this folder for captured logits.
    os.environ["FAIRDRAW_DATA"] = str(data_folder())
    sys.stdout.flush()
    code = _core.command_line(["fairdraw", *words])
    if verb in ("--help", "-h"):
        print("\nOf distributions of their own (python -m fairdraw VERB):", flush=True)
        for name, what in SEPARATE.items():
            print(f"  {name:9} {what}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
