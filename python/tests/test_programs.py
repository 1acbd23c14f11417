"""Tests programs: the command line, the pytest plugin, the example that generates text, and the
benchmark.
"""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fairdraw
from fairdraw import __main__, _core
from fairdraw.examples import generate


def python(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, env=os.environ
    )


def test_unseeded_draws_of_fresh_processes_differ():
    # Two processes draw the same 16 tokens of a flat row of 131072 with a probability of
    # 131072^-16.
    program = """if True:
        import fairdraw, numpy as np
        row = np.zeros((1, 131072), np.float32)
        indices = np.zeros(16, np.int32)
        print(fairdraw.sampling_from_logits(row, indices=indices).tolist())
        print(fairdraw.sampling_from_probs(fairdraw.softmax(row), indices=indices).tolist())
    """
    one, other = (python("-c", program) for _ in range(2))
    assert one.returncode == 0 and other.returncode == 0, one.stderr + other.stderr
    draws = [json.loads(line) for run in (one, other) for line in run.stdout.splitlines()]
    assert [len(tokens) for tokens in draws] == [16] * 4
    assert len({tuple(tokens) for tokens in draws}) == 4


def test_command_line(tmp_path):
    profiles = python("-m", "fairdraw", "list", "profiles")
    assert profiles.returncode == 0 and "vllm_torch" in profiles.stdout
    report = tmp_path / "report"
    run = python(
        "-m", "fairdraw", "verify", "--suite", "smoke", "--case", "support/*", "--sampler",
        "cpu:scalar", "--seed", "1", "--report", str(report),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads((report / "report.json").read_text())["summary"]["failed"] == 0
    wrong = python("-m", "fairdraw", "verfy")
    assert wrong.returncode == 2 and "did you mean 'verify'" in wrong.stderr


def test_without_serving_a_name_of_it_says_what_left_it_out(monkeypatch):
    assert fairdraw.__all__  # the names are made once, and here with serving
    monkeypatch.setattr(_core, "HAS_SERVING", False)
    with pytest.raises(AttributeError, match="'no_such_name'.*FAIRDRAW_SERVING=OFF"):
        getattr(fairdraw, "no_such_name")  # noqa: B009


def test_a_verb_of_another_distribution_names_it(monkeypatch, capfd):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert __main__.main(["--help"]) == 0
    of_help = capfd.readouterr().out.split("Of distributions of their own", 1)[1]
    assert [line.split()[0] for line in of_help.splitlines()[1:]] == list(__main__.SEPARATE)
    for verb in __main__.SEPARATE:
        assert __main__.main([verb, "--help"]) == 2
        assert f"fairdraw-{verb}, which is not installed" in capfd.readouterr().err


ITEMS = """
import numpy as np
import pytest

@pytest.mark.fairdraw(suite="smoke", case="support/*", seed=1)
def test_right(fairdraw_case):
    fairdraw_case(lambda batch: np.argmax(batch.logits, axis=1))

@pytest.mark.fairdraw(suite="smoke", case="support/*", seed=1)
def test_wrong(fairdraw_case):
    fairdraw_case(lambda batch: None)

@pytest.mark.fairdraw(suite="smoke", case="replay/*/bfloat16/*", seed=1)
def test_unable(fairdraw_case):
    fairdraw_case(lambda batch: np.argmax(batch.logits, axis=1))
"""


def run_items(folder, text, *options):
    (folder / "test_items.py").write_text(text)
    plugin = ["-p", "no:cacheprovider"]
    if not importlib.metadata.entry_points(group="pytest11", name="fairdraw"):
        # The option is needed on machines where the package is not installed.
        plugin += ["-p", "fairdraw.pytest_plugin"]
    return python("-m", "pytest", "-q", "-rs", *plugin, *options, "test_items.py", cwd=folder)


def test_pytest_plugin_has_an_item_for_each_case(tmp_path):
    count = len([case for case in fairdraw.case_ids("smoke") if case.startswith("support/")])
    result = run_items(tmp_path, ITEMS)
    assert result.returncode == 1
    summary = result.stdout.splitlines()[-1]
    parts = summary.split(" in ")[0].split(", ")
    numbers = {
        word: int(n) for n, word in (part.split() for part in parts if len(part.split()) == 2)
    }
    # Some cases need abilities that neither callable claims, such as bans and 16-bit types. The
    # failures of test_wrong share a cause, and only one of them is reported.
    passed = numbers["passed"]
    assert passed >= 10
    skipped = 2 * (count - passed) + 1
    assert numbers == {"passed": passed, "failed": 1, "skipped": skipped}
    assert f"{passed - 1} failed for a reason told once" in summary
    assert "has no per-request seeds" in result.stdout
    assert result.stdout.count("the callable returned None") >= 1
    assert result.stdout.count("replay: import fairdraw; fairdraw.verify(sampler, ") == 1
    assert f"{passed} of {passed} failed cases: " in result.stdout


RUNNING_BATCH = """
import pytest

class Wrong:
    pass

@pytest.mark.fairdraw(suite="smoke", case="sequences/*/unfiltered", seed=1)
def test_wrong(fairdraw_case):
    fairdraw_case(running_batch=Wrong)
"""


@pytest.mark.skipif(not _core.HAS_SERVING, reason="it is of serving")
def test_pytest_plugin_takes_running_batches(tmp_path):
    result = run_items(tmp_path, RUNNING_BATCH)
    assert result.returncode == 1
    assert "running_batch() returned a Wrong, which has no method begin" in result.stdout
    assert "fairdraw.verify(running_batch=test_items.Wrong, semantics=" in result.stdout


@pytest.mark.parametrize(
    "text, message",
    [
        ("def test_x(fairdraw_case): pass", "needs pytest.mark.fairdraw"),
        (ITEMS.replace("support/*", "none/*"), "no case of suite smoke matches 'none/"),
        (ITEMS.replace('suite="smoke", case', '"smoke", case'), "takes arguments by name only"),
    ],
)
def test_pytest_plugin_names_bad_use(tmp_path, text, message):
    result = run_items(tmp_path, text)
    assert result.returncode != 0 and message in result.stdout + result.stderr


REPORTED = """
import numpy as np
import pytest

def greedy(batch):
    return np.argmax(batch.logits, axis=1)

@pytest.mark.fairdraw(suite="smoke", case="support/*", seed=1)
def test_right(fairdraw_case):
    fairdraw_case(greedy)

@pytest.mark.parametrize("answer", [None, 3])
@pytest.mark.fairdraw(suite="smoke", case="support/peaked/v1000/everyday", seed=1)
def test_wrong(fairdraw_case, answer):
    fairdraw_case(lambda batch: answer, name="wrong")

@pytest.mark.fairdraw(suite="smoke", case="support/peaked/v1000/everyday", seed=1)
def test_two(fairdraw_case):
    for seed in (1, 2):
        fairdraw_case(greedy, seed=seed)

def test_else():
    pass
"""


def test_pytest_plugin_writes_reports_where_asked(tmp_path):
    cases = [case for case in fairdraw.case_ids("smoke") if case.startswith("support/")]
    result = run_items(tmp_path, REPORTED, "--fairdraw-report", "reports/all")
    assert result.returncode == 1, result.stdout + result.stderr
    reports = tmp_path / "reports" / "all"
    names = {
        "right": "test_items.py-test_right", "none": "test_items.py-test_wrong-None",
        "three": "test_items.py-test_wrong-3", "first": "test_items.py-test_two-1",
        "second": "test_items.py-test_two-2",
    }  # fmt: skip
    assert {folder.name for folder in reports.iterdir()} == set(names.values())
    found = {
        key: json.loads((reports / name / "report.json").read_text()) for key, name in names.items()
    }
    assert sorted(case["id"] for case in found["right"]["cases"]) == sorted(cases)
    summary = found["right"]["summary"]
    assert summary["passed"] >= 10 and summary["passed"] + summary["skipped"] == len(cases)
    assert found["right"]["shard"] == "1/1"
    for key in ("none", "three"):
        assert found[key]["summary"]["failed"] == 1 and found[key]["samplers"][0]["name"] == "wrong"
    assert [found[key]["seed"]["value"] for key in ("first", "second")] == ["1", "2"]
    for name in names.values():
        page = reports / name / "index.html"
        assert page.read_text().startswith("<!DOCTYPE html>")
        assert f"fairdraw: {page}" in result.stdout
    (tmp_path / "file").write_text("")
    blocked = run_items(tmp_path, REPORTED, "--fairdraw-report", "file/reports")
    assert blocked.returncode == 4 and "--fairdraw-report is 'file/reports'" in blocked.stderr


REQUIRED = """
import numpy as np
import pytest

def greedy(batch):
    return np.argmax(batch.logits, axis=1)

@pytest.mark.fairdraw(suite="smoke", case="support/peaked/v1000/everyday", seed=1,
                      require=["REQUIRED"], max_skipped=50)
def test_mine(fairdraw_case):
    fairdraw_case(greedy)
"""


def test_pytest_fails_where_what_a_mark_requires_was_not_judged(tmp_path):
    judged = run_items(tmp_path, REQUIRED.replace("REQUIRED", "top_p"))
    assert judged.returncode == 0, judged.stdout + judged.stderr
    missing = run_items(tmp_path, REQUIRED.replace("REQUIRED", "seeds"))
    assert missing.returncode == 1, missing.stdout + missing.stderr
    assert "1 passed" in missing.stdout
    assert "not judged: greedy: seeds was not judged: no case of this run exercises it" in (
        missing.stdout
    )
    unknown = run_items(tmp_path, REQUIRED.replace("REQUIRED", "seedz"))
    assert unknown.returncode != 0 and "did you mean 'seeds'" in unknown.stdout + unknown.stderr


HEAVY = """
import sys

def pytest_sessionfinish():
    heavy = sorted({"numpy", "torch", "fairdraw._core", "fairdraw.sampling"} & set(sys.modules))
    print("imported:", heavy)
"""


def test_pytest_plugin_imports_nothing_heavy_before_it_is_used(tmp_path):
    (tmp_path / "conftest.py").write_text(HEAVY)
    unused = run_items(tmp_path, "def test_x(): pass", "-s")
    assert unused.returncode == 0 and "imported: []" in unused.stdout, unused.stdout
    used = run_items(tmp_path, ITEMS, "-s", "-k", "test_unable")
    assert "imported: ['fairdraw._core', 'numpy']" in used.stdout, used.stdout


def test_the_package_imports_what_is_used_when_it_is_used():
    program = """if True:
        import sys, fairdraw
        assert "numpy" not in sys.modules and not hasattr(fairdraw, "_nothing")
        assert "fairdraw._public" not in sys.modules
        assert {"sample", "verify", "__all__"} <= set(dir(fairdraw))
        assert fairdraw.verify is __import__("fairdraw.verification").verification.verify
        fairdraw.verify = 3
        assert not hasattr(fairdraw, "nothing") and fairdraw.verify == 3
        from fairdraw import *
        assert all(name in globals() for name in fairdraw.__all__ if name != "__version__")
        print(fairdraw.__version__, len(fairdraw.__all__))
    """
    result = python("-c", program)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [fairdraw.__version__, str(len(fairdraw.__all__))]
    late = python("-c", "from fairdraw import sampling, torch_missing")
    assert late.returncode == 1 and "cannot import name 'torch_missing'" in late.stderr


def test_example_is_the_integer_model():
    shape = generate.Shape()
    weights = generate.random_weights(shape)
    sampling = generate.Sampling(do_sample=True, temperature=0.8, top_k=30, top_p=0.9, seed=7)
    prompt = generate.encode("Once upon a time")
    text = list(generate.generate(generate.Model(weights, shape), prompt, sampling, 40))
    assert len(text) == 40
    for step, (token, logits) in enumerate(text):
        assert token == _core.expected_token(logits[0], 0.8, 30, 0.9, 0.0, 7, step)


def test_example_decodes_what_a_prefill_of_the_whole_text_says():
    # The cache is right if one pass over prompt and new tokens gives the logits of the last step.
    # The pass adds up to 256 float32 terms in another order. Each value is off by at most 256 ulps
    # of 2^-24 of its terms, through two layers, and the logits are of order 1.
    shape = generate.Shape()
    weights = generate.random_weights(shape)
    prompt = generate.encode("the cache")
    steps = list(generate.generate(generate.Model(weights, shape), prompt, generate.Sampling(), 10))
    tokens = [token for token, _ in steps]
    whole = generate.Model(weights, shape).step(prompt + tokens[:-1])
    assert np.abs(whole - steps[-1][1]).max() < 2 * 256 * 2.0**-24 * 8


def test_example_program_repeats_its_text():
    flags = ["--do-sample", "--temperature", "0.8", "--top-k", "20", "--top-p", "0.95"]
    flags += ["--max-new-tokens", "30"]
    run = lambda *more: python("-m", "fairdraw.examples.generate", *flags, *more)  # noqa: E731
    first, again, other = run("--seed", "1"), run("--seed", "1"), run("--seed", "2")
    assert first.returncode == 0 and first.stdout.startswith("Once upon a time")
    assert first.stdout == again.stdout != other.stdout
    fresh = run()
    seed = fresh.stderr.split()[1]
    assert run("--seed", seed).stdout == fresh.stdout
    bad = run("--seed", "1", "--top-p", "2")
    assert bad.returncode == 2 and "top_p is 2; allowed: 0 to 1" in bad.stderr
