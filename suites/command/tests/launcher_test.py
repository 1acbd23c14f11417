"""The tests require that ./fairdraw answers help, the version and unknown verbs without installing or
building anything; that it compiles CUDA only if needed; and that its builds do not depend on other programs
on PATH.

./fairdraw runs in a copy of the files that it reads, without a build folder, and with programs on PATH that
log their calls. In the class Launcher these programs fail, and its last test shows that a call that
needs a build does call them. In classes Cuda and Program they behave as the real programs do, as
far as ./fairdraw can see.

Usage: launcher_test.py FAIRDRAW_BINARY REPOSITORY
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = ROOT = None
PYTHON = "/usr/bin/python3"  # the Python interpreter with which ./fairdraw runs its scripts

# Programs that install packages, or configure or build the project.
BUILDERS = ["apt-get", "sudo", "dpkg-query", "cmake", "ninja", "g++", "c++", "nvcc", "pip", "python3"]
OWN_VERBS = ["build", "docs", "format", "lint", "test"]

# Imitates CMake. A fake cmake: when it configures, it stores FAIRDRAW_CUDA in the cache, logs its requested
# value, and writes all settings to the file "settings". When it builds, it makes a program that prints its
# verb.
CMAKE = """#!/bin/sh
if [ "$1" = --preset ]; then
  cache="$4/build/$2/CMakeCache.txt"
  asked=$(printf '%s\\n' "$@" | sed -n 's/^-DFAIRDRAW_CUDA=//p')
  echo "configure $2 $asked" >>"CALLED"
  printf '%s\\n' "$@" >"CALLED.settings"
  env >"CALLED.environment"
  echo "CMAKE_HOME_DIRECTORY:INTERNAL=$4" >"$cache"
  echo "FAIRDRAW_CUDA:STRING=$asked" >>"$cache"
  echo "-- fairdraw: CUDA is $asked"
  touch "$4/build/$2/build.ninja"
elif [ "$1" = --build ]; then
  FOLDER=$2
  shift 5
  echo "build $*" >>"CALLED"
  program="$FOLDER/suites/fairdraw"
  [ "$*" != fairdraw_gate ] || program="$FOLDER/suites/gate/fairdraw"
  mkdir -p "${program%/*}"
  printf '#!/bin/sh\\necho ran "$1"\\n' >"$program"
  chmod +x "$program"
fi
"""

# A fake dpkg-query that reports as installed every package that ./fairdraw names.
DPKG_QUERY = """#!/bin/sh
printf 'installed %s\\n' PACKAGES
"""

# Verbs that need the whole tree, and the builds that they start.
EVERYTHING = [(["build"], ["build all"]), (["test"], ["build all"]), (["lint"], [])]
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}  # hides the GPUs of the machine


class LauncherCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        self.tree.mkdir()
        for name in ["fairdraw", "CMakeLists.txt", "CMakePresets.json"]:
            shutil.copy(ROOT / name, self.tree / name)
        for copied in ["cmake", "docs/commands"]:
            shutil.copytree(ROOT / copied, self.tree / copied)
        shutil.copy(ROOT / "docs" / "launcher.txt", self.tree / "docs")
        self.called = pathlib.Path(folder.name) / "called"
        self.path = pathlib.Path(folder.name) / "bin"
        self.path.mkdir()
        for name in BUILDERS:
            self.stand_in(name, f'#!/bin/sh\necho {name} >>"CALLED"\nexit 1\n')

    def stand_in(self, name, script):
        """Puts a program on the launcher's PATH; in its script, CALLED stands for the file that logs calls.
        """
        program = self.path / name
        program.write_text(script.replace("CALLED", str(self.called)), encoding="utf-8")
        program.chmod(0o755)

    def launch(self, *words, **variables):
        return subprocess.run([self.tree / "fairdraw", *words], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={"PATH": f"{self.path}:/usr/bin:/bin", "LC_ALL": "C", **variables})


class Launcher(LauncherCase):
    def expect_nothing_built(self, words):
        self.assertFalse((self.tree / "build").exists(), words)
        self.assertFalse(self.called.exists(), words)

    def expect_answer(self, *words, status=0):
        result = self.launch(*words)
        self.assertEqual(result.returncode, status, f"{words}: {result.stdout}{result.stderr}")
        self.expect_nothing_built(words)
        return result

    def test_help_of_the_launcher(self):
        pages = {self.expect_answer(*words).stdout
                 for words in [[], ["--help"], ["-h"], ["help"], *([v, "--help"] for v in OWN_VERBS)]}
        self.assertEqual(len(pages), 1)
        self.assertIn("./fairdraw verify", pages.pop())

    def test_help_of_every_verb(self):
        pages = sorted((self.tree / "docs" / "commands").glob("*.txt"))
        self.assertTrue(pages)
        for page in pages:
            text = page.read_text(encoding="utf-8")
            for words in [[page.stem, "--help"], [page.stem, "-h"], ["help", page.stem],
                          [page.stem, "--seed", "7", "--help"]]:
                self.assertEqual(self.expect_answer(*words).stdout, text, words)

    def test_the_version_is_the_programs(self):
        program = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60,
                                 check=True)
        self.assertEqual(self.expect_answer("--version").stdout, program.stdout)

    def test_an_unknown_verb_gets_one_line_with_those_there_are(self):
        verbs = OWN_VERBS + [page.stem for page in (self.tree / "docs" / "commands").glob("*.txt")]
        for words in [["verfy"], ["verfy", "--help"], ["help", "verfy"], ["--hlp"], ["v"], [" "],
                      ["list merge"]]:
            message = self.expect_answer(*words, status=2).stderr
            self.assertEqual(message.count("\n"), 1, message)
            given, known = message.split("; known: ")
            self.assertEqual(given, f"fairdraw: unknown verb '{words[words[0] == 'help']}'")
            self.assertEqual(sorted(known.split()), sorted(["--version", "help", *verbs]))

    def test_audit_is_in_the_help_and_says_where_it_is(self):
        self.assertIn("python -m fairdraw audit", self.expect_answer("--help").stdout)
        for words in [["audit", "--base-url", "x"], ["audit", "--help"], ["help", "audit"]]:
            message = self.expect_answer(*words, status=2).stderr
            self.assertIn("then python -m fairdraw audit\n", message)
            self.assertEqual(message.count("\n"), 1)

    def test_words_that_are_patterns_or_not_printable(self):
        for word in ["*", "ver*", "[a-z]*", "x\ny", "\x1b[31m", "v" * 5000]:
            message = self.expect_answer(word, status=2).stderr
            self.assertEqual(message.count("\n"), 1, message)
            self.assertNotIn("\x1b", message)
            self.assertLess(len(message.split("; known: ")[0]), 100)

    def test_what_is_no_help_goes_on_to_build(self):
        for words in [["list"], ["list", "--", "--help"]]:
            self.called.unlink(missing_ok=True)
            self.assertNotEqual(self.launch(*words).returncode, 0)
            self.assertTrue(self.called.exists(), words)


class BuildCase(LauncherCase):
    def setUp(self):
        super().setUp()
        self.stand_in("cmake", CMAKE)
        launcher = (ROOT / "fairdraw").read_text(encoding="utf-8")
        packages = " ".join(re.findall(r"k\w+Packages=\(([^)]*)\)", launcher)).replace("\n", " ")
        self.stand_in("dpkg-query", DPKG_QUERY.replace("PACKAGES", packages))
        for name in ["ctest", "shellcheck"]:
            self.stand_in(name, "#!/bin/sh\n")
        # Marks the PyPI packages that `build`, `test` and `lint` install as installed.
        for folder, variable in [("python-venv", "kPythonTools"), ("lint-venv", "kLintTools")]:
            venv = self.tree / "build" / folder
            venv.mkdir(parents=True)
            wanted = re.search(rf"^readonly {variable}=\((.*)\)", launcher, re.MULTILINE).group(1)
            (venv / "installed").write_text(wanted + "\n", encoding="utf-8")
        self.cache = self.tree / "build" / "release" / "CMakeCache.txt"

    def expect_calls(self, words, calls, **variables):
        """Expects that ./fairdraw makes these calls of CMake, in this order. Returns the result of
        ./fairdraw.
        """
        self.called.unlink(missing_ok=True)
        result = self.launch(*words, **variables)
        called = self.called.read_text(encoding="utf-8") if self.called.exists() else ""
        self.assertEqual(called.splitlines(), calls, f"{words}: {result.stdout}{result.stderr}")
        return result

    def settings(self):
        """Returns the settings with which CMake was last configured."""
        return self.called.with_suffix(".settings").read_text(encoding="utf-8").splitlines()


class Settings(BuildCase):
    def test_no_compiler_launcher_is_chosen(self):
        self.stand_in("ccache", '#!/bin/sh\necho ccache >>"CALLED"\n')
        for words, built in EVERYTHING:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.expect_calls(words, ["configure release AUTO", *built], **NO_GPU)
            self.assertFalse([word for word in self.settings() if "LAUNCHER" in word])
            environment = self.called.with_suffix(".environment").read_text(encoding="utf-8")
            self.assertNotIn("LAUNCHER", environment)

    def test_warnings_are_errors_in_ci_alone(self):
        for value, expected in [("", False), ("false", False), ("true", True)]:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.launch("build", CI=value, **NO_GPU)
            self.assertEqual("-DFAIRDRAW_WERROR=ON" in self.settings(), expected, value)

    def test_another_python_on_path_is_named_once(self):
        python = f"fairdraw: Python is {PYTHON}, which Debian's packages are for, and not PATH's"
        self.assertIn(f"{python} {self.path}/python3\n", self.launch("verify", **NO_GPU).stderr)
        self.assertIn(f"-DPython3_EXECUTABLE={PYTHON}", self.settings())
        self.assertNotIn("Python", self.launch("verify", **NO_GPU).stderr)
        (self.path / "python3").unlink()
        shutil.rmtree(self.cache.parent)
        self.assertNotIn("Python", self.launch("verify", **NO_GPU).stderr)

    def test_the_package_is_made_with_the_python_of_its_environment(self):
        python = self.tree / "build" / "python-venv" / "bin" / "python"
        self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)
        self.assertNotIn(f"-DPython_EXECUTABLE={python}", self.settings())
        python.parent.mkdir()
        python.symlink_to(PYTHON)
        self.expect_calls(["build"], ["configure release AUTO", "build all"], **NO_GPU)
        self.assertIn(f"-DPython_EXECUTABLE={python}", self.settings())
        self.assertIn("-DFAIRDRAW_TEST_PYTHON=", self.settings())

    def test_tests_of_the_package_run_with_torch_where_it_is_installed(self):
        python = self.tree / "build" / "torch-venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.symlink_to(PYTHON)
        self.expect_calls(["build"], ["configure release AUTO", "build all"], **NO_GPU)
        self.assertIn(f"-DFAIRDRAW_TEST_PYTHON={python}", self.settings())
        python.unlink()  # a setting that is left out would keep its value in CMake's cache
        self.expect_calls(["build"], ["configure release AUTO", "build all"], **NO_GPU)
        self.assertIn("-DFAIRDRAW_TEST_PYTHON=", self.settings())

    def test_a_build_that_fails_shows_its_first_failure(self):
        self.stand_in("cmake", CMAKE.replace("elif [", "else\n  echo '[1/3] one'\n"
                                             "  echo 'FAILED: two.o'\n  echo 'two.cpp:1: error'\n"
                                             "  exit 1\nfi\nif [", 1))
        result = self.launch("verify", **NO_GPU)
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED: two.o\ntwo.cpp:1: error\n", result.stderr)
        self.assertNotIn("[1/3]", result.stderr)
        self.assertIn("[1/3] one", (self.cache.parent / "build.log").read_text(encoding="utf-8"))


class Cuda(BuildCase):
    def give_gpu(self):
        self.stand_in("nvidia-smi", "#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\n")

    def test_a_verb_of_the_program_leaves_cuda_out_where_there_is_no_gpu(self):
        first = self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)
        self.assertEqual(first.stdout, "ran verify\n")
        self.assertIn("fairdraw: CUDA is GPU\n", first.stderr)
        for verb in ["sample", "fuzz", "replay", "list", "identify"]:
            again = self.expect_calls([verb], ["build fairdraw_gate"], **NO_GPU)
            self.assertEqual(again.stdout, f"ran {verb}\n")
            shutil.rmtree(self.cache.parent)
            self.expect_calls([verb], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)

    def test_the_self_test_and_the_benchmarks_build_the_whole_program(self):
        for words in [["bench"], ["calibrate"], ["mutants"], ["verify", "--sampler", "mutant:x"],
                      ["verify", "--sampler=cpu,mutant:x"]]:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            first = self.expect_calls(words, ["configure release GPU", "build fairdraw_cli"], **NO_GPU)
            self.assertEqual(first.stdout, f"ran {words[0]}\n")
            self.expect_calls(["verify"], ["build fairdraw_cli"], **NO_GPU)

    def test_replay_lines_begin_as_the_launcher_was_called(self):
        made = """  printf '#!/bin/sh\\necho ran "$1"\\n' >"$program"
  chmod +x "$program"
"""
        self.assertIn(made, CMAKE)
        self.stand_in("cmake", CMAKE.replace(made, f'  ln -sf "{BINARY}" "$program"\n'))
        words = ["verify", "--suite", "smoke", "--sampler", "mutant:lane-of-32-lost", "--case",
                 "scripted/masked/v1000/everyday", "--report", str(self.tree / "report")]
        for called in [["./fairdraw"], [str(self.tree / "fairdraw")], ["bash", "fairdraw"]]:
            result = subprocess.run([*called, *words], cwd=self.tree, capture_output=True, text=True,
                                    timeout=60, check=False,
                                    env={"PATH": f"{self.path}:/usr/bin:/bin", **NO_GPU})
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            begin = called[0] if called[0] != "bash" else "./fairdraw"
            self.assertIn(f"replay: {begin} replay scripted/", result.stdout)

    def test_with_a_gpu_cuda_is_not_left_out(self):
        self.give_gpu()
        for devices in [{}, {"CUDA_VISIBLE_DEVICES": "0"}, {"CUDA_VISIBLE_DEVICES": "1,0"}]:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.expect_calls(["verify"], ["configure release AUTO", "build fairdraw_gate"],
                              **devices)
            self.expect_calls(["verify"], ["build fairdraw_gate"], **devices)

    def test_a_gpu_that_cuda_programs_do_not_see_is_none(self):
        self.give_gpu()
        for devices in ["", "-1", "-1,0"]:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"],
                              CUDA_VISIBLE_DEVICES=devices)

    def test_device_files_are_a_gpu_and_an_nvidia_smi_that_finds_none_is_not(self):
        self.stand_in("nvidia-smi", "#!/bin/sh\necho 'No devices found.'\nexit 6\n")
        files = [*pathlib.Path("/dev").glob("nvidia[0-9]*"),
                 *pathlib.Path("/proc/driver/nvidia").glob("gpus/*")]
        self.expect_calls(["verify"], ["configure release " + ("AUTO" if files else "GPU"),
                                       "build fairdraw_gate"])

    def test_what_needs_everything_brings_cuda_back(self):
        for words, built in EVERYTHING:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)
            self.expect_calls(words, ["configure release AUTO", *built], **NO_GPU)
            self.expect_calls(words, built, **NO_GPU)
            # The whole program is rebuilt if it has been built before.
            whole = "build fairdraw_cli" if built else "build fairdraw_gate"
            self.expect_calls(["verify"], [whole], **NO_GPU)

    def test_what_needs_everything_never_leaves_cuda_out(self):
        for words, built in EVERYTHING:
            shutil.rmtree(self.cache.parent, ignore_errors=True)
            self.expect_calls(words, ["configure release AUTO", *built], **NO_GPU)

    def test_a_gpu_that_comes_later_brings_cuda_back(self):
        self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)
        self.give_gpu()
        self.expect_calls(["verify"], ["configure release AUTO", "build fairdraw_gate"])

    def test_a_folder_keeps_what_it_has(self):
        for kept in ["AUTO", "ON", "OFF"]:
            self.cache.parent.mkdir(exist_ok=True)
            self.cache.write_text(f"CMAKE_HOME_DIRECTORY:INTERNAL={self.tree}\n"
                                  f"FAIRDRAW_CUDA:STRING={kept}\n", encoding="utf-8")
            self.expect_calls(["verify"], [f"configure release {kept}", "build fairdraw_gate"], **NO_GPU)
            self.assertNotIn("--fresh", self.settings())
            self.expect_calls(["build"], ["build all"], **NO_GPU)
            # A build folder that was copied from another tree is configured anew.
            self.cache.write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n"
                                  f"FAIRDRAW_CUDA:STRING={kept}\n", encoding="utf-8")
            (self.cache.parent / "configured").write_text("/elsewhere\n", encoding="utf-8")
            self.expect_calls(["verify"], [f"configure release {kept}", "build fairdraw_cli"],
                              **NO_GPU)
            self.assertIn("--fresh", self.settings())
            shutil.rmtree(self.cache.parent)

    def test_a_folder_whose_first_configuration_failed_is_new(self):
        self.stand_in("cmake", "#!/bin/sh\nexit 1\n")
        self.assertEqual(self.launch("verify", **NO_GPU).returncode, 1)
        self.stand_in("cmake", CMAKE)
        self.expect_calls(["verify"], ["configure release GPU", "build fairdraw_gate"], **NO_GPU)


class Program(BuildCase):
    """Tests that `build program` builds the program of the verbs, and that FAIRDRAW_PROGRAM replaces it."""

    def test_the_program_is_built_alone(self):
        self.expect_calls(["build", "program"], ["configure release GPU", "build fairdraw_cli"],
                          **NO_GPU)
        self.expect_calls(["verify"], ["build fairdraw_cli"], **NO_GPU)
        for words in [["build", "x"], ["build", "program", "x"]]:
            self.assertEqual(self.expect_calls(words, []).returncode, 2)

    def test_a_program_that_was_built_elsewhere_is_run(self):
        handed_on = self.tree / "handed on"
        handed_on.write_text('#!/bin/sh\necho "$FAIRDRAW_DATA" "$@"\n', encoding="utf-8")
        handed_on.chmod(0o755)
        data = self.tree / "suites" / "data"
        result = self.expect_calls(["list", "profiles"], [], FAIRDRAW_PROGRAM=str(handed_on))
        self.assertEqual(result.stdout, f"{data} list profiles\n", result.stderr)
        # FAIRDRAW_PROGRAM replaces only the program; verbs that build everything still build everything.
        self.expect_calls(["build"], ["configure release AUTO", "build all"],
                          FAIRDRAW_PROGRAM=str(handed_on))

    def test_a_program_that_cannot_be_run_is_an_error_and_not_built(self):
        notes = self.tree / "notes"
        notes.touch()
        for path in [notes, self.tree, self.tree / "missing"]:
            result = self.expect_calls(["verify"], [], FAIRDRAW_PROGRAM=str(path))
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"FAIRDRAW_PROGRAM is '{path}': not a file that can be run", result.stderr)


class Docs(LauncherCase):
    """Tests that `docs` calls programs of its own virtual environment, and no compiler."""

    def setUp(self):
        super().setUp()
        launcher = (ROOT / "fairdraw").read_text(encoding="utf-8")
        wanted = re.search(r"^readonly kDocsTools=\((.*)\)", launcher, re.MULTILINE).group(1)
        packages = re.search(r"kDocsPackages=\((.*)\)", launcher).group(1)
        self.stand_in("dpkg-query", DPKG_QUERY.replace("PACKAGES", packages))
        self.venv = self.tree / "build" / "docs-venv"
        (self.venv / "bin").mkdir(parents=True)
        (self.venv / "installed").write_text(wanted + "\n", encoding="utf-8")
        self.mkdocs("")

    def mkdocs(self, ends):
        for name, then in [("python", ""), ("mkdocs", ends)]:
            program = self.venv / "bin" / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.called}"\n{then}\n',
                               encoding="utf-8")
            program.chmod(0o755)

    def test_a_site_is_made_without_a_build(self):
        result = self.launch("docs")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.called.read_text(encoding="utf-8").splitlines(),
                         ["python -B docs/site/stage.py . build/docs-pages",
                          "mkdocs build -f docs/site/mkdocs.yml"])
        self.assertIn("build/docs/index.html", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_a_site_that_is_not_made_fails_and_says_why(self):
        self.mkdocs("echo 'INFO - reading'; echo 'WARNING - a link leads nowhere' >&2; exit 1")
        result = self.launch("docs")
        self.assertEqual(result.returncode, 1)
        self.assertIn("a link leads nowhere", result.stderr)
        self.assertIn("build/docs.log", result.stderr)
        self.assertNotIn("INFO", result.stderr)

    def test_without_pypi_it_says_that_something_is_missing(self):
        (self.venv / "installed").unlink()
        result = self.launch("docs")
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_it_takes_no_arguments(self):
        result = self.launch("docs", "x")
        self.assertEqual(result.returncode, 2)
        self.assertIn("docs takes no arguments", result.stderr)
        self.assertFalse(self.called.exists())


class CudaChoice(unittest.TestCase):
    """Tests how cmake/cuda.cmake chooses the value of FAIRDRAW_CUDA, with an nvcc that only prints its
    version.
    """

    def read(self, choice, nvcc_says, *options, **variables):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = pathlib.Path(folder) / "bin" / "nvcc"
            nvcc.parent.mkdir()
            nvcc.write_text(f"#!/bin/sh\necho '{nvcc_says}'\n", encoding="utf-8")
            nvcc.chmod(0o755)
            result = subprocess.run(
                ["cmake", "-D", f"FAIRDRAW_CUDA={choice}", *options, "-P", ROOT / "cmake" / "cuda.cmake"],
                capture_output=True, text=True, timeout=60, check=False,
                env={**os.environ, "CUDA_HOME": folder, **variables})
            return result.returncode, " ".join((result.stdout + result.stderr).split())

    def test_gpu_is_auto_where_there_is_one_and_else_says_what_builds_it(self):
        nvcc = "Cuda compilation tools, release 13.0, V13.0.48"
        pip = "pip install . --config-settings=cmake.define.FAIRDRAW_CUDA=ON"
        for caller, builds in [([], "./fairdraw build"), (["-D", "SKBUILD=2"], pip)]:
            self.assertEqual(
                self.read("GPU", nvcc, *caller, **NO_GPU),
                (0, f"-- fairdraw: nvcc 13.0, but no GPU ({builds} builds the CUDA part): "
                    "building the CPU part"))
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "nvidia-smi"
            program.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-1)'\n", encoding="utf-8")
            program.chmod(0o755)
            _, said = self.read("GPU", nvcc, PATH=f"{folder}:{os.environ['PATH']}",
                                CUDA_VISIBLE_DEVICES="0")
            self.assertTrue(said.startswith("-- fairdraw: nvcc 13.0: building the CUDA part too"), said)

    def test_gpu_promises_nothing_that_the_nvcc_cannot_do(self):
        self.assertEqual(
            self.read("GPU", "Cuda compilation tools, release 11.8, V11.8.89"),
            (0, "-- fairdraw: nvcc 11.8 is older than 12.0: building the CPU part"))

    def test_other_words_are_refused(self):
        status, message = self.read("LATER", "release 13.0")
        self.assertNotEqual(status, 0)
        self.assertIn("FAIRDRAW_CUDA is 'LATER'; allowed: AUTO, GPU, ON, OFF", message)


if __name__ == "__main__":
    BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
