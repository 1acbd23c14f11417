"""Runs llama.cpp's own server, which the package xllamacpp contains compiled: llama_cpp_server.py
MODEL PORT.

The server has eight slots, because an audit has eight requests in flight.
"""

import sys
import threading

import xllamacpp

parameters = xllamacpp.CommonParams()
parameters.model.path = sys.argv[1]
parameters.hostnames = ["127.0.0.1"]
parameters.port = int(sys.argv[2])
parameters.n_parallel = 8
parameters.n_ctx = 4096
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.warmup = False
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
threading.Event().wait()
