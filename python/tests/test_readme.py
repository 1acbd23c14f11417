"""Runs the examples of README.md. The examples of the repository's README.md and docs/ run in
docs/site/examples_test.py. The tests check the claims of the pages about the examples."""

import re
import types
from pathlib import Path

import numpy as np
import pytest

import fairdraw

VERIFY = fairdraw.verify
README = Path(__file__).parent.parent / "README.md"


def example(beginning):
    """Returns the Python block whose text starts with `beginning`."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return found


def ten_lines():
    """Returns the first block of the repository's README.md without its last line, which prints a
    failure."""
    page = (README.parent.parent / "README.md").read_text()
    block = re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
    assert block.splitlines()[-1].startswith("print(report.")
    return "".join(block.splitlines(keepends=True)[:-1])


def test_the_ten_lines_pass_without_their_bug():
    wrong, right = {}, {}
    exec(ten_lines(), wrong)
    assert wrong["report"].verdict == "failed"
    exec(ten_lines().replace("0.999", "1"), right)
    assert right["report"].verdict == "passed"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the example divides by a temperature of 0
def test_the_ten_lines_have_no_answer_to_temperature_0_and_nan():
    names = {}
    exec(ten_lines().replace("chi_squared/*/t1/*", "s*/unfiltered").replace("0.999", "1"), names)
    messages = {case.check: case.message for case in names["report"].failures}
    assert "temperature 0" in messages["support"]
    assert "status" in messages


def whole_sampler():
    """Returns the block of docs/your_sampler.md with a whole sampler, and the names that the block
    defines before it judges the sampler."""
    page = (README.parent.parent / "docs" / "your_sampler.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "def whole(batch):" in block]
    names = {}
    exec(block[: block.index("report = fairdraw.verify(")], names)
    return block, names["whole"]


def test_the_whole_sampler_passes_verify_and_fuzz():
    block, whole = whole_sampler()
    assert 'fairdraw.verify(whole, suite="smoke", abilities=["num_samples"], seed=1)' in block
    assert 'fairdraw.fuzz(whole, abilities=["num_samples"]' in block
    how = {"suite": "smoke", "abilities": ["num_samples"], "seed": 1}
    # Globs of all cases but the longest, which run the same code.
    for case in ("s[tu][ap]*", "batches/*", "bets/gaussian_wide/*", "boundaries/*/v16/*", "pit/g*"):
        report = VERIFY(whole, **how, case=case)
        assert report.verdict == "passed", str(report.failures)
    for statistical, cases in ((False, 300), (True, 5)):
        found = fairdraw.fuzz(
            whole, abilities=["num_samples"], cases=cases, seed=1, statistical=statistical
        )
        assert found.verdict == "passed", str(found.findings)


def test_a_token_less_in_the_whole_sampler_is_found_by_both():
    block, _ = whole_sampler()
    names = {}
    spoiled = block.replace("np.r_[0, np.cumsum(mass)[:-1]]", "np.cumsum(mass)")
    assert spoiled != block
    exec(spoiled[: spoiled.index("report = fairdraw.verify(")], names)
    case = "boundaries/gaussian/v16/heavy"
    able = ["num_samples"]
    report = VERIFY(names["whole"], suite="smoke", abilities=able, seed=1, case=case)
    assert report.verdict == "failed"
    assert fairdraw.fuzz(names["whole"], abilities=able, cases=300, seed=1).verdict == "failed"


def run_one_case(monkeypatch, block, case, **names):
    """Runs a block whose call of fairdraw.verify is limited to this case, and returns the
    report."""
    reports = []

    def verify(*arguments, **named):
        reports.append(VERIFY(*arguments, **{**named, "case": case, "seed": 1, "suite": "smoke"}))
        return types.SimpleNamespace(raise_for_failures=lambda: None)

    monkeypatch.setattr(fairdraw, "verify", verify)
    exec(block, {"fairdraw": fairdraw, **names})
    (report,) = reports
    return report


def smoke_case(check, operation):
    """Returns the id of a case that tests one operation on float32 logits."""
    ids = [case for case in fairdraw.case_ids("smoke") if case.startswith(check + "/")]
    return next(case for case in ids if f"/{operation}/" in case and "/probs" not in case)


def test_sampling():
    pytest.importorskip("torch", reason="torch is not installed")
    names = {}
    exec(example("import fairdraw, torch"), names)
    assert names["tokens"].shape == (8,) and names["valid"].all()


def test_a_compiled_step_draws_what_sample_draws():
    pytest.importorskip("torch", reason="torch is not installed")
    names = {"fairdraw": fairdraw}
    exec(example("import fairdraw.torch_compile, torch"), names)
    want = fairdraw.sample(names["logits"], 0.7, top_p=0.9, seed=names["seed"])
    assert names["tokens"].tolist() == want.tolist()


BATCH = "import fairdraw, numpy as np\nstate"


def test_a_batch_that_lives(capsys):
    names = {}
    exec(example(BATCH), names)
    output = names["state"].output(17)
    assert len(output) == 3
    assert capsys.readouterr().out.startswith(str(output))


def test_a_batch_that_lives_on_a_gpu():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    here, there = {}, {}
    exec(example(BATCH), here)
    exec(example(BATCH), there)
    exec(example("import torch\nlogits, next_logits"), there)
    here["processor"].step(there["logits"].cpu())
    assert there["tokens"].tolist() == here["processor"].new_tokens().tolist()
    for request in (17, 18):
        assert there["state"].output(request) == here["state"].output(request)


def test_speculation_from_an_engines_request(capsys):
    names = {}
    exec(example("import fairdraw, numpy as np\nrequest"), names)
    assert 1 <= names["step"].kept[0] <= 4
    assert capsys.readouterr().out.startswith("[")


def test_a_sampler_in_torch_samples_and_has_no_top_p(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    block = example("def mine(batch):\n    probs = torch")
    torch.manual_seed(1)
    unfiltered = run_one_case(monkeypatch, block, smoke_case("chi_squared", "none"), torch=torch)
    assert unfiltered.verdict == "passed", unfiltered.failures
    with_top_p = run_one_case(
        monkeypatch, block, smoke_case("bets", "top_k_50+top_p_0.9"), torch=torch
    )
    assert with_top_p.verdict == "failed"


def test_a_sampler_in_cuda(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA device")
    kernels = types.SimpleNamespace(
        top_p_sample=lambda logits, top_p, seed: fairdraw.top_p_sampling_from_probs(
            fairdraw.softmax(logits), top_p, seed=seed
        )
    )
    block = example("def mine(batch):\n    return my_kernels")
    case = smoke_case("pit", "top_p_0.9")
    assert run_one_case(monkeypatch, block, case, my_kernels=kernels).verdict == "passed"


def test_a_running_batch_keeps_requests_and_forgets_none(monkeypatch):
    block = example("class Mine")
    case = "sequences/*/unfiltered"
    report = run_one_case(monkeypatch, block, case, np=np)
    assert report.verdict == "passed", report.failures
    forgetful = block.replace("request.first_offset + len(output)", "0")
    assert forgetful != block
    assert run_one_case(monkeypatch, forgetful, case, np=np).verdict == "failed"


def test_the_verifier_of_drafts_passes():
    names = {"fairdraw": fairdraw, "np": np}
    exec(example("random = np.random.default_rng()\n\ndef accept_or_replace"), names)
    assert names["report"].verdict == "passed", names["report"].failures
