"""Tests the capsules of failed cases: the small rows, and the script that shows a defect without
fairdraw.
"""

import dataclasses
import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairdraw_engines import ENGINES, Engine, __main__, _one_row, _shrink_row, capsules, matrix
from fairdraw_engines._engine import INTERPRETER, report_kept
from fairdraw_engines.standalone import rules
from fairdraw_engines.standalone import show as standalone_show

SEED = 1
MASK = "mask/gaussian/v1000/edges"
DRAWS = "chi_squared/gaussian_wide/v1000/none/t1/n100000"

MAIN = '\n\nif __name__ == "__main__":'

#: A sampler in NumPy by fairdraw's profile, with one defect: "nothing", one token too many for
#: top_k, or weights of odd ids that are half of the right weights.
SAMPLER = """

RANDOM = np.random.default_rng(1)


def answer(logits, temperature, top_k, top_p, min_p, draws, wrong):
    values = np.asarray(logits, np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        if not np.isfinite(values.max()):
            return set(), [-1] * draws
    if temperature == 0 or top_k == 1 or top_p == 0:
        return {int(values.argmax())}, [int(values.argmax())] * draws
    weights = np.exp((values - values.max()) / temperature)
    stays = (values > -np.inf) & (weights >= min_p)
    if wrong == "top_k" and top_k > 0:
        top_k += 1
    if 0 < top_k < stays.sum():
        stays &= values >= np.sort(values[stays])[-top_k]
    weights[~stays] = 0
    if top_p < 1:
        above = np.array([weights[values > value].sum() for value in values])
        stays &= above < top_p * weights.sum()
    weights[~stays] = 0
    kept = set(np.flatnonzero(stays).tolist())
    if wrong == "odd":
        weights[1::2] /= 2
    law = weights / weights.sum()
    return kept, RANDOM.choice(len(values), size=draws, p=law).tolist()


ANSWERS = {"planted": answer}
"""


@pytest.fixture(autouse=True)
def show(tmp_path, monkeypatch):
    """Adds the sampler of these tests to the script that shows capsules, which calls the
    sampler."""
    text, file = capsules.SHOW.read_text(), tmp_path / "show.py"
    assert text.count(MAIN) == 1
    file.write_text(text.replace(MAIN, SAMPLER + MAIN))
    monkeypatch.setattr(capsules, "SHOW", file)
    return file


def planted(wrong):
    """Makes an engine of the tests' sampler, which the capsule script calls, too."""
    namespace = {"np": np}
    exec(SAMPLER, namespace)

    def sample(batch):
        logits, rows = _one_row.call_of(batch)
        kept = np.zeros((batch.rows, batch.vocab), bool)
        tokens = np.full((batch.outputs, batch.num_samples), -1, np.int64)
        for row in range(batch.rows):
            columns = (batch.temperature, batch.top_k, batch.top_p, batch.min_p)
            parameters = [column[row].item() for column in columns]
            outputs = np.flatnonzero(rows == row)
            draws = len(outputs) * batch.num_samples
            ids, drawn = namespace["answer"](logits[row], *parameters, draws, wrong)
            kept[row, sorted(ids)] = True
            tokens[outputs] = np.reshape(drawn, (len(outputs), batch.num_samples))
        report_kept(batch, kept)
        return tokens

    return Engine(
        name="planted", semantics="fairdraw", calls="a test's sampler", version=lambda: "planted 1",
        make=lambda seed: sample, arrays="numpy", standalone="planted", settings={"wrong": wrong},
        abilities=("indices", "num_samples", "reports_mask", "reports_support"),
    )  # fmt: skip


def matrix_of(engine, case):
    return matrix.updated(None, [matrix.run_engine(engine, "smoke", [case], SEED)])


def run(show, case):
    words = [sys.executable, "-I", "-B", show, case]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "wrong, case, symptom, max_tokens",
    [
        # k + 1 tokens stay. For k = 1 this sampler is greedy, so that k = 2 shows the defect, with
        # 3 tokens.
        ("top_k", MASK, "keeps", 3),
        # An odd and an even id are the minimum that shows a halved weight.
        ("odd", DRAWS, "counts", 2),
    ],
)
def test_a_wrong_sampler_gets_a_case_that_shows_it(
    tmp_path, show, wrong, case, symptom, max_tokens
):
    engine = planted(wrong)
    made = matrix_of(engine, case)
    assert [red["verdict"] for red in made["engines"][0]["red"]] == ["failed"]
    index = capsules.write_all(made, {"planted": engine}, tmp_path / "out", seconds=20)
    (folder,) = [entry for entry in index.parent.iterdir() if entry.is_dir()]
    assert symptom in folder.name and folder.name in index.read_text()
    assert "have no capsule" not in index.read_text()
    page, text = (folder / "issue.md").read_text(), (folder / "case.json").read_text()
    assert made["engines"][0]["red"][0]["replay"] in page and "planted 1" in page

    (capsule,), left = capsules.collect(made, {"planted": engine}, seconds=20)
    assert not left and capsule.wrong.row.vocab <= max_tokens

    ran = run(show, folder / "case.json")
    assert ran.returncode == 1 and ran.stdout
    assert all(line in page for line in ran.stdout.splitlines())
    mended = text.replace(f'"wrong": "{wrong}"', '"wrong": "nothing"')
    assert mended != text
    (folder / "case.json").write_text(mended)
    ran = run(show, folder / "case.json")
    assert (ran.returncode, ran.stdout) == (0, "right\n")


def test_the_right_sampler_has_no_red_case(tmp_path):
    engine = planted("nothing")
    for case in (MASK, DRAWS):
        assert matrix_of(engine, case)["engines"][0]["red"] == []


def test_what_does_not_show_again_is_said(tmp_path):
    wrong, right = planted("top_k"), planted("nothing")
    made = matrix_of(wrong, MASK)
    index = capsules.write_all(made, {"planted": right}, tmp_path / "out")
    assert (
        f"| planted | `{MASK}` | The verdict of the case in a second run is passed. |"
        in index.read_text()
    )
    described = dataclasses.replace(wrong, standalone=None)
    index = capsules.write_all(made, {"planted": described}, tmp_path / "out")
    assert "cannot call this engine" in index.read_text()


def test_a_case_that_shows_nothing_is_not_kept(tmp_path):
    # The engine is wrong, but the script's call is right, so that there is no issue to report.
    wrong = planted("top_k")
    made = matrix_of(wrong, MASK)
    untrue = dataclasses.replace(wrong, settings={"wrong": "nothing"})
    index = capsules.write_all(made, {"planted": untrue}, tmp_path / "out")
    assert "The script ended with exit code 0" in index.read_text()
    assert [entry.name for entry in index.parent.iterdir()] == ["README.md"]


def test_an_older_capsule_stays_while_its_case_is_red_and_in_no_new_one(tmp_path):
    wrong, right = planted("top_k"), planted("nothing")
    made, out = matrix_of(wrong, MASK), tmp_path / "out"
    index = capsules.write_all(made, {"planted": wrong}, out)
    (folder,) = [entry for entry in out.iterdir() if entry.is_dir()]
    before = (folder / "case.json").read_text()
    # If the engine is right, as it may be on another device, no new capsule can be made.
    capsules.write_all(made, {"planted": right}, out)
    assert (folder / "case.json").read_text() == before
    assert folder.name in index.read_text() and "have no capsule" not in index.read_text()
    # If the script shows no defect, the older capsule stays.
    untrue = dataclasses.replace(wrong, settings={"wrong": "nothing"})
    capsules.write_all(made, {"planted": untrue}, out)
    assert (folder / "case.json").read_text() == before
    # When the case passes again, the capsule is deleted.
    capsules.write_all(matrix_of(right, MASK), {"planted": right}, out)
    assert [entry.name for entry in out.iterdir()] == ["README.md"]


def test_a_filter_of_another_engine_has_its_capsules(tmp_path):
    wrong = planted("top_k")
    same = dataclasses.replace(wrong, name="same", filter_of="planted")
    made = matrix.updated(
        None, [matrix.run_engine(engine, "smoke", [MASK], SEED) for engine in (wrong, same)]
    )
    # A second record of that engine, from Triton's interpreter, in which the case passes.
    interpreted = {"version": INTERPRETER, "red": []}
    made = matrix.updated(made, [{**made["engines"][0], **interpreted}])
    assert len(made["engines"]) == 3
    index = capsules.write_all(made, {"planted": wrong, "same": same}, tmp_path / "out")
    assert "| The case also fails for planted, which has the same filter. |" in index.read_text()
    assert len(list(index.parent.glob("*/case.json"))) == 1


def test_command(tmp_path, monkeypatch, capsys):
    engine = planted("top_k")
    monkeypatch.setitem(ENGINES, "planted", engine)
    file = tmp_path / "m.json"
    matrix.write(matrix_of(engine, MASK), file)
    out = tmp_path / "out"
    words = ["capsules", str(file), "--out", str(out), "--engines", "planted", "--seconds", "5"]
    assert __main__.main(words) == 0
    assert str(out / "README.md") in capsys.readouterr().out
    assert len(list(out.glob("*/case.json"))) == 1
    with pytest.raises(SystemExit):
        __main__.main(["capsules", str(tmp_path / "none.json")])


def test_shrinking_ends_at_the_row_that_matters():
    row = _one_row.Row(np.linspace(-3, 3, 257).astype(np.float32), 0.7, 50, 0.9, 0.01)
    small = _shrink_row.shrink(row, lambda one: one.logits.max() > 1 and one.top_k > 0, 20)
    assert small.vocab == 1 and small.parameters() == (1.0, 1, 1.0, 0.0)
    assert small.logits[0] > 1 and len(_shrink_row.as_text(small.logits[0])) == 1


def test_counts_of_a_right_sampler_are_allowed():
    # n draws of two tokens of probability 1/2 give n/2 each, within 6 sigma. A larger deviation is
    # rarer than 1e-8 and more frequent than 1e-12.
    expected = {"probability": [0.5, 0.5], "total_variation_bound": 0.0}
    draws = 1 << 16
    low, high = _one_row.counts_allowed(expected, draws)[0]
    sigma = (draws / 4) ** 0.5
    assert low + high == draws and 6 * sigma < high - draws / 2 < 9 * sigma


def test_the_script_does_not_use_fairdraw_and_has_a_function_for_each_engine(show):
    assert "fairdraw" not in show.read_text() + Path(rules.__file__).read_text()
    engines = [engine for engine in ENGINES.values() if engine.standalone is not None]
    assert {engine.standalone for engine in engines} == set(standalone_show.ANSWERS)
    call = ["logits", "temperature", "top_k", "top_p", "min_p", "draws"]
    for engine in engines:
        answer = standalone_show.ANSWERS[engine.standalone]
        asked = engine.example["call"] if engine.example else call
        assert list(inspect.signature(answer).parameters) == [*asked, *engine.settings]


NOT_JUDGED = {
    "kept": None, "may_be_kept": [], "fewest": 0, "most": 0, "must_fail": False, "counts": [],
}  # fmt: skip
TWO_OF_FOUR = {**NOT_JUDGED, "kept": [0, 1], "may_be_kept": [0, 1], "fewest": 2, "most": 2}


@pytest.mark.parametrize(
    "kept, tokens, expected, lines",
    [
        ({0, 1}, [0, 1, 1, -1], TWO_OF_FOUR, []),
        (None, [0, 1, 1, 0], TWO_OF_FOUR, []),
        (
            {1, 2, 3},
            [0, 3, 3, 1],
            TWO_OF_FOUR,
            [
                "The filters drop token 0, which must be kept.",
                "The filters keep tokens 2 and 3, which must be dropped.",
                "The number of kept tokens is 3, but must be 2.",
                "The sampler draws token 0, which its own filters dropped.",
                "The sampler draws token 3, but may only draw tokens 0 or 1.",
            ],
        ),
        (set(), [5, -1], NOT_JUDGED, ["The sampler draws token 5, which its own filters dropped."]),
        (
            None,
            [0, -1],
            {**NOT_JUDGED, "must_fail": True},
            ["The sampler draws token 0 from a row without a distribution."],
        ),
        (
            None,
            [0, 0, 0, 1],
            {**TWO_OF_FOUR, "counts": [[0, 1, 2], [1, 0, 3]]},
            [
                "The sampler draws token 0 in 3 of 4 draws, but a right sampler draws this token in "
                "1 to 2 of them."
            ],
        ),
    ],
)
def test_the_script_says_each_fault(kept, tokens, expected, lines):
    assert standalone_show.faults(kept, tokens, len(tokens), expected) == lines


def test_every_committed_capsule_has_its_case():
    from test_engines import BASELINE

    folder = BASELINE.parent / "capsules"
    index = (folder / "README.md").read_text()
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_dir())
    assert names and all(f"[`{name}`]({name}/issue.md)" in index for name in names)
    commands = {
        red["replay"] for r in json.loads(BASELINE.read_text())["engines"] for red in r["red"]
    }
    for name in names:
        case = json.loads((folder / name / "case.json").read_text())
        page = (folder / name / "issue.md").read_text()
        replays = [line.strip() for line in page.splitlines() if line.startswith("    python")]
        assert replays and set(replays) <= commands
        assert page.startswith(f"# {case['text']}\n")
        assert f"\n- The defect was seen with {case['seen_with']}.\n" in page
        inspect.signature(standalone_show.ANSWERS[case["answer"]]).bind(**case["call"])
        assert case["expected"].keys() == NOT_JUDGED.keys()
