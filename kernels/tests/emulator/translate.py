"""Makes a copy of the source tree in which g++ compiles the CUDA part, for the emulator.

    translate.py ROOT DESTINATION

The script copies every file that git knows. In CUDA sources, inline PTX becomes calls of functions of
emulator.h, variables in shared memory become variables of the emulated block, and x.cu becomes x.cu.cpp.
CMake files get the new file names, and emulated_cuda.cmake replaces cmake/cuda.cmake. A file is written only
if its contents change, so that builds are incremental. PTX that the script does not know is an error.
"""

import re
import subprocess
import sys
from pathlib import Path

SOURCES = {".cu", ".cuh", ".h", ".cpp"}
DEVICE_ROOMS = ("kernels/cuda/", "kernels/tests/cuda/", "suites/benchmarks/")


def closing(text: str, begin: int) -> int:
    """Returns the position after the bracket that closes the bracket opened before `begin`."""
    depth, place, quoted = 1, begin, False
    while depth:
        letter = text[place]
        if letter == '"' and text[place - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(letter, 0)
        place += 1
    return place


def operands(text: str) -> list[str]:
    """Returns the expressions in a list of operands, "constraint"(expression), ..."""
    found, place = [], 0
    while match := re.compile(r'[\s,]*"[^"]*"\s*\(').match(text, place):
        place = closing(text, match.end())
        found.append(text[match.end() : place - 1])
    return found


def split_at_colons(text: str) -> list[str]:
    """Splits the text into outputs, inputs and clobbers; `::` counts as two colons unless an identifier
    follows."""
    text = re.sub(r"::(?=\s*\w)", "\0", text)
    parts, depth, begin, quoted = [], 0, 0, False
    for place, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif not quoted:
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == ":" and depth == 0:
                parts.append(text[begin:place])
                begin = place + 1
    parts.append(text[begin:])
    return [part.replace("\0", "::") for part in parts]


def statement(body: str, where: str) -> str:
    """Returns the text that replaces asm(body);"""
    literal = re.match(r'\s*(?:"(?:[^"\\]|\\.)*"\s*)+', body)
    assert literal is not None, where
    ptx = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literal.group(0)))
    parts = split_at_colons(body[literal.end() :]) + ["", "", ""]
    out, given = operands(parts[1]), operands(parts[2])
    call = "::fairdraw::emulator::"
    if "griddepcontrol" in ptx or "prefetch" in ptx or ptx.startswith("fence."):
        # No code is needed: launches follow one another, memory is near, and writes are visible at once.
        return ";"
    if "barrier.cluster" in ptx:
        arrive = f"{call}arrive_at_cluster();" if "arrive" in ptx else ""
        wait = f"{call}wait_for_cluster();" if "wait" in ptx else ""
        return f"{{ {arrive} {wait} }}"
    if numbered := re.search(r"barrier\.(sync|red\.or\.pred q,) (\d+), %", ptx):
        barrier = numbered.group(2)
        if numbered.group(1) == "sync":
            return f"{call}meet_at({barrier}, {given[0]}, 0);"
        return f"{out[0]} = {call}any_at({barrier}, {given[1]}, ({given[0]}) != 0);"
    if ptx.startswith("mapa"):
        mine = f"const_cast<void*>(static_cast<const void*>({given[0]}))"
        return (
            f"{out[0]} = static_cast<decltype({out[0]})>({call}shared_of_block({mine}, {given[1]}));"
        )
    if ptx.startswith(("cp.async.cg.shared.global", "cp.async.ca.shared.global")):
        size = re.search(r", (\d+);", ptx)
        assert size is not None, where
        return (
            f"{call}copy_later(reinterpret_cast<void*>({given[0]}), {given[1]}, {size.group(1)});"
        )
    if ptx.startswith("cp.async.commit_group"):
        return f"{call}commit_copies();"
    if ptx.startswith("cp.async.wait_group"):
        return f"{call}await_copies({given[0]});"
    if ptx.startswith("cp.async.wait_all"):
        return f"{{ {call}commit_copies(); {call}await_copies(0); }}"
    if "@p st.shared.u32" in ptx:
        return f"if (({given[2]}) != 0) *reinterpret_cast<std::uint32_t*>({given[0]}) = {given[1]};"
    if "cvta.to.shared" in ptx:
        return f"{out[0]} = reinterpret_cast<std::uintptr_t>({given[0]});"
    if ptx.startswith("ex2.approx"):
        return f"{out[0]} = std::exp2({given[0]});"
    if ptx.startswith("max.NaN.f32"):
        return f"{out[0]} = {call}max_nan({given[0]}, {given[1]});"
    if ptx.startswith("shr.u64"):
        return f"{out[0]} = {call}shift_right({given[0]}, {given[1]});"
    if re.match(r"ld\.global\S*\.v[24]\.u32", ptx):
        words = "const std::uint32_t* words = reinterpret_cast<const std::uint32_t*>"
        loads = " ".join(f"{to} = words[{i}];" for i, to in enumerate(out))
        return f"{{ {words}({given[0]}); {loads} }}"
    if ptx.startswith("ld.global.nc.b8"):
        return f"{out[0]} = *reinterpret_cast<const std::uint8_t*>({given[0]});"
    if ptx.startswith("st.release.sys.global.u64"):
        return f"__atomic_store_n({given[0]}, {given[1]}, __ATOMIC_RELEASE);"
    if ptx.startswith("ld.acquire.sys.global.u64"):
        return f"{out[0]} = __atomic_load_n({given[0]}, __ATOMIC_ACQUIRE);"
    raise SystemExit(f"{where}: PTX that the emulator does not know: {ptx}")


def without_asm(text: str, where: str) -> str:
    result, place = "", 0
    for match in re.finditer(r"\basm\s*(?:volatile)?\s*\(", text):
        end = closing(text, match.end())
        result += text[place : match.start()] + statement(text[match.end() : end - 1], where)
        place = text.index(";", end) + 1
    return result + text[place:]


def shared_variable(match: re.Match[str]) -> str:
    alignment, kind, name, extent = match.groups()
    extra = f", alignof({alignment})" if alignment else ""
    emulated = f"::fairdraw::emulator::shared<{kind}{extent or ''}>(__FILE__, __LINE__{extra})"
    return f"auto& {name} = {emulated};"


def translate(text: str, where: str) -> str:
    text = without_asm(text, where)
    text = re.sub(
        r"extern __shared__ (?:__align__\(\d+\) )?([\w: ]+?) (\w+)\[\];",
        r"auto* \2 = reinterpret_cast<\1*>(::fairdraw::emulator::dynamic_shared());",
        text,
    )
    text = re.sub(
        r"__shared__ (?:alignas\((\w+)\) )?([\w:<>, ]+?) (\w+)(\[[^;]*\])?;", shared_variable, text
    )
    # On a GPU, addresses of shared memory have 32 bits; in the emulator they are pointers.
    text = re.sub(
        r"static_cast<(?:unsigned|std::uint32_t)>\((\s*)__cvta_generic_to_shared", r"(\1__cvta_generic_to_shared", text
    )
    text = re.sub(r"\bunsigned (\w+)\(const void\* shared\)", r"std::uintptr_t \1(const void* shared)", text)
    text = re.sub(
        r"\bunsigned (\w+) = 0;(?=\s*\1 = reinterpret_cast<std::uintptr_t>)", r"std::uintptr_t \1 = 0;", text
    )
    text = re.sub(r"__CUDA_ARCH__ >= \d+", "1", text)
    # A name after a dot stays, because members of a launch's configuration have these names too.
    text = re.sub(r"(?<![.\w])blockDim\b", "::fairdraw::emulator::block_size()", text)
    return re.sub(r"(?<![.\w])gridDim\b", "::fairdraw::emulator::grid_size()", text)


def main() -> None:
    root, destination = Path(sys.argv[1]), Path(sys.argv[2])
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        check=True,
        capture_output=True,
    ).stdout.decode()
    written = set()
    for name in filter(None, listed.split("\0")):
        source = root / name
        if not source.is_file():
            continue
        content = source.read_bytes()
        target = name
        if name == "cmake/cuda.cmake":
            content = (root / "kernels/tests/emulator/emulated_cuda.cmake").read_bytes()
        elif source.name == "CMakeLists.txt":
            content = re.sub(rb"\.cu\b", b".cu.cpp", content)
        elif name.startswith(DEVICE_ROOMS) and source.suffix in SOURCES:
            content = translate(content.decode(), name).encode()
            target += ".cpp" if source.suffix == ".cu" else ""
        written.add(target)
        to = destination / target
        if not to.is_file() or to.read_bytes() != content:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(content)
            to.chmod(source.stat().st_mode)
    for old in destination.rglob("*"):
        if old.is_file() and str(old.relative_to(destination)) not in written:
            old.unlink()


main()
