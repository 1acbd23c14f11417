#!/usr/bin/env python3
"""Prints rows of case_seconds.inc from the report of a run: mean seconds of a case, by check and vocabulary.

make_case_seconds.py REPORT.json > rows
"""

import json
import sys
from collections import defaultdict


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        cases = json.load(file)["cases"]
    seconds = defaultdict(list)
    for case in cases:
        if case["check"] != "global":
            seconds[case["check"], case["vocab"]].append(case["seconds"])
    for (check, vocab), times in sorted(seconds.items()):
        mean = max(sum(times) / len(times), 0.001)
        print(f'FAIRDRAW_CASE_SECONDS("{check}", {vocab}, {float(f"{mean:.2g}")!r})')


if __name__ == "__main__":
    main()
