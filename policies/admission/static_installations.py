"""Our objects in the files of an API server, compared with the settings and with the API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.admission_policies import STATIC_SUFFIX
from policies.admission.static_policies import compile_policies
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import lookup, mappings_at, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


_OURS = f".gpu-admission{STATIC_SUFFIX}"
_POLICY = "ValidatingAdmissionPolicy"
_MOST_NAMES = 5


def is_static_configuration(document: Object) -> bool:
    """True if an object is one of our webhook configurations for the files of an API server."""
    return name_of(document) == _OURS.removeprefix(".") and str(document.get("kind")).endswith("WebhookConfiguration")


def outdated_policies(
    documents: Sequence[Object], settings: GPUAdmissionPolicy, views: Sequence[ClusterView]
) -> Iterator[str]:
    """Sentences on policies that are not what this version compiles, without full stops.

    Args:
        documents: The objects of the files.
        settings: The settings in use.
        views: What the policies may be compiled for: nothing known, and the cluster. One of them must agree.
    """
    found = {
        (str(each["kind"]), name_of(each)): each.get("spec")
        for each in documents
        if str(each.get("kind")).startswith(_POLICY) and name_of(each).endswith(_OURS)
    }
    least: list[str] | None = None
    for view in views:
        compiled = {
            (str(each["kind"]), name_of(each)): each["spec"]
            for policy in compile_policies(settings, view)
            for each in policy.documents(static=True)
        }
        differing = sorted({key for key in compiled.keys() | found.keys() if compiled.get(key) != found.get(key)})
        # Of a policy and its binding, one is enough.
        names = [*dict.fromkeys(f"{key[1]} {_state(found.get(key), compiled.get(key))}" for key in differing)]
        least = names if least is None or len(names) < len(least) else least
    if least:
        yield (
            "render the files of the API server again, with deploy/render.py --static: they are not what this version makes "
            f"of the settings in use ({format_list(least, _MOST_NAMES)})"
        )


def _state(found: object, compiled: object) -> str:
    return "is missing" if found is None else "is not needed" if compiled is None else "differs"


def doubled_webhooks(static: Iterable[Object], stored: Iterable[Object]) -> list[str]:
    """The names of the webhooks that are in files of an API server, and in its API too."""
    in_files, in_api = (
        {
            (str(configuration["kind"]), str(lookup(webhook, ("name",))))
            for configuration in configurations
            for webhook in mappings_at(configuration, ("webhooks",))
        }
        for configurations in (static, stored)
    )
    return sorted({name for _, name in in_files & in_api})
