"""Base class of the tests of the command line: it has a folder, calls of the program, and access to its
report."""

import json
import os
import shlex
import struct
import subprocess
import sys
import tempfile
import unittest

BINARY = None


def take_binary():
    """Removes the path of the program, which is the first argument, from the command line."""
    global BINARY
    BINARY = os.path.abspath(sys.argv.pop(1))


def npy(shape, values, descr="<f4", code="f"):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += " " * (64 - (10 + len(header) + 1) % 64) + "\n"
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    return head + struct.pack("<%d%s" % (len(values), code), *values)


class CommandLineCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.logits = self.path("logits.npy")
        with open(self.logits, "wb") as file:
            file.write(npy("(2, 8)", [0, 1, 2, 3, 2, 1, 0, -1, 5, 0, 0, 0, 0, 0, 0, 0]))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def run_fairdraw(self, *arguments, bad=None):
        environment = dict(os.environ, **({"FAIRDRAW_BAD": bad} if bad else {}))
        return subprocess.run([BINARY, *arguments], cwd=self.folder.name, capture_output=True,
                              text=True, timeout=900, check=False, env=environment)

    def typed(self, replay):
        """Returns a record's replay line as the program prints it, with the path by which the program was
        called.
        """
        self.assertTrue(replay.startswith("./fairdraw "), replay)
        return shlex.quote(BINARY) + replay.removeprefix("./fairdraw")

    def expect_usage_error(self, *arguments, says):
        result = self.run_fairdraw(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for word in says:
            self.assertIn(word, result.stderr)

    def verify(self, folder, *more):
        return self.run_fairdraw("verify", "--suite", "smoke", "--seed", "11", "--case",
                                 "*/v31/*", "--report", self.path(folder), *more)

    def record(self, folder):
        return os.path.join(self.path(folder), "report.json")

    def edited(self, name, folder, change):
        """Writes the record of `folder` after `change` to a new file, and returns the path of this file."""
        with open(self.record(folder), encoding="utf-8") as file:
            record = json.load(file)
        change(record)
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(record, file)
        return self.path(name)

    def report(self, folder):
        with open(os.path.join(self.path(folder), "report.json"), encoding="utf-8") as file:
            report = json.load(file)
        report.pop("environment")
        report.pop("seconds")
        for entry in report["cases"]:
            entry.pop("seconds")
        return report
