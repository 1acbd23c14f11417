"""Starts engines' servers on a port of the loopback interface, each with the tiny model."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

#: Seconds that a server may take to load a model of 0.6 MB, including torch's import on a busy
#: machine.
STARTS_WITHIN = 180


def free_port() -> int:
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        return there.getsockname()[1]


@contextlib.contextmanager
def running(command, log: Path):
    """Starts `command` with a port appended, yields the base URL, and ends the process."""
    port = free_port()
    base_url = f"http://127.0.0.1:{port}/v1"
    # A tiny model is slower on several threads than on one thread.
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, str(port)], stdout=output, stderr=output, env=environment
        )
        try:
            deadline = time.monotonic() + STARTS_WITHIN
            while True:
                assert process.poll() is None, f"the server ended: {log.read_text()[-2000:]}"
                assert time.monotonic() < deadline, f"no answer: {log.read_text()[-2000:]}"
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{base_url}/models", timeout=5).status_code == 200:
                        break
                time.sleep(0.2)
            yield base_url
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def llama_server(model: Path, log: Path):
    """Runs llama.cpp's own server."""
    program = Path(__file__).with_name("llama_cpp_server.py")
    return running([sys.executable, str(program), str(model)], log)


def llama_cpp_python(model: Path, log: Path):
    """Runs llama-cpp-python's server, which gives log-probabilities only with --logits_all."""
    words = ["--model", str(model), "--logits_all", "true", "--n_ctx", "1024", "--n_threads", "1"]
    words += ["--verbose", "false", "--host", "127.0.0.1", "--port"]
    return running([sys.executable, "-m", "llama_cpp.server", *words], log)


def transformers_serve(model: Path, log: Path):
    """Runs `transformers serve`, whose requests must name the model by its path."""
    program = Path(sys.executable).with_name("transformers")
    words = ["serve", str(model), "--device", "cpu", "--host", "127.0.0.1", "--port"]
    return running([str(program), *words], log)
