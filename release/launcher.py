#!/usr/bin/env python3
"""Starts the plugin with the packages beside it, for the Python that runs it."""

import sys
from pathlib import Path

LIB = Path(__file__).resolve().parent / "lib"
VERSION = ".".join(map(str, sys.version_info[:2]))

if not (LIB / VERSION).is_dir():
    found = sorted((path.name for path in LIB.glob("3.*")), key=lambda name: int(name.partition(".")[2]))
    sys.exit(f"kubectl gpu needs Python {found[0]} to {found[-1]}; python3 is {VERSION}")
sys.path[:0] = [str(LIB / VERSION), str(LIB / "common")]

from webhook.cli.kubectl_plugin import main  # noqa: E402 - found in the folders added above

main()
