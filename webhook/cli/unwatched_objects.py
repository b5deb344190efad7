"""Events of pods, and workloads: objects that commands read and no replica does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission import templates_of
from policies.fleet import may_request_gpu
from policies.kubernetes.objects import DEFAULT_NAMESPACE, namespace_of
from policies.kubernetes.pod_status import is_read_event
from policies.kubernetes.pod_templates import pod_of
from policies.kubernetes.view import ClusterView, PassingView, Unknown
from webhook.cluster.kind_reads import ABOUT_THE_KIND, Unreadable, read_list
from webhook.cluster.lists import LARGE_PAGE, workload_resources
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource


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


def gpu_workloads(
    listed: Iterable[Object], settings: GPUAdmissionPolicy, resource: Resource | None = None
) -> list[Object]:
    """The workloads among listed objects whose pods may request GPUs.

    Args:
        listed: The objects.
        settings: Name further kinds of workloads.
        resource: The resource of objects that are without `apiVersion` and `kind`, as in lists.
    """
    typed = {} if resource is None else {"apiVersion": resource.api_version, "kind": resource.kind}
    alone = ManifestsView()
    found = []
    for each in listed:
        document = {**typed, **each}
        templates = templates_of(document, alone, settings) if document.get("kind") != "Pod" else ()
        if any(may_request_gpu(pod_of(one.template, document, namespace_of(document))) for one in templates):
            found.append(document)
    return found


async def list_gpu_workloads(client: APIClient, settings: GPUAdmissionPolicy, namespace: str = "") -> list[Object]:
    """The workloads of a namespace, or of all, whose pods may request GPUs.

    Kinds that cannot be listed are left out.
    """
    found: list[Object] = []
    for resource in await workload_resources(client, settings):

        def keep(item: Object, resource: Resource = resource) -> Object | None:
            return next(iter(gpu_workloads([item], settings, resource)), None)

        wanted = Watched(resource).within(namespace)
        listed = await read_list(client, wanted, keep, limit=LARGE_PAGE, expected=ABOUT_THE_KIND)
        found += [] if isinstance(listed, Unreadable) else listed
    return found


class ViewWithWorkloads(PassingView):
    """A view of a cluster that knows workloads too."""

    def __init__(self, view: ClusterView, workloads: Iterable[Object]) -> None:
        """Put workloads, which have a kind, beside a view."""
        super().__init__(view)
        self._workloads: dict[str, list[Object]] = {}
        for each in workloads:
            self._workloads.setdefault(str(each["kind"]), []).append(each)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind; only those of one namespace if it is given."""
        found = self._workloads.get(kind)
        if found is None:
            return super().list(kind, namespace)
        return [each for each in found if namespace in ("", namespace_of(each))]
