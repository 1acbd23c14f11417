"""Headless Chromium, driven by Playwright: where both are, and how they are started."""

import importlib.util
import os
import shutil
import sys


def enter_venv(venv):
    """Goes on in the Python of a virtual environment, where there is one."""
    python = venv / "bin" / "python" if venv else None
    if python and python.exists() and os.path.realpath(sys.prefix) != os.path.realpath(venv):
        os.execv(python, [str(python), *["-B"] * sys.dont_write_bytecode, *sys.argv])


def chromium():
    """The path of Chromium, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def missing(*modules):
    """What of Chromium and these modules is not installed."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return absent if chromium() else [*absent, "chromium"]


def launch(playwright):
    # As root, as in a container, Chromium has no sandbox; it opens our own files alone.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=chromium(), args=flags)
