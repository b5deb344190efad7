"""Objects to begin with, and clusters: the files of a checkout, copied before anything moves."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from testbed import libyaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


_RULES = "policies/rule_examples"
_FOLDERS = ("examples", _RULES, "tests/conversion/cases", "tests/configuration/valid")
_CASES = "cases"
"""In the folder `shared` beside the checkout, which may be missing: inputs on which the answer was wrong once."""
_CLUSTER_TOOL = "tools/make_cluster.py"
_REVIEWED = ("bypass", "plan", "explain-preemption", "claim-cel-mistakes", "multi-container-and-init")
"""Some of the examples."""
_NO_OBJECTS = ("Suite", "Kustomization", "ResourceSlice")
"""Kinds that no webhook is called for and no rule is about."""
_LARGE = "made"
CLUSTERS = {
    "quiet": ("cluster",),
    "quotas": ("cluster", "cluster-in-use", "cluster-with-quota"),
    "operator": ("cluster", "cluster-busy", "cluster-with-operator"),
}
"""Clusters, each with its folders in `examples`."""
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class Material:
    """Copied files."""

    objects: tuple[dict[str, Any], ...]
    """Objects with a kind, each once."""
    examples: Path
    """The examples with their suites."""
    inputs: tuple[Path, ...]
    """Folders whose files belong together, some with a folder `cluster`."""
    clusters: dict[str, Path]
    """Folders with the objects of clusters, by name."""
    rules: tuple[str, ...]
    """The ids of the rules."""


def collect(checkout: Path, folder: Path) -> Material:
    """Copy what there is into a folder that does not exist yet."""
    copied = []
    for name in _FOLDERS:
        target = folder / name.replace("/", "-")
        shutil.copytree(checkout / name, target)
        copied.append(target)
    shared = checkout.parent / "shared"
    if (shared / _CASES).exists():
        shutil.copytree(shared / _CASES, folder / _CASES)
        copied.append(folder / _CASES)
    examples = folder / "examples"
    clusters = {name: folder / "clusters" / name for name in CLUSTERS}
    for name, parts in CLUSTERS.items():
        for part in parts:
            shutil.copytree(examples / part, clusters[name] / part)
    if (shared / _CLUSTER_TOOL).exists():
        clusters[_LARGE] = folder / "clusters" / _LARGE
        command = [sys.executable, str(shared / _CLUSTER_TOOL), str(clusters[_LARGE]), "30", "60"]
        subprocess.run(command, check=True, capture_output=True)
        _fix_times(clusters[_LARGE])
    found = (each for source in copied for file in sorted(source.rglob("*")) for each in _objects_of(file))
    objects = (each for each in found if each["kind"] not in _NO_OBJECTS)
    rules = tuple(sorted(each.name for each in (checkout / _RULES).iterdir()))
    inputs = [*(examples / name for name in _REVIEWED), folder / _RULES.replace("/", "-")]
    inputs += sorted(file.parent for file in (folder / _CASES).rglob("input.yaml"))
    return Material(_unique_objects(objects), examples, tuple(inputs), clusters, rules)


def listed_objects(document: Any) -> Iterator[dict[str, Any]]:
    """The objects with a kind of a document, which may be a list of them or an AdmissionReview."""
    if isinstance(document, dict) and isinstance(document.get("kind"), str):
        if isinstance(items := document.get("items"), list):
            for item in items:
                yield from listed_objects(item)
        elif document["kind"] == "AdmissionReview":
            yield from listed_objects(document["request"]["object"])
        else:
            yield document


def write_manifests(file: Path, objects: Iterable[Any]) -> None:
    """Write objects as YAML documents; as a JSON list if the file is named `.json`."""
    if file.suffix == ".json":
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=1))
    else:
        file.write_text(yaml.safe_dump_all(objects, sort_keys=False, width=120))


def _objects_of(file: Path) -> Iterator[dict[str, Any]]:
    if file.suffix not in (".yaml", ".json"):
        return
    try:
        documents = list(libyaml.load_all(file.read_text()))
    except yaml.YAMLError:
        return  # some inputs are broken on purpose; they are tried as files
    for document in documents:
        # What YAML can say and JSON cannot, such as dates, becomes text.
        yield from listed_objects(json.loads(json.dumps(document, default=str)))


def _unique_objects(objects: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple({json.dumps(each, sort_keys=True): each for each in objects}.values())


def _fix_times(folder: Path) -> None:
    """Replace times that depend on today by fixed times in the same order."""
    texts = {file: file.read_text() for file in sorted(folder.iterdir())}
    times = sorted({time for text in texts.values() for time in _TIME.findall(text)})
    fixed = {
        time: f"2025-{1 + number // 672 % 12:02d}-{1 + number // 24 % 28:02d}T{number % 24:02d}:00:00Z"
        for number, time in enumerate(times)
    }
    for file, text in texts.items():
        file.write_text(_TIME.sub(lambda found: fixed[found[0]], text))
