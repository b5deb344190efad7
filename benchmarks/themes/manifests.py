"""Reading the manifests of a cluster offline, beside the parsers alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from benchmarks.devices import node, resource_slice
from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.timing import time_in_turns
from webhook.cli.manifest_reader import ManifestReader

if TYPE_CHECKING:
    from collections.abc import Callable

THEME = Theme(
    title="Reading manifests",
    text="""A list of 300 nodes and their ResourceSlices, 2,400 GPUs, in the form that `kubectl get -o json` or `-o yaml` prints.
CPU time of reading the file for a review, beside the parser alone: `json` of Python, and the C parser of PyYAML.""",
)
NODES = 300
ROUNDS = 3


def measure() -> list[Figure]:
    """One figure for each form."""
    items = [item for number in range(NODES) for item in (node(number), resource_slice(number))]
    cluster = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for form, text, parse, aim, limit in (
            ("JSON", json.dumps(cluster, indent=4), json.loads, 2.5, 4.0),
            ("YAML", yaml.dump(cluster, Dumper=yaml.CSafeDumper), _load_yaml, 0.5, 1.2),
        ):
            file = Path(folder, f"cluster.{form.lower()}")
            file.write_text(text)
            read, control = _reader(file), _parser(parse, text)
            rounds = time_in_turns(read, control, rounds=ROUNDS)
            figures.append(figure_of_rounds(form, rounds, unit="ms", beside="the parser alone", aim=aim, limit=limit))
    return figures


def _reader(file: Path) -> Callable[[], object]:
    return lambda: ManifestReader().cluster([str(file)])


def _parser(parse: Callable[[str], object], text: str) -> Callable[[], object]:
    return lambda: parse(text)


def _load_yaml(text: str) -> object:
    return yaml.load(text, yaml.CSafeLoader)
