"""Runs a small OpenAI-compatible server on fairdraw.sample, either correct or with one planted
fault.

The server has a model without weights. The row of a position is one of the captured logits, chosen
by the prompt, the last token and the step, so that streams visit all captured logits. `respond`
answers a request without HTTP.
"""

import hashlib
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import fairdraw
from fairdraw.verification import data_folder

VOCAB = 300
#: Maps a planted fault to the fault that the audit must name.
FAULTS = {
    "temperature_ignored": "temperature",
    "temperature_too_low": "temperature",
    "top_k_ignored": "top_k",
    "top_k_keeps_one_more": "top_k_off_by_one",
    "top_p_ignored": "top_p",
    "top_p_drops_the_crossing_token": "top_p_off_by_one",
    "min_p_ignored": "min_p",
    "temperature_after_filters": "order",
    "stray_tokens": "outside_support",
    "greedy_draws": "greedy",
    "seed_ignored": "seed_ignored",
    "seeds_alike": "seeds_alike",
    "unseeded_alike": "unseeded_alike",
    "unseeded_follow_seeds": "unseeded_follow_seeds",
    "choices_alike": "choices_alike",
    "neighbours": "neighbours",
    "logit_bias_ignored": "logit_bias",
    "penalties_ignored": "penalties",
    "repetition_penalty_hidden": "penalties_unasked",
    "stop_ignored": "stop",
    "stop_kept": "stop_kept",
    "n_ignored": "n",
    "logprobs_of_the_position_before": "logprobs_do_not_fit",
}


def captured_rows():
    """Returns [rows, VOCAB]: the largest logits of each captured row, in random order."""
    whole = np.load(data_folder() / "lm_logits_f32.npy")
    top = -np.sort(-whole, axis=1)[:, :VOCAB]
    return np.random.default_rng(1).permuted(top, axis=1).astype(np.float32)


ROWS = captured_rows()
TOKENS = [f"w{token:03d} " for token in range(VOCAB)]


def log_softmax(row):
    shifted = row.astype(np.float64) - row.max()
    return shifted - np.log(np.exp(shifted).sum())


def hashed(*parts):
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


#: Faults that texts show without log-probabilities.
FAULTS_OF_TEXTS = (
    "seed_ignored",
    "unseeded_follow_seeds",
    "neighbours",
    "logit_bias_ignored",
    "stop_ignored",
    "stop_kept",
    "n_ignored",
)


class Server:
    """A simulated server that answers the bodies of requests. `noise` is the largest error of the
    log-probabilities that the server reports.

    `numbers` selects log-probabilities in the form of the requested API, "chat" for all requests
    (as in llama.cpp's server), or "none". `rows` are the logits [rows, VOCAB].
    """

    def __init__(self, fault="", noise=0.0, kind="raw", noise_seed=0, numbers="usual", rows=ROWS):
        assert fault == "" or fault in FAULTS
        self.fault, self.noise, self.kind, self.numbers = fault, noise, kind, numbers
        self.rows = rows
        self.last_seed = 5
        self.random = np.random.default_rng(noise_seed)
        self.flying = 0
        self.lock = threading.Lock()
        self.refusals = 0  # number of requests that the server will still answer with status 503
        self.requests = 0

    def seed_of(self, body, choice):
        seed = body.get("seed")
        if seed is None and self.fault == "unseeded_follow_seeds":
            self.last_seed = seed = hashed("after", self.last_seed)
        elif seed is None:
            seed = 5 if self.fault == "unseeded_alike" else secrets.randbits(48)
        elif self.fault == "seed_ignored":
            seed = secrets.randbits(48)
        elif self.fault == "seeds_alike":
            seed = 5
        elif self.fault == "neighbours" and self.flying > 1:
            seed += 10**9 * self.flying
        else:
            self.last_seed = seed
        return hashed(seed, 0 if self.fault == "choices_alike" else choice)

    def draw(self, row, body, seed, step):
        temperature = body.get("temperature", 1.0)
        filters = {name: body.get(name, off) for name, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0))}  # fmt: skip
        if self.fault == "temperature_ignored" and temperature > 0:
            temperature = 1.0
        if self.fault == "temperature_too_low" and temperature not in (0, 1):
            temperature *= 0.8
        if self.fault == "greedy_draws" and temperature == 0:
            temperature = 0.5
        for name, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0)):
            if self.fault == f"{name}_ignored":
                filters[name] = off
        if self.fault == "top_k_keeps_one_more" and filters["top_k"] > 0:
            filters["top_k"] += 1
        if self.fault == "stray_tokens" and hashed(seed, step) % 50 == 0:
            filters = {}
        row = row[None].copy()
        if self.fault == "temperature_after_filters" and temperature > 0:
            first = fairdraw.sample(row, 1.0, **filters, seed=0, return_details=True)
            row[first.probs == 0] = -np.inf
            filters = {}
        if self.fault == "top_p_drops_the_crossing_token" and filters["top_p"] < 1:
            without = {**filters, "top_p": 1.0}
            probs = fairdraw.sample(row, temperature, **without, seed=0, return_details=True).probs
            order = np.argsort(-probs[0], kind="stable")
            crossed = np.cumsum(probs[0, order]) > filters["top_p"]
            crossed[0] = False
            row[0, order[crossed]] = -np.inf
            filters = {}
        details = self.kind == "processed"
        found = fairdraw.sample(
            row, temperature, **filters, seed=seed, offset=step, return_details=details
        )
        if details:
            with np.errstate(divide="ignore"):
                return int(found.tokens[0]), np.log(found.probs[0].astype(np.float64))
        return int(found[0]), None

    def choice(self, body, index):
        prompt = body.get("prompt") or body["messages"][0]["content"]
        seed = self.seed_of(body, index)
        stops = [] if self.fault == "stop_ignored" else body.get("stop", [])
        most = body.get("top_logprobs", body.get("logprobs"))
        tokens, entries, reason, before = [], [], "length", None
        for step in range(body["max_tokens"]):
            row = self.rows[hashed(prompt, tokens[-1:], step) % len(self.rows)]
            reported = log_softmax(row)
            if self.fault == "logprobs_of_the_position_before" and before is not None:
                reported, before = before, reported
            else:
                before = reported
            row = row.copy()
            if self.fault != "logit_bias_ignored":
                for token, bias in body.get("logit_bias", {}).items():
                    row[int(token)] += bias
            if self.fault != "penalties_ignored" and tokens:
                ids, counts = np.unique(tokens, return_counts=True)
                row[ids] -= (
                    body.get("presence_penalty", 0) + body.get("frequency_penalty", 0) * counts
                )
            # The hidden penalty is like llama.cpp's default repeat_penalty of 1.1.
            if self.fault == "repetition_penalty_hidden" and tokens:
                ids = np.unique(tokens)
                row[ids] = np.where(row[ids] > 0, row[ids] / 1.1, row[ids] * 1.1)
            token, processed = self.draw(row, body, seed, step)
            reported = reported if processed is None else processed
            reported = reported + self.noise * self.random.uniform(-1, 1, VOCAB)
            top = np.argsort(-reported, kind="stable")[:most]
            ids = [*top.tolist()] + ([] if token in top else [token])
            numbers = [max(float(reported[each]), -9999.0) for each in ids]
            own = max(float(reported[token]), -9999.0)
            entries.append((TOKENS[token], own, [TOKENS[each] for each in ids], numbers))
            tokens.append(token)
            text = "".join(TOKENS[each] for each in tokens)
            found = [text.index(stop) for stop in stops if stop in text]
            if found:
                text, reason = text if self.fault == "stop_kept" else text[: min(found)], "stop"
                break
        return {"index": index, "finish_reason": reason} | self.shaped(body, text, entries)

    def shaped(self, body, text, entries):
        chat = {"message": {"role": "assistant", "content": text}}
        answer = chat if "messages" in body else {"text": text}
        if self.numbers == "none":
            return answer
        if "messages" in body or self.numbers == "chat":
            content = [
                {
                    "token": token,
                    "logprob": own,
                    "bytes": list(token.encode()),
                    "top_logprobs": [
                        {"token": t, "logprob": v, "bytes": list(t.encode())}
                        for t, v in zip(names, numbers, strict=True)
                    ],
                }
                for token, own, names, numbers in entries
            ]
            return answer | {"logprobs": {"content": content}}
        logprobs = {
            "tokens": [token for token, *_ in entries],
            "token_logprobs": [own for _, own, *_ in entries],
            "top_logprobs": [
                dict(zip(names, numbers, strict=True)) for *_, names, numbers in entries
            ],
        }
        return answer | {"logprobs": logprobs}

    def respond(self, body):
        count = 1 if self.fault == "n_ignored" else body.get("n", 1)
        return {"choices": [self.choice(body, index) for index in range(count)]}


class LoopbackServer:
    """Runs a Server behind HTTP on a port of the loopback interface, as a context.

    If `answer` is given, it is called with the handler and the body of each request, and sends a
    response of any kind.
    """

    def __init__(self, server, answer=None):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                length = int(self.headers["Content-Length"])
                body = json.loads(self.rfile.read(length))
                with server.lock:
                    server.flying += 1
                    server.requests += 1
                    refused = server.refusals > 0
                    server.refusals -= int(refused)
                # The time that a model would take, so that requests overlap on a busy machine, too.
                time.sleep(0.03)
                status, value = 503, {"error": {"message": "busy"}}
                try:
                    if answer is not None:
                        return answer(self, body)
                    if not refused:
                        status, value = 200, server.respond(body)
                except (KeyError, ValueError) as error:
                    status, value = 400, {"error": {"message": str(error)}}
                # The server counts a request as done before it answers. The next request of a
                # client that waits for the answer therefore has no neighbour.
                with server.lock:
                    server.flying -= 1
                self.answer(status, value)

            def answer(self, status, value):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self.http.server_port}/v1"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()
