#!/usr/bin/env python3
"""Packs the inputs of a fuzz target into one archive, and unpacks them for libFuzzer.

    seeds.py pack FOLDER ARCHIVE     every file of FOLDER; ARCHIVE is written anew
    seeds.py unpack ARCHIVE FOLDER   adds the files to FOLDER

An archive is text that git can compare. The archive has a line for each input, in the order of their names,
with the name, a space and the bytes of the input. A byte that is not printable ASCII is written as \\HH, with
two hexadecimal digits, and so are a backslash and a space at the end; an empty input is its name alone.
replay_inputs.cpp reads this form, too.
"""

import re
import sys
from pathlib import Path


def escaped(data: bytes) -> str:
    text = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x5C else f"\\{byte:02x}" for byte in data
    )
    return text[:-1] + "\\20" if text.endswith(" ") else text


def unescaped(text: str) -> bytes:
    return re.sub(
        rb"\\([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode("ascii")
    )


def main(arguments: list[str]) -> int:
    match arguments:
        case ["pack", folder, archive]:
            files = sorted(Path(folder).iterdir())
            lines = (f"{file.name} {escaped(file.read_bytes())}".rstrip() + "\n" for file in files)
            Path(archive).write_text("".join(lines), encoding="ascii")
        case ["unpack", archive, folder]:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for line in Path(archive).read_text(encoding="ascii").splitlines():
                name, _, text = line.partition(" ")
                (Path(folder) / name).write_bytes(unescaped(text))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
