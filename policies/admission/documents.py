"""Documents: what is wrong with the YAML or JSON of an object before the object itself is reviewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import EVERY_KIND, Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.rules.decision import Finding

__all__ = ["duplicate_keys"]

DUPLICATE_KEY = rule(
    "GA710",
    "A mapping of a manifest must not have the same key twice",
    default=Severity.DENY,
    why="""
    YAML and JSON forbid it, and readers differ: kubectl and Helm silently send the last value and drop the others, while
    kustomize, and with it Argo CD and Flux, refuses the document. Only an offline review sees it, because the API server
    gets what kubectl made of it.""",
    remedy="keep one of them",
    source="YAML 1.2.2, 3.2.1.1; sigs.k8s.io/yaml YAMLToJSON; go.yaml.in/yaml/v3 decode.go: mapping key already defined",
    offline=True,
    kinds=(EVERY_KIND,),
)


_OUTCOME = "kubectl silently keeps only the last value"


def duplicate_keys(duplicates: Mapping[FieldPath, Sequence[int]]) -> Iterator[Finding]:
    """A finding for each key that an object has more than once.

    Two objects in one document have one finding for all keys that they share.

    Args:
        duplicates: The lines of each such key, by the path of its value.
    """
    version, kind = FieldPath(["apiVersion"]), FieldPath(["kind"])
    if version in duplicates and kind in duplicates:
        second = duplicates[version][1]
        message = f"another object begins near line {second} without a line --- before it; {_OUTCOME} of each key"
        yield DUPLICATE_KEY.finding(version, message, "write a line --- between the objects")
        duplicates = {path: lines for path, lines in duplicates.items() if len(path) > 1}
    for path, lines in duplicates.items():
        *before, last = lines
        others = ", ".join(map(str, before))
        message = (
            f"duplicate key {shown(path[-1])}: given at line{'s' * (len(before) > 1)} {others} and again at line {last}; "
            f"{_OUTCOME}"
        )
        yield DUPLICATE_KEY.finding(FieldPath(path), message)
