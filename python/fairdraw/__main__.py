"""`python -m fairdraw`: the command line."""

import os
import sys

from . import _core
from .verification import data_folder


def main() -> int:
    if sys.argv[1:2] == ["audit"]:
        # Of Python alone: it speaks HTTP.
        from .audit.command import main as audit

        return audit(sys.argv[2:])
    # The command line looks for its captured logits there.
    os.environ["FAIRDRAW_DATA"] = str(data_folder())
    sys.stdout.flush()
    return _core.command_line(["fairdraw", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
