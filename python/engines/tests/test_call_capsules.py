"""Tests capsules of calls, and judges the committed ones again without their engines."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fairdraw
from fairdraw_engines import ENGINES, Engine, __main__, call_capsules

FOLDER = Path(__file__).parent.parent / "call_capsules"
FILES = sorted(FOLDER.glob("*.json"))
CASE = "marks/gaussian/v31/unfiltered"


def marked(batch):
    rows = (batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p)
    seeds = {"seed": batch.seed, "offset": batch.offset}
    if batch.mark_key is None:
        return fairdraw.sample(*rows, **seeds)
    outputs = [ids[ids >= 0] for ids in batch.mark_output]
    return fairdraw.sample_marked(
        *rows, key=batch.mark_key, outputs=outputs, window=batch.mark_window, **seeds
    ).tokens


MARKS = Engine(
    name="marks", semantics="fairdraw", calls="fairdraw: sample_marked", version=lambda: "1",
    make=lambda seed: marked, arrays="numpy", abilities=("per_request_seeds", "marks_by_key"),
)  # fmt: skip


@pytest.fixture(scope="module")
def capsule():
    return call_capsules.recorded(MARKS, "smoke", CASE, 1)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_committed_capsule_has_its_verdict_again(file):
    made = call_capsules.read(file)
    assert file.name == call_capsules.name_of(made)
    verdict, message = call_capsules.replay(made)
    assert verdict == made["verdict"], message
    engine = ENGINES[made["engine"]]
    said = (engine.semantics, engine.calls, list(engine.abilities))
    assert said == (made["semantics"], made["calls"], made["abilities"])


def test_marks_of_every_engine_are_among_them():
    engines = {call_capsules.read(file)["engine"] for file in FILES}
    assert engines == {name for name, e in ENGINES.items() if "marks/*" in e.cases}


def test_a_capsule_answers_as_its_engine_did(capsule, tmp_path):
    assert capsule["verdict"] == "passed" and capsule["seen_with"] == "1"
    file = call_capsules.write(capsule, tmp_path / "new")
    read = call_capsules.read(file)
    assert read == capsule
    verdict, message = call_capsules.replay(read)
    assert verdict == "passed" and "64 rows keep the rules" in message


@pytest.mark.parametrize("call", range(3))
def test_another_token_in_a_call_fails(capsule, call):
    digest, text = list(capsule["answers"].items())[call]
    tokens = call_capsules._unpacked(text).copy()
    tokens[0] = (tokens[0] + 1) % 31
    answers = {**capsule["answers"], digest: call_capsules._packed(tokens)}
    verdict, message = call_capsules.replay({**capsule, "answers": answers})
    assert verdict == "failed" and " row " in message


def test_a_call_that_is_not_there_fails(capsule):
    few = dict(list(capsule["answers"].items())[1:])
    verdict, message = call_capsules.replay({**capsule, "answers": few})
    assert verdict == "failed" and "the capsule has no such call" in message
    verdict, message = call_capsules.replay({**capsule, "seed": 2})
    assert verdict == "failed" and "the capsule has no such call" in message


@pytest.mark.parametrize(
    "change, message",
    [
        ({"schema_version": 2}, "schema_version is 2; allowed: 1"),
        ({"seed": "1"}, "seed is '1'; allowed: int"),
        ({"more": 1}, "has other fields; allowed: schema_version"),
    ],
)
def test_another_file_is_refused(capsule, tmp_path, change, message):
    file = tmp_path / "capsule.json"
    file.write_text(json.dumps({**capsule, **change}))
    with pytest.raises(ValueError, match=message):
        call_capsules.read(file)
    file.write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        call_capsules.read(file)


@pytest.mark.parametrize("text", ["?", "AAAA", 1])
def test_answers_that_are_no_tokens_are_refused(capsule, text):
    with pytest.raises(ValueError, match="answers: is not what `record` writes"):
        call_capsules.replayed({**capsule, "answers": {"00": text}})


@pytest.mark.parametrize(
    "engine, message",
    [
        ("hf", "has the ability reports_mask"),
        ("numpy_choice", "has no per-request seeds"),
        ("vllm_rejection", "takes no batches"),
    ],
)
def test_an_engine_whose_answers_are_more_than_tokens_is_refused(engine, message):
    with pytest.raises(ValueError, match=f"{engine}: {message}"):
        call_capsules.recorded(ENGINES[engine], "smoke", CASE, 1)


def test_tokens_that_differ_in_equal_calls_are_refused():
    drawn = iter(range(1000))

    def another(batch):
        return [next(drawn) % 31] * batch.outputs

    engine = Engine(
        name="another", semantics="fairdraw", calls="", version=lambda: "1", arrays="numpy",
        make=lambda seed: another, abilities=("per_request_seeds", "marks_by_key"),
    )  # fmt: skip
    calls = {}
    sampler = call_capsules._recording(engine, calls).make(1)
    batch = SimpleNamespace(**dict.fromkeys(call_capsules.INPUTS, 1))
    sampler(batch)
    with pytest.raises(ValueError, match="equal calls have other tokens"):
        sampler(batch)


def test_digests_do_not_depend_on_the_library_of_arrays():
    torch = pytest.importorskip("torch")
    values = {
        "logits": np.arange(6, dtype=np.float32).reshape(2, 3), "seed": np.arange(2, dtype=np.uint64),
    }  # fmt: skip
    common = dict.fromkeys(call_capsules.INPUTS)
    with_numpy = SimpleNamespace(**{**common, **values})
    tensors = {
        "logits": torch.from_numpy(values["logits"]), "seed": torch.arange(2, dtype=torch.int64),
    }  # fmt: skip
    with_torch = SimpleNamespace(**{**common, **tensors})
    assert call_capsules.digest_of(with_numpy) == call_capsules.digest_of(with_torch)
    bits = values["logits"].view(np.uint32) >> 16
    with_numpy.logits = bits.astype(np.uint16)
    with_torch.logits = with_torch.logits.to(torch.bfloat16)
    assert call_capsules.digest_of(with_numpy) == call_capsules.digest_of(with_torch)


def test_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ENGINES, "marks", MARKS)
    words = ["record", "marks", "--case", CASE, "--out", str(tmp_path)]
    assert __main__.main(words) == 0
    (file,) = tmp_path.glob("*.json")
    assert f"passed {file}" in capsys.readouterr().out
    assert __main__.main(["replay", str(file)]) == 0
    assert f"marks passed {CASE}" in capsys.readouterr().out
    made = json.loads(file.read_text())
    file.write_text(json.dumps({**made, "verdict": "failed"}))
    assert __main__.main(["replay", str(file)]) == 1
    assert "the verdict was failed" in capsys.readouterr().err
    file.write_text("[]")
    with pytest.raises(SystemExit):
        __main__.main(["replay", str(file)])
