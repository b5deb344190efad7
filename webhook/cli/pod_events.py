"""Events of pods, which commands read and no replica does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import DEFAULT_NAMESPACE, namespace_of
from policies.kubernetes.pod_status import is_read_event
from policies.kubernetes.view import ClusterView, PassingView, Unknown
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, read_list
from webhook.cluster.lists import LARGE_PAGE
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient


_EVENT = "Event"
POD_EVENTS = Watched(RESOURCES[_EVENT], fields=("involvedObject.kind=Pod", "type=Warning"))
"""The warnings about pods, of which a cluster keeps those of the last hour."""
WITHOUT_EVENTS = "it is unknown why a node does not prepare the claims of a pod"
"""The consequence if they cannot be read."""


async def read_pod_events(client: APIClient, namespace: str = "") -> list[Object] | Unreadable:
    """The warnings about pods that explanations read, of one namespace or of all; or why they are unknown."""
    wanted = POD_EVENTS.within(namespace)
    return await read_list(client, wanted, _kept_event, limit=LARGE_PAGE, expected=ABOUT_THE_KIND)


def _kept_event(event: Object) -> Object | None:
    return event if is_read_event(event) else None


async def with_pod_events(client: APIClient, view: ClusterView, namespace: str = "") -> tuple[ClusterView, list[str]]:
    """The view with the events of pods, and a note if they cannot be read, without a full stop."""
    found = await read_pod_events(client, namespace)
    if isinstance(found, Unreadable):
        return view, [f"{found.clause}, so {WITHOUT_EVENTS}"]
    return ViewWithEvents(view, found, namespace), []


class ViewWithEvents(PassingView):
    """A view of a cluster that knows the events of pods too."""

    def __init__(self, view: ClusterView, events: Sequence[Object], namespace: str = "") -> None:
        """Put events beside a view.

        Args:
            view: The cluster.
            events: Events of pods.
            namespace: The only namespace of the events; empty if they are of all.
        """
        super().__init__(view)
        self._events: dict[str, list[Object]] = {}
        self._namespace = namespace
        for each in events:
            self._events.setdefault(namespace_of(each) or DEFAULT_NAMESPACE, []).append(each)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        if kind != _EVENT or self._namespace not in ("", namespace):
            return super().list(kind, namespace)
        return (
            self._events.get(namespace, [])
            if namespace
            else [each for found in self._events.values() for each in found]
        )
