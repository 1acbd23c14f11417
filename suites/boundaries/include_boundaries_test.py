"""Tests of the include check: it must find each forbidden include in a small tree that has only this include,
and must accept each allowed include."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import include_boundaries as subject

# A small source tree with one file in each place for which a rule exists.
TREE = {
    "kernels/include/fairdraw/types.h": "",
    "kernels/include/fairdraw/sample.h": '#include "fairdraw/types.h"\n#include <cstdint>\n',
    "kernels/common/philox.h": "#include <Random123/philox.h>\n",
    "kernels/cpu/passes/passes.h": '#include "common/philox.h"\n#include <hwy/highway.h>\n',
    "kernels/cuda/device/read_value.cuh": '#include "common/philox.h"\n#include <cuda_bf16.h>\n',
    "kernels/cuda/outputs/write_rows.cu": (
        '#include "cuda/device/read_value.cuh"\n#include <cub/block/block_scan.cuh>\n'
    ),
    "kernels/include/fairdraw/sharded.h": '#include "fairdraw/sample.h"\n',
    "kernels/serving/drafts/accept_tree.cpp": '#include "cpu/passes/passes.h"\n#include "fairdraw/sharded.h"\n',
    "kernels/common/fresh_seed.cpp": '#include "fairdraw/types.h"\n',
    "kernels/serving/batch_slots.h": '#include "fairdraw/sample.h"\n',
    "harness/adapters/sharded.cpp": '#include "fairdraw/sharded.h"\n',
    "harness/contract/batch.h": "#include <stdint.h>\n",
    "harness/contract/drafts.h": '#include "batch.h"\ntypedef struct fairdraw_chain {} fairdraw_chain;\n',
    "harness/contract/sampler.h": '#include "harness/contract/batch.h"\nstruct ServingCall;\n',
    "harness/contract/serving.h": '#include "harness/contract/drafts.h"\n#include "harness/contract/sampler.h"\n',
    "suites/gate/cases/case.h": '#include "harness/run/checks/checks.h"\n',
    "suites/gate/cases/speculation_cases.cpp": '#include "harness/run/checks/speculation/chain_rows.h"\n',
    "harness/run/checks/speculation/chain_rows.h": '#include "harness/contract/serving.h"\n',
    "kernels/tests/sample/random_rows.h": '#include "reference/integer_model.h"\n',
    "kernels/tests/cuda/rows_test.cpp": (
        '#include "tests/sample/random_rows.h"\n#include "cpu/passes/passes.h"\n'
        '#include "harness/run/checks/checks.h"\n#include <cuda_runtime_api.h>\n'
    ),
    "kernels/example/sample.cpp": '#include <fairdraw/sample.h>\n#include <vector>\n',
    "reference/integer_model.h": '#include "fairdraw/types.h"\n#include <Eigen/Core>\n',
    "harness/run/evidence/record.h": "#include <string>\n",
    "harness/run/checks/checks.h": '#include "harness/run/evidence/record.h"\n#include <Random123/philox.h>\n',
    "harness/adapters/cpu.cpp": '#include "fairdraw/sample.h"\n#include "reference/integer_model.h"\n',
    "reports/json.h": '#include "harness/run/evidence/record.h"\n#include <nlohmann/json.hpp>\n',
    "suites/command/main.cpp": '#include "reports/json.h"\n#include "harness/run/checks/checks.h"\n',
    "python/bindings/module.cpp": '#include "suites/command/main.cpp"\n#include <nanobind/nanobind.h>\n',
}

# Pairs of a file and a forbidden include in it.
FORBIDDEN = [
    ("kernels/include/fairdraw/types.h", '"../../common/philox.h"'),
    ("kernels/include/fairdraw/types.h", '"common/philox.h"'),
    ("kernels/include/fairdraw/sample.h", '"types.h"'),
    ("kernels/cpu/passes/passes.h", '"../common/philox.h"'),
    ("kernels/cpu/passes/passes.h", '"tests/sample/random_rows.h"'),
    ("kernels/common/philox.h", '"cpu/passes/passes.h"'),
    ("kernels/cpu/passes/passes.h", '"cuda/device/read_value.cuh"'),
    ("kernels/cuda/device/read_value.cuh", '"cuda/outputs/write_rows.cu"'),
    ("kernels/cuda/device/read_value.cuh", '"cpu/passes/passes.h"'),
    ("kernels/cpu/passes/passes.h", '"python/bindings/module.cpp"'),
    ("kernels/tests/cuda/rows_test.cpp", '"../sample/random_rows.h"'),
    ("kernels/tests/sample/random_rows.h", '"suites/command/main.cpp"'),
    ("kernels/tests/sample/random_rows.h", '"reports/json.h"'),
    ("suites/command/main.cpp", '"tests/sample/random_rows.h"'),
    ("suites/command/main.cpp", '"python/bindings/module.cpp"'),
    ("python/bindings/module.cpp", '"common/philox.h"'),
    ("kernels/include/fairdraw/types.h", "<fmt/format.h>"),
    ("kernels/include/fairdraw/types.h", "<omp.h>"),
    ("kernels/common/philox.h", '"reference/integer_model.h"'),
    ("kernels/common/philox.h", '"harness/run/evidence/record.h"'),
    ("kernels/cpu/passes/passes.h", '"harness/run/checks/checks.h"'),
    ("kernels/cpu/passes/passes.h", '"../../reference/integer_model.h"'),
    ("kernels/cpu/passes/passes.h", '"reports/json.h"'),
    ("kernels/cpu/passes/passes.h", '"suites/command/main.cpp"'),
    ("kernels/cpu/passes/passes.h", "<reference/integer_model.h>"),
    ("kernels/include/fairdraw/types.h", '"fairdraw/sharded.h"'),
    ("kernels/cpu/passes/passes.h", '"fairdraw/sharded.h"'),
    ("kernels/cuda/outputs/write_rows.cu", '"fairdraw/sharded.h"'),
    ("kernels/common/fresh_seed.cpp", '"serving/batch_slots.h"'),
    ("kernels/tests/sample/random_rows.h", '"serving/batch_slots.h"'),
    ("harness/adapters/cpu.cpp", '"fairdraw/sharded.h"'),
    ("harness/contract/sampler.h", '"harness/contract/drafts.h"'),
    ("harness/run/checks/checks.h", '"harness/contract/serving.h"'),
    ("suites/command/main.cpp", '"harness/contract/serving.h"'),
    ("suites/gate/cases/case.h", '"harness/run/checks/speculation/chain_rows.h"'),
    ("kernels/example/sample.cpp", '"kernels/common/philox.h"'),
    ("kernels/example/sample.cpp", "<Random123/philox.h>"),
    ("reference/integer_model.h", '"kernels/common/philox.h"'),
    ("reference/integer_model.h", '"common/philox.h"'),
    ("reference/integer_model.h", '"philox.h"'),
    ("reference/integer_model.h", '"../kernels/cpu/passes.h"'),
    ("reference/integer_model.h", "<Random123/philox.h>"),
    ("reference/integer_model.h", "<curand_kernel.h>"),
    ("reference/integer_model.h", "<cuda_runtime.h>"),
    ("reference/integer_model.h", "<hwy/highway.h>"),
    ("reference/integer_model.h", '"harness/run/evidence/record.h"'),
    ("reference/integer_model.h", '"reports/json.h"'),
    ("reference/integer_model.h", '"suites/command/main.cpp"'),
    ("harness/run/evidence/record.h", '"fairdraw/types.h"'),
    ("harness/run/evidence/record.h", '"harness/run/checks/checks.h"'),
    ("harness/run/checks/checks.h", '"kernels/common/philox.h"'),
    ("harness/run/checks/checks.h", '"reports/json.h"'),
    ("harness/run/checks/checks.h", '"suites/command/main.cpp"'),
    ("harness/adapters/cpu.cpp", '"kernels/cpu/passes/passes.h"'),
    ("harness/adapters/cpu.cpp", '"cpu/passes/passes.h"'),
    ("harness/adapters/cpu.cpp", "<cuda_runtime_api.h>"),
    ("harness/adapters/cpu.cpp", '"kernels/cuda/device/read_value.cuh"'),
    ("kernels/cuda/outputs/write_rows.cu", '"harness/run/checks/checks.h"'),
    ("kernels/include/fairdraw/types.h", "<cuda_runtime_api.h>"),
    ("reports/json.h", '"harness/run/checks/checks.h"'),
    # the included path belongs to no component, because there is no such file
    ("reports/json.h", '"checks.h"'),
    ("reports/json.h", '"fairdraw/types.h"'),
    ("reports/json.h", '"reference/integer_model.h"'),
    ("reports/json.h", '"kernels/common/philox.h"'),
    ("reports/json.h", '"suites/command/main.cpp"'),
    ("suites/command/main.cpp", '"kernels/example/sample.cpp"'),
    ("suites/command/main.cpp", '"../../../outside.h"'),
]


def write_tree(root: Path, file: str = "", include: str = "") -> None:
    for path, text in TREE.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path == file:
            text = f"// a comment\n{text}#  include {include}\n"
        (root / path).write_text(text, encoding="utf-8")


class IncludeBoundaries(unittest.TestCase):
    def check(self, file: str = "", include: str = "") -> list[subject.Violation]:
        with tempfile.TemporaryDirectory() as folder:
            write_tree(Path(folder), file, include)
            return subject.violations(Path(folder))

    def test_the_allowed_arrows_are_allowed(self):
        self.assertEqual(self.check(), [])

    def test_each_forbidden_arrow_is_found_once_at_its_line(self):
        for file, include in FORBIDDEN:
            with self.subTest(file=file, include=include):
                found = self.check(file, include)
                self.assertEqual([(v.file, v.include) for v in found], [(file, include)])
                # the line after the file's own lines and a comment
                self.assertEqual(found[0].line, TREE[file].count("\n") + 2)

    def test_the_core_does_not_name_the_calls_of_serving(self):
        for file in ("harness/contract/sampler.h", "suites/gate/cases/case.h"):
            for name in ("fairdraw_chain", "fairdraw_event", "fairdraw_plugin_run_verification"):
                with self.subTest(file=file, name=name), tempfile.TemporaryDirectory() as folder:
                    write_tree(Path(folder))
                    Path(folder, file).write_text(f"\nstruct {name};\n", encoding="utf-8")
                    found = subject.violations(Path(folder))
                    self.assertEqual([(v.file, v.line, v.include) for v in found], [(file, 2, name)])

    def test_every_pair_of_parts_is_allowed_or_forbidden_as_the_table_says(self):
        header_of = {subject.part_of(p): p for p in TREE if not subject.is_serving(p)}
        for part, file in header_of.items():
            for target_part, target in header_of.items():
                if file == target:
                    continue
                with self.subTest(part=part, target=target_part):
                    allowed = target_part in subject.ALLOWED[part]
                    include = f'"{subject.spelling(target)}"'
                    self.assertEqual(self.check(file, include) == [], allowed)

    def test_every_pair_of_rooms_is_allowed_or_forbidden_as_the_table_says(self):
        for room in subject.ROOMS:
            for other in subject.ROOMS:
                allowed = room == other or other in subject.ROOMS[room]
                with self.subTest(room=room, other=other):
                    self.assertEqual(subject.is_above(f"{room}/a.h", f"{other}/b.h"), not allowed)

    def test_python_beside_the_package_uses_its_public_names_and_nothing_uses_it(self):
        lines = {
            "from fairdraw import Batch, _core": "python/engines/",
            "from fairdraw.verification import (\n    Report,\n    _captured,\n)": "python/audit/",
            "    import fairdraw._core": "python/cluster/",
            "from fairdraw_audit.plan import Settings": "python/fairdraw/",
            "import fairdraw_ray": "suites/gpu/",
        }
        allowed = "import fairdraw\nfrom fairdraw import Batch, __version__  # fine\n"
        for line, folder in lines.items():
            for text, expected in [(allowed, 0), (allowed + line + "\n", 1)]:
                with self.subTest(text=text), tempfile.TemporaryDirectory() as root:
                    file = Path(root, folder, "a.py")
                    file.parent.mkdir(parents=True)
                    file.write_text(text, encoding="utf-8")
                    found = subject.import_violations(Path(root))
                    self.assertEqual([violation.line for violation in found], [3] * expected)

    def test_exit_codes(self):
        script = Path(subject.__file__)

        def exit_code(root: str) -> int:
            command = [sys.executable, str(script), root]
            return subprocess.run(command, capture_output=True, check=False).returncode

        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(exit_code(folder), 2)  # a tree without sources must not pass
            write_tree(Path(folder))
            self.assertEqual(exit_code(folder), 0)
            write_tree(Path(folder), *FORBIDDEN[0])
            self.assertEqual(exit_code(folder), 1)


if __name__ == "__main__":
    unittest.main()
