"""Files that migration cannot rewrite: Helm charts with their values, and patches of kustomize."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable
from webhook.cli.folders import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from webhook.cli.folders import NamedFiles
    from webhook.cli.migrations.outcomes import FileOutcome

__all__ = ["manual_changes"]

_RESOURCE = re.compile(r"[^#]*?(?<![\w.-])(nvidia\.com/(?:gpu|mig-\d+g\.\d+gb(?:\.me)?)(?:\.shared)?)[\"']?\s*:")
"""A resource that is requested; the labels of nodes have longer names."""
_PLACEHOLDER = "{{"
_CHART = "Chart.yaml"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
_CHART_ADVICE = (
    "is part of a Helm chart: replace it by `claims: [{name: gpu, request: CONTAINER}]` in the container's resources, add "
    "resourceClaims to the pod and a ResourceClaimTemplate to the chart; `helm template CHART | gpu-admission migrate -` shows "
    "both"
)
_PATCH_ADVICE = (
    "is a patch or a base that kustomize changes: write the claim into the base, and change only other fields by the patch; "
    "`kubectl kustomize FOLDER | gpu-admission migrate -` shows the result"
)
_TEMPLATE_ADVICE = "has placeholders: render it, and see the result with `... | gpu-admission migrate -`"


def manual_changes(paths: Iterable[str], outcomes: Iterable[FileOutcome], named: NamedFiles) -> Iterator[str]:
    """Sentences about lines to change by hand, which request GPUs: file, line, and what to write there."""
    read = {os.path.realpath(outcome.file.name) for outcome in outcomes}
    for path in paths:
        if os.path.isdir(path):
            for file in files_of(path, None, lambda _: None):
                if os.path.realpath(file) not in read and not named.option_of(file, path):
                    yield from _places(file)


def _places(file: str) -> Iterator[str]:
    try:
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError):
        return
    if _is_below(file, (_CHART,)):
        advice = _CHART_ADVICE
    elif _is_below(file, _KUSTOMIZATIONS):
        advice = _PATCH_ADVICE
    elif _PLACEHOLDER in text:
        advice = _TEMPLATE_ADVICE
    else:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _RESOURCE.match(line):
            yield printable(f"{file}:{number}: {found[1]} {advice}")


def _is_below(file: str, names: tuple[str, ...]) -> bool:
    """True if a folder above a file has a file of one of these names."""
    folder = os.path.dirname(os.path.abspath(file))
    while True:
        if any(os.path.exists(os.path.join(folder, name)) for name in names):
            return True
        parent = os.path.dirname(folder)
        if parent == folder:
            return False
        folder = parent
