"""Objects to mutate: those of the examples, the rules and our tests."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policies.admission import load_rules
from policies.admission.all_rules import rule_book
from testbed import libyaml
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cluster_seeds", "seeds"]

_ROOT = Path(__file__).parents[3]
_FOLDERS = ("examples", "tests/conversion/cases", "tests/configuration/valid", "deploy/base/api")
_CLUSTER = ("examples/cluster", "examples/cluster-with-quota")


@cache
def seeds() -> tuple[dict[str, Any], ...]:
    """Objects with a kind, each once."""
    load_rules()
    texts = [file.read_text() for folder in _FOLDERS for file in _files(_ROOT / folder)]
    texts += [text for rule in rule_book().rules for text in read_examples(rule.id)]
    return _once(each for text in texts for each in _objects(text))


@cache
def cluster_seeds() -> tuple[dict[str, Any], ...]:
    """The objects of the cluster of the examples, with quotas."""
    return _once(each for folder in _CLUSTER for file in _files(_ROOT / folder) for each in _objects(file.read_text()))


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in (".yaml", ".json"))


def _objects(text: str) -> Iterator[dict[str, Any]]:
    for document in libyaml.load_all(text):
        for item in unwrap_lists(document):
            # What YAML can say and JSON cannot, such as dates, is not sent to a webhook.
            yield json.loads(json.dumps(item, default=str))


def _once(objects: Iterator[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    return tuple({json.dumps(each, sort_keys=True): each for each in objects}.values())
