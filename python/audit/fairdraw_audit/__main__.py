"""Runs `python -m fairdraw audit` under the name of its own package."""

import sys

from .command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
