"""Explanations of a question, with suggestions that were tried and remarks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.explain.claim_changes import WishChange, converted_claim, wish_changes
from policies.analyses.explain.explanations import (
    Change,
    Explanation,
    Peers,
    ReviewWarning,
    Suggestion,
    redacted_explanation,
)
from policies.analyses.explain.relaxations import Relaxation, relaxations
from policies.conversion.surroundings import kubelets_read_claims, one_way_per_node
from policies.devices.device_taint_rules import KIND
from policies.fleet.bound_pods import start_reasons, unhealthy_devices_of
from policies.fleet.device_evictions import pods_with_evicting_taints
from policies.fleet.device_plugin import nodes_with_both, old_kubelets
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list, format_ranges, inflect, printable, shorten
from policies.kubernetes.nodes import node_taint
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    controller_of,
    has_ended,
    items_at,
    lookup,
    name_of,
    namespace_of,
)
from policies.kubernetes.pod_status import is_rejected, waiting_containers
from policies.kubernetes.pods import Pod
from policies.kubernetes.quantities import ONE, resource_amount
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.outcome import EVERYTHING, Feasibility, Obstacle, ObstacleKind, question_warnings, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.devices.resource_claims import Claim
    from policies.kubernetes.nodes import Taint
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience, DeviceShortage, PlacementOutcome, Question
    from policies.rules.settings import GPUAdmissionPolicy


_MOST_NAMED = 3
_NO_PREEMPTION = "the scheduler does not end pods of lower priority by itself to free devices of claims"


def remarks(outcome: PlacementOutcome, view: ClusterView) -> Iterator[str]:
    """Assumptions about unknown facts, and problems of nodes."""
    question = outcome.question
    if not outcome.fit_now and (not outcome.nodes or outcome.missing):
        yield "nodes that do not exist yet, such as those that an autoscaler adds, are not judged"
    yield from (each.sentence for each in outcome.assumptions)
    if question.pod is None:
        yield "a claim alone has no tolerations and no node selector, so taints and labels of nodes are ignored"
    nodes = view.known_objects("Node") if question.tolerations_added else ()
    tainted = {str(lookup(taint, ("key",))) for node in nodes for taint in items_at(node, ("spec", "taints"))}
    for key in question.tolerations_added:
        if key in tainted:
            yield f"this counts the toleration for {shorten(key)} that placement adds to the pod"
    if question.conditions_added:
        yield "this counts the conditions on nodes that placement adds to the pod; gpu-admission review shows them"
    if question.pod is not None and question.pod.spec.get("schedulerName") not in (None, "", "default-scheduler"):
        name = question.pod.spec["schedulerName"]
        yield f"the pod is for scheduler {name}; this is what the default scheduler would do"
    warned, audience = {warning.rule for warning in question.warnings}, outcome.audience
    has_gpus = question.claims or question.requests_gpu_resources
    both = nodes_with_both(view) if has_gpus and one_way_per_node.rule not in warned else ()
    if both:
        yield (
            f"{audience.nodes(both, _MOST_NAMED)} {'hands' if len(both) == 1 else 'hand'} out the same GPUs by device plugin and by "
            "DRA, so a pod can get a GPU there that another pod has"
        )
    kubelets = old_kubelets(view) if question.claims and kubelets_read_claims.rule not in warned else ()
    if kubelets:
        yield (
            f"{audience.nodes([each.node for each in kubelets], _MOST_NAMED)} {'has a kubelet' if len(kubelets) == 1 else 'have kubelets'} "
            f"before 1.34 ({printable(kubelets[0].version)}), which cannot read claims of resource.k8s.io/v1, so the pod would "
            "not start there"
        )
    if isinstance(view.get("Namespace", question.namespace), dict) or question.pod is None or question.converted_to:
        return
    if question.resources.keys() & {GPU_RESOURCE}:
        yield f"namespace {question.namespace} is unknown, so the pod counts as not converted"


_MOST_TRIED = 12
_MOST_COUNTS = 4
_MOST_BOUNDS = 3
_MOST_TOLD = 3


def suggestions(outcome: PlacementOutcome, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Suggestion, ...]:
    """Changes that make it fit now; if there are none, changes that would in an empty cluster."""
    wishes = tuple(islice(wish_changes(outcome.question, view, settings), _MOST_TRIED))
    now = _helpful_changes(outcome, wishes, only_if_empty=False)
    if now or outcome.fit_if_empty:
        return (*now, *_pods_to_end(outcome))
    return _helpful_changes(outcome, wishes, only_if_empty=True)


def _helpful_changes(
    outcome: PlacementOutcome, wishes: tuple[WishChange, ...], *, only_if_empty: bool
) -> tuple[Suggestion, ...]:
    helping = list(_changes_of_wishes(outcome, wishes, only_if_empty=only_if_empty))
    helped: set[tuple[str | int, ...]] = set()
    question, shortages = outcome.question, outcome.device_shortages(if_empty=only_if_empty)
    nodes = [each.positions for each in shortages]
    for relaxation in _candidates(shortages, question, wishes):
        if relaxation.topic in helped:
            continue
        changed = question.with_claim(relaxation.number, relaxation.claim)
        found = outcome.fits_with(changed, nodes, if_empty=only_if_empty)
        if found.nodes:
            helped.add(relaxation.topic)
            helping.append(
                Suggestion(
                    relaxation.change,
                    relaxation.sentence,
                    "" if relaxation.is_of_manifest else question.claims[relaxation.number].name,
                    "" if relaxation.is_of_manifest else relaxation.request,
                    found.nodes,
                    at_least=found.at_least,
                    only_if_empty=only_if_empty,
                )
            )
    helping += () if only_if_empty else _changes_of_pod(outcome)
    return tuple(helping[:_MOST_TOLD])


def _candidates(
    shortages: Iterable[DeviceShortage], question: Question, wishes: tuple[WishChange, ...]
) -> list[Relaxation]:
    """The relaxations to try: those on most nodes first, and lower counts last.

    Conditions that conversion derived from a wish are left to the changes of wishes; both count as tried.
    """
    topics: dict[tuple[str | int, ...], dict[str, Relaxation]] = {}
    counts: list[Relaxation] = []
    claims = question.claims
    converted = converted_claim(question.pod, claims)
    if converted is not None:
        topics |= {each.topic: {each.sentence: each} for each in converted.label_changes()}
    for shortage in shortages:
        check_cancelled()
        for relaxation in relaxations(shortage, claims):
            of_manifest: Relaxation | None = relaxation
            if converted is not None and relaxation.number == converted.number:
                of_manifest = converted.in_manifest(relaxation)
            if of_manifest is None:
                continue
            if of_manifest.change is Change.COUNT:
                counts.append(of_manifest)
            else:
                topics.setdefault(of_manifest.topic, {}).setdefault(of_manifest.sentence, of_manifest)
    others = [each for topic in topics.values() for each in _nearest(topic.values())]
    counts = list({each.sentence: each for each in sorted(counts, key=lambda each: each.loss, reverse=True)}.values())
    return others[: _MOST_TRIED - len(wishes)] + counts[:_MOST_COUNTS]


def _nearest(relaxations_of_topic: Iterable[Relaxation]) -> list[Relaxation]:
    """The smallest changes, and the largest one."""
    ordered = sorted(relaxations_of_topic, key=lambda each: each.loss)
    return [*ordered[:_MOST_BOUNDS], ordered[-1]] if len(ordered) > _MOST_BOUNDS else ordered


def _changes_of_pod(outcome: PlacementOutcome) -> Iterator[Suggestion]:
    """Changes of the pod: tolerations for the taints of nodes, or less of an extended resource."""
    question = outcome.question
    for taints, tainted in sorted(outcome.tainted_nodes().items(), key=lambda item: (len(item[0]), -len(item[1]))):
        # A toleration does not help if a node is broken, or not for workloads.
        if all(node_taint(taint.key) is None for taint in taints):
            words = format_list([shorten(str(taint)) for taint in taints])
            several = len(taints) > 1
            what = f"tolerations for the node taints {words}" if several else f"a toleration for the node taint {words}"
            changed = _with_tolerations(question, taints)
            yield from _if_it_helps(outcome, Change.TOLERATION, f"add {what} to the pod", changed, [tainted])
    for resource, left in outcome.nodes_short_of_a_resource().items():
        most = max(left.values()) // ONE * ONE
        if "/" in resource and most:
            asked = resource_amount(resource, question.resources[resource])
            sentence = f"request {resource_amount(resource, most)} {resource} instead of {asked}"
            lower = replace(question, resources={**question.resources, resource: most})
            yield from _if_it_helps(outcome, Change.COUNT, sentence, lower, [[*left]])


def _with_tolerations(question: Question, taints: Iterable[Taint]) -> Question:
    pod = question.pod
    if pod is None:
        return question
    added = [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints]
    spec = {**pod.spec, "tolerations": [*(pod.spec.get("tolerations") or []), *added]}
    return replace(question, pod=Pod({**pod.document, "spec": spec}, pod.containers, pod.init_containers))


def _changes_of_wishes(
    outcome: PlacementOutcome, wishes: tuple[WishChange, ...], *, only_if_empty: bool
) -> Iterator[Suggestion]:
    """Changes of wishes; for each word the first one that helps."""
    helped: set[str] = set()
    for wish in wishes:
        if wish.word in helped:
            continue
        for suggestion in _if_it_helps(outcome, Change.WISH, wish.sentence, wish.question, only_if_empty=only_if_empty):
            helped.add(wish.word)
            yield suggestion


def _if_it_helps(
    outcome: PlacementOutcome,
    change: Change,
    sentence: str,
    question: Question,
    nodes: Iterable[Sequence[int]] | None = None,
    *,
    only_if_empty: bool = False,
) -> Iterator[Suggestion]:
    """The suggestion, if the changed question fits some of these nodes."""
    found = outcome.fits_with(question, nodes, if_empty=only_if_empty)
    if found.nodes:
        yield Suggestion(change, sentence, "", "", found.nodes, at_least=found.at_least, only_if_empty=only_if_empty)


def _pods_to_end(outcome: PlacementOutcome) -> Iterator[Suggestion]:
    """The pods of lower priority to delete on single nodes, fewest pods first."""
    sentences = []
    for node, pods, highest, priority in outcome.pods_to_end()[:_MOST_TOLD]:
        theirs = f"priority {highest}{' at most' * (len(pods) > 1)}"
        where = f"node {node}" if outcome.audience.sees_nodes else "one node"
        sentences.append(f"delete {_pod_names(pods, outcome.audience)} on {where} ({theirs}, this pod has {priority})")
    for sentence in dict.fromkeys(sentences):
        yield Suggestion(Change.PREEMPTION, sentence, "", "", 1)


def _pod_names(pods: Sequence[str], audience: Audience) -> str:
    """`pods team-a/a and team-a/b`, `pod team-a/a and 2 pods of other namespaces`."""
    named = sorted(name for name in pods if audience.may_name(name.partition("/")[0]))
    others = len(pods) - len(named)
    parts = [f"pod{'s' * (len(named) > 1)} {format_list(named)}"] if named else []
    if others:
        parts.append(f"{format_count(others, 'pod')} of {'another namespace' if others == 1 else 'other namespaces'}")
    return " and ".join(parts)


def explain(
    question: Question, view: ClusterView, settings: GPUAdmissionPolicy, *, audience: Audience = EVERYTHING
) -> Explanation:
    """Where the question's pod or claims fit, why not elsewhere, and what to change.

    Problems of the question or the cluster are part of the explanation; they raise nothing. The caller may cancel the work
    (see `policies.kubernetes.bounds`), but not the view's digest of the cluster.

    Args:
        question: one of those that `questions` makes.
        view: the cluster.
        settings: which features the cluster has, where its version does not say.
        audience: whose names the explanation shows; the verdict and the numbers are the same for all.
    """
    outcome = simulate(question, view, settings, audience=audience)
    warnings = tuple(map(ReviewWarning.of, question_warnings(question, view, settings)))
    explanation = _explanation(outcome, view, settings, warnings)
    return explanation if audience == EVERYTHING else redacted_explanation(explanation, question, view, audience)


def _explanation_on_node(outcome: PlacementOutcome, view: ClusterView) -> Explanation:
    """The explanation of a bound pod or an allocated claim: failed starts and unhealthy devices."""
    question = outcome.question
    pod = None if question.pod is None else question.pod.document
    claims = [named.claim for named in question.allocated]
    failures = () if pod is None else start_reasons(pod, view)
    obstacles = (
        *(Obstacle(ObstacleKind.START_FAILS, each.sentence, each.remedies) for each in failures),
        *(
            Obstacle(ObstacleKind.DEVICE_UNHEALTHY, f"{each.device}: {each.problem}", each.remedy)
            for each in unhealthy_devices_of(pod, claims, view)
        ),
    )
    headline = outcome.headline()
    if failures:
        node = f"node {question.node_name}" if outcome.audience.sees_nodes else "a node"
        is_running = pod is not None and lookup(pod, ("status", "phase")) == "Running"
        headline = f"it is bound to {node}, and {'some of its containers do' if is_running else 'does'} not start"
        if pod is not None and is_rejected(pod):
            headline = f"the kubelet of {node} rejected it, and it is not scheduled again"
    return Explanation(
        question.label,
        Feasibility.STUCK if failures else Feasibility.SCHEDULED,
        headline,
        obstacles=obstacles,
        remarks=tuple(_remarks_on_node(pod, claims, view)),
    )


def _remarks_on_node(pod: Object | None, claims: Iterable[Claim], view: ClusterView) -> Iterator[str]:
    """Taints that end a pod, the network of devices, waiting containers, and whether events are known."""
    key = None if pod is None else (namespace_of(pod) or DEFAULT_NAMESPACE, name_of(pod))
    tainted = None if key is None else view.derive(pods_with_evicting_taints).get(key)
    if tainted is not None and tainted.ends:
        first = tainted.taints[0]
        devices = [each.device.rpartition("/")[2] for each in tainted.taints if each.origin == first.origin]
        origin = f" of {first.origin}" if first.origin.startswith(KIND) else ""
        have = "has" if len(devices) == 1 else "have"
        taint = printable(f"{format_ranges(devices)} {have} the taint {first.text}{origin}")
        longer = " for longer" if first.delay else ""
        yield f"Kubernetes ends the pod {first.when}: {taint}, which its claim does not tolerate{longer}"
    for claim in claims:
        for each in claim.device_statuses:
            if each.network:
                yield f"{printable(each.device)} of driver {printable(each.driver)} is {printable(each.network)}"
    gates = Feature.DRAResourceClaimDeviceStatus, *(() if pod is None else (Feature.ResourceHealthStatus,))
    off = [each.name for each in gates if each.is_on(view) is False]
    if off:
        yield f"unhealthy devices may be missing here, because the cluster has {format_list(off)} off"
    waiting = () if pod is None else waiting_containers(pod)
    if pod is None or not (waiting or lookup(pod, ("status", "phase")) == "Pending"):
        return
    if waiting:
        yield f"{'container' if len(waiting) == 1 else 'containers'} {format_list(waiting)} {inflect('waits', len(waiting))}"
    namespace = namespace_of(pod) or DEFAULT_NAMESPACE
    if view.list("Event", namespace) is UNKNOWN:
        yield (
            "events are unknown here, and only they say why a claim is not prepared: kubectl describe pod "
            f"{printable(name_of(pod))} -n {namespace}"
        )


class _Place(NamedTuple):
    """The controllers of a pod, and whether the pod has a node."""

    owners: tuple[tuple[str, str, str], ...]
    """Namespace, kind and name of its controller, and of the Deployment of a ReplicaSet."""
    is_bound: bool


_HASH = ("metadata", "labels", "pod-template-hash")


def _place(pod: Object) -> _Place | None:
    """The place of a pod that has a controller and has not ended."""
    owner = controller_of(pod)
    if owner is None or has_ended(pod) or lookup(pod, ("metadata", "deletionTimestamp")) is not None:
        return None
    home, kind, name = namespace_of(pod) or DEFAULT_NAMESPACE, str(owner.get("kind")), str(owner.get("name"))
    owners = [(home, kind, name)]
    # The ReplicaSets of a Deployment are named so: pkg/controller/deployment/sync.go getNewReplicaSet.
    deployment = name.removesuffix(f"-{lookup(pod, _HASH)}")
    if kind == "ReplicaSet" and deployment != name:
        owners.append((home, "Deployment", deployment))
    return _Place(tuple(owners), bool(lookup(pod, ("spec", "nodeName"))))


def _pods_of_owners(view: ClusterView) -> Counter[tuple[tuple[str, str, str], bool]]:
    """The number of pods by controller and whether they have a node."""
    places = view.derive_each("Pod", _place)
    counts = Counter[_Place](place for place in (() if places is UNKNOWN else places) if place is not None)
    found: Counter[tuple[tuple[str, str, str], bool]] = Counter()
    for place, count in counts.items():
        for owner in place.owners:
            found[owner, place.is_bound] += count
    return found


def _peers(question: Question, view: ClusterView) -> Peers | None:
    """The pods of the workload of a question; None for a single pod, or if their number is unknown."""
    owner = None if question.pod is None else controller_of(question.pod.document)
    if owner is None or question.is_one_per_node or (question.written is not None and question.pods_wanted is None):
        return None
    kind, name = str(owner.get("kind")), str(owner.get("name"))
    counts, key = view.derive(_pods_of_owners), (question.namespace, kind, name)
    bound, existing = counts[key, True], counts[key, True] + counts[key, False]
    pods = existing if question.written is None else question.pods_wanted or 0
    return Peers(f"{kind} {name}", pods, bound) if pods > 1 or bound else None


def _explanation(
    outcome: PlacementOutcome, view: ClusterView, settings: GPUAdmissionPolicy, warnings: tuple[ReviewWarning, ...]
) -> Explanation:
    question, placed = outcome.question, outcome.replicas
    if outcome.verdict is Feasibility.SCHEDULED:
        return _explanation_on_node(outcome, view)
    if outcome.obstacles or placed is None:
        return Explanation(
            question.label,
            outcome.verdict,
            outcome.headline(),
            obstacles=outcome.obstacles,
            certainty=outcome.certainty,
            converted_to=question.converted_to,
            warnings=warnings,
        )
    told = () if outcome.fit_now else suggestions(outcome, view, settings)
    is_about_pods = any(each.change is Change.PREEMPTION for each in told)
    return Explanation(
        label=question.label,
        verdict=outcome.verdict,
        headline=outcome.headline(with_replicas=True),
        nodes=outcome.nodes,
        nodes_guessed=outcome.nodes_guessed,
        fit_now=outcome.fit_now,
        fit_if_empty=outcome.fit_if_empty,
        unknown_nodes=outcome.unknown_nodes,
        replicas=placed.count,
        replicas_at_least=placed.at_least,
        groups=outcome.groups.shown,
        groups_left_out=outcome.groups.groups_left_out,
        nodes_left_out=outcome.groups.nodes_left_out,
        suggestions=told,
        converted_to=question.converted_to,
        warnings=warnings,
        remarks=(*remarks(outcome, view), *([_NO_PREEMPTION] if is_about_pods else [])),
        certainty=outcome.certainty,
        peers=_peers(question, view),
    )
