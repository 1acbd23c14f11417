"""Finds headless Chromium and Playwright, and starts them."""

import importlib.util
import os
import shutil
import sys


def enter_venv(venv):
    """Starts this script again with the Python of a virtual environment, if there is one."""
    python = venv / "bin" / "python" if venv else None
    if python and python.exists() and os.path.realpath(sys.prefix) != os.path.realpath(venv):
        os.execv(python, [str(python), *["-B"] * sys.dont_write_bytecode, *sys.argv])


def chromium():
    """Returns the path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def missing(*modules):
    """Returns the names of Chromium and of the given modules, as far as they are not installed."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return absent if chromium() else [*absent, "chromium"]


def launch(playwright):
    # As root, for example in a container, Chromium runs without a sandbox; it opens only the project's own
    # files.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=chromium(), args=flags)
