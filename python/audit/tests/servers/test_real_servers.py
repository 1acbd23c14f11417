"""Tests audits of real servers over HTTP on the loopback interface. The script `run` installs the
servers.

A correct server passes. The audit must name the server setting that deviates from the claim. The
audit must name each behaviour of a server that deviates from the API, and a few direct requests
confirm the behaviour.
"""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

if not os.environ.get("FAIRDRAW_SERVERS"):
    pytest.skip("python/audit/tests/servers/run makes the servers", allow_module_level=True)

import httpx
import real_servers
import tiny_model

from fairdraw_audit.command import main

#: Words of the vocabulary, none of which ends a text.
BIAS_TOKENS = (tiny_model.FIRST_WORD + 41, tiny_model.FIRST_WORD + 42)
FILTERS = ["--temperature", "0.7", "--top-k", "8", "--top-p", "0.9", "--min-p", "0.05"]
#: llama.cpp's order of filters, with the temperature last.
CHAIN = ["--order", "top_k,top_p,min_p,temperature"]
PROMPT = "Once upon a time"


def audit(base_url, model, folder, *words):
    """Returns the exit code, a map from each check to (verdict, message), and the first line of the
    verdict's notes."""
    ids = ",".join(map(str, BIAS_TOKENS))
    where = ["--base-url", base_url, "--model", str(model), "--report", str(folder)]
    code = main([*where, "--bias-tokens", ids, *words])
    report = json.loads((folder / "report.json").read_text())
    checks = {
        case["id"].removeprefix("audit/"): (case["verdict"], case["message"])
        for case in report["cases"]
    }
    print(folder.name, f"exit {code}", *(f"{k}: {v}" for k, v in checks.items()), sep="\n  ")
    return code, checks, report["samplers"][0]["notes"][0]


def failed(checks):
    return {name for name, (verdict, _) in checks.items() if verdict == "failed"}


def ask(base_url, model, endpoint="completions", **more):
    """Returns the response to one request, which is sent without the audit."""
    body = {"model": str(model), "max_tokens": 12, "temperature": 0.7, **more}
    if endpoint == "chat/completions":
        body["messages"] = [{"role": "user", "content": PROMPT}]
    else:
        body["prompt"] = PROMPT
    return httpx.post(f"{base_url}/{endpoint}", json=body, timeout=60)


def texts(response):
    assert response.status_code == 200, response.text
    return [each.get("text") or each["message"]["content"] for each in response.json()["choices"]]


# --- llama.cpp's server ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gguf(tmp_path_factory):
    return tiny_model.write_gguf(tmp_path_factory.mktemp("model") / "tiny.gguf")


@pytest.fixture(scope="module")
def llama_server(gguf, tmp_path_factory):
    with real_servers.llama_server(gguf, tmp_path_factory.mktemp("llama") / "log") as url:
        yield url


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
def test_llama_server_is_not_accused(llama_server, tmp_path, endpoint):
    code, checks, _ = audit(
        llama_server, "tiny", tmp_path, *FILTERS, *CHAIN, "--endpoint", endpoint
    )
    assert code == 0, checks
    assert all(verdict == "passed" for verdict, _ in checks.values()), checks


def chain(*filters):
    """Returns the field that replaces the server's chain of samplers, so that the server ignores
    all other claimed steps."""
    return {"samplers": ["penalties", *filters]}


#: Maps a deviation to the claim, the server's switch for the deviation, and the fault that the
#: audit must name.
SWITCHES = {
    "temperature first": ([], {}, "in another order"),
    "no temperature": (CHAIN, chain("top_k", "top_p", "min_p"), "temperature is another"),
    "no top_k": (CHAIN, chain("top_p", "min_p", "temperature"), "top_k is ignored"),
    "no top_p": (CHAIN, chain("top_k", "min_p", "temperature"), "top_p is ignored"),
    "no min_p": (CHAIN, chain("top_k", "top_p", "temperature"), "min_p is ignored"),
    "no penalties": (
        CHAIN,
        {"samplers": ["top_k", "top_p", "min_p", "temperature"]},
        "presence_penalty or frequency_penalty is ignored",
    ),
    "one seed": (CHAIN, {"seed": 7}, "all seeds give the same tokens"),
    "no seed": (CHAIN, {"seed": -1}, "the same seed gives other tokens"),
}


@pytest.mark.parametrize("switch", SWITCHES)
def test_what_llama_server_is_told_otherwise_is_named(llama_server, tmp_path, switch):
    order, extra, cause = SWITCHES[switch]
    words = [*FILTERS, *order, "--extra", json.dumps(extra)]
    code, _, note = audit(llama_server, "tiny", tmp_path, *words)
    assert code == 1 and note.startswith("First cause: ") and cause in note, note


# --- llama-cpp-python's server ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def llama_cpp_python(gguf, tmp_path_factory):
    pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
    with real_servers.llama_cpp_python(gguf, tmp_path_factory.mktemp("llama_cpp") / "log") as url:
        yield url


def test_llama_cpp_python_is_accused_of_what_it_does(llama_cpp_python, gguf, tmp_path):
    # Requests to llama-cpp-python have a repeat_penalty of 1.1 by default, which the
    # log-probabilities do not show.
    code, checks, _ = audit(llama_cpp_python, gguf, tmp_path / "default", *FILTERS, *CHAIN)
    assert code == 1 and failed(checks) > {"n/differ", "unseeded/after_seeds", "greedy"}, checks
    plain = ["--extra", json.dumps({"repeat_penalty": 1.0})]
    code, checks, _ = audit(llama_cpp_python, gguf, tmp_path / "plain", *FILTERS, *CHAIN, *plain)
    assert code == 1 and failed(checks) == {"n/differ", "unseeded/after_seeds"}, checks


def test_llama_cpp_python_penalises_what_no_request_penalises(llama_cpp_python, gguf):
    greedy = {"temperature": 0, "max_tokens": 32}
    asked = texts(ask(llama_cpp_python, gguf, **greedy, repeat_penalty=1.1))
    assert texts(ask(llama_cpp_python, gguf, **greedy)) == asked
    assert texts(ask(llama_cpp_python, gguf, **greedy, repeat_penalty=1.0)) != asked


def test_llama_cpp_python_draws_unseeded_requests_from_the_seed_before(llama_cpp_python, gguf):
    following = []
    for _ in range(2):
        ask(llama_cpp_python, gguf, seed=3)
        following += texts(ask(llama_cpp_python, gguf))
    assert following[0] == following[1] != texts(ask(llama_cpp_python, gguf))[0]


def test_llama_cpp_python_answers_n_with_one(llama_cpp_python, gguf):
    assert len(texts(ask(llama_cpp_python, gguf, n=4))) == 1


# --- transformers serve ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformers_serve(tmp_path_factory):
    folder = tmp_path_factory.mktemp("transformers")
    model = tiny_model.write_transformers(folder / "model", do_sample=True)
    with real_servers.transformers_serve(model, folder / "log") as url:
        yield url, model


#: A claim without log-probabilities, which transformers' server does not report, and without top_k
#: and min_p, which the server refuses.
TEXTS = ["--temperature", "0.7", "--top-p", "0.9", "--top-k-off", "omit"]
TEXTS += ["--budget-tokens", "2400", "--max-tokens", "8"]


def test_transformers_serve_is_accused_of_what_it_does(transformers_serve, tmp_path):
    code, checks, _ = audit(*transformers_serve, tmp_path, *TEXTS)
    assert code == 1, checks
    assert failed(checks) == {
        "seeds/under_load",
        "unseeded/after_seeds",
        "n/differ",
        "logit_bias",
        "stop",
    }
    assert checks["seeds/repeat"][0] == "passed"  # without neighbouring requests a seed works
    assert "still has" in checks["stop"][1] or "has the stop string" in checks["stop"][1]


def test_transformers_serve_refuses_whole_biases_in_chats(transformers_serve, tmp_path):
    _, checks, _ = audit(*transformers_serve, tmp_path, *TEXTS, "--endpoint", "chat")
    assert "requests failed (bias)" in checks["requests"][1]
    assert "HTTP 500" in checks["requests"][1]
    assert {"seeds/under_load", "unseeded/after_seeds", "n/differ", "stop"} == failed(checks)


def test_transformers_serve_mixes_seeds_of_requests_in_flight(transformers_serve):
    alone = [texts(ask(*transformers_serve, seed=seed)) for seed in range(8)]
    assert alone == [texts(ask(*transformers_serve, seed=seed)) for seed in range(8)]
    with ThreadPoolExecutor(8) as together:
        loaded = list(
            together.map(lambda seed: texts(ask(*transformers_serve, seed=seed)), range(8))
        )
    assert sum(one == other for one, other in zip(alone, loaded, strict=True)) <= 1


def test_transformers_serve_draws_unseeded_requests_from_the_seed_before(transformers_serve):
    following = []
    for _ in range(2):
        ask(*transformers_serve, seed=3)
        following += texts(ask(*transformers_serve))
    assert following[0] == following[1]


def test_transformers_serve_ignores_or_fails_what_it_takes(transformers_serve):
    plain = texts(ask(*transformers_serve, temperature=0))
    word = str(BIAS_TOKENS[0])
    assert texts(ask(*transformers_serve, temperature=0, logit_bias={word: 100})) == plain
    chat = {"endpoint": "chat/completions", "temperature": 0}
    assert ask(*transformers_serve, **chat, logit_bias={word: 100}).status_code == 500
    biased = texts(ask(*transformers_serve, **chat, logit_bias={word: 100.0}))
    assert set(biased[0].split()) == {tiny_model.WORDS[41]}
    assert texts(ask(*transformers_serve, temperature=0, presence_penalty=2.0)) == plain
    assert ask(*transformers_serve, temperature=0, frequency_penalty=-1.5).status_code == 500
    assert len(texts(ask(*transformers_serve, n=4))) == 1
    stop = plain[0][8:11]
    assert stop in texts(ask(*transformers_serve, temperature=0, stop=[stop]))[0]
    assert ask(*transformers_serve, top_k=5).status_code == 422


def test_transformers_serve_needs_do_sample_of_the_model(tmp_path):
    # The model is written without generation defaults.
    model = tiny_model.write_transformers(tmp_path / "model")
    with real_servers.transformers_serve(model, tmp_path / "log") as url:
        drawn = {texts(ask(url, model, temperature=1.5, seed=seed))[0] for seed in range(6)}
        assert drawn == set(texts(ask(url, model, temperature=0)))
        _, checks, _ = audit(url, model, tmp_path / "report", *TEXTS)
    assert "outputs of different seeds are equal" in checks["seeds/repeat"][1]
