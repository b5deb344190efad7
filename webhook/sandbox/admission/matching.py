"""The configured webhooks, and which are called for a write: rules, selectors and matchConditions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal

from policies.cel import CelCompileError, compile_condition, value_of
from policies.kubernetes.objects import lookup
from policies.kubernetes.webhook_rules import UnknownOperatorError, Write, rule_matches, selects
from webhook.cluster.resources import RESOURCES
from webhook.sandbox import statuses
from webhook.sandbox.admission.reviews import request_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel import Map
    from policies.kubernetes.objects import Object
    from webhook.sandbox.statuses import Attempt, Objects


@dataclass(frozen=True, slots=True)
class Service:
    """The Service of a webhook."""

    namespace: str
    name: str
    port: int
    path: str

    @property
    def host(self) -> str:
        """The name that its certificate must have."""
        return f"{self.name}.{self.namespace}.svc"


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The address of a webhook, and the authority of its certificate."""

    url: str
    service: Service | None
    ca_bundle: str
    """PEM in base64; empty for the authorities of the system."""

    @property
    def address(self) -> str:
        """The URL of the calls."""
        if self.service is None:
            return self.url
        return f"https://{self.service.host}:{self.service.port}/{self.service.path.lstrip('/')}"


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    index: int
    """The unique position among all webhooks of its phase."""
    name: str
    client: ClientConfig
    rules: tuple[Object, ...]
    """The writes that it receives, as they are written; `*` stands for all."""
    namespace_selector: Object
    object_selector: Object
    conditions: tuple[tuple[str, str], ...]
    """Names and expressions of `matchConditions`."""
    ignores_failures: bool
    """`failurePolicy: Ignore`."""
    side_effects: str
    timeout: int
    """Seconds."""
    reinvocable: bool
    """`reinvocationPolicy: IfNeeded`."""
    review_versions: tuple[str, ...]


def hooks(
    objects: Objects, kind: Literal["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
) -> list[Hook]:
    """All webhooks of a kind in the order of their calls: configurations by name, then as listed."""
    written = [
        (configuration["metadata"]["name"], webhook)
        for configuration in sorted(objects.objects(kind), key=lambda found: str(found["metadata"]["name"]))
        for webhook in configuration.get("webhooks") or []
    ]
    return [
        Hook(
            configuration=configuration,
            index=index,
            name=webhook["name"],
            client=_client(webhook.get("clientConfig") or {}),
            rules=tuple(webhook.get("rules") or ()),
            namespace_selector=webhook.get("namespaceSelector") or {},
            object_selector=webhook.get("objectSelector") or {},
            conditions=tuple((found["name"], found["expression"]) for found in webhook.get("matchConditions") or []),
            ignores_failures=webhook.get("failurePolicy") == "Ignore",
            side_effects=webhook.get("sideEffects") or "",
            timeout=webhook.get("timeoutSeconds") or 10,
            reinvocable=webhook.get("reinvocationPolicy") == "IfNeeded",
            review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
        )
        for index, (configuration, webhook) in enumerate(written)
    ]


def _client(config: Object) -> ClientConfig:
    written: dict[str, Any] | None = config.get("service")
    service = None
    if written is not None:
        service = Service(written["namespace"], written["name"], written.get("port") or 443, written.get("path") or "")
    return ClientConfig(config.get("url") or "", service, config.get("caBundle") or "")


_EXEMPT_KINDS = frozenset(
    f"{how}{what}"
    for how in ("Mutating", "Validating")
    for what in ("WebhookConfiguration", "AdmissionPolicy", "AdmissionPolicyBinding")
)


def is_exempt(attempt: Attempt) -> bool:
    """True if no webhook is called: admission must stay configurable when webhooks fail."""
    return attempt.resource.group == "admissionregistration.k8s.io" and attempt.resource.kind in _EXEMPT_KINDS


def is_meant(hook: Hook, attempt: Attempt, objects: Objects) -> bool:
    """True if a write matches the rules and selectors of a webhook; does not evaluate matchConditions.

    `matchPolicy` has no effect, because the sandbox serves every kind in one version.

    Raises:
        Refused: The namespace of the object does not exist, or a selector is invalid.
    """
    resource, part = attempt.resource, attempt.subresource
    names = resource.group, resource.version, resource.plural, part
    write = Write(attempt.operation, *names, is_namespaced=resource.namespaced)
    if not any(rule_matches(rule, write) for rule in hook.rules):
        return False
    # The new or the old object, so that removing a label does not bypass a webhook.
    versions = [version for version in (attempt.object, attempt.old_object) if version is not None]
    selector = hook.object_selector
    is_selected = not selector or any(_selects(selector, _labels(version)) for version in versions)
    return is_selected and _namespace_is_selected(hook, attempt, objects)


def _namespace_is_selected(hook: Hook, attempt: Attempt, objects: Objects) -> bool:
    """True for cluster-scoped objects; for namespaces, by their own new labels."""
    selector = hook.namespace_selector
    is_namespace = attempt.resource.plural == "namespaces"
    if not selector or not (attempt.resource.namespaced or is_namespace):
        return True
    if is_namespace and not attempt.subresource and attempt.operation in ("CREATE", "UPDATE"):
        return _selects(selector, _labels(attempt.object))
    namespace = objects.get("Namespace", attempt.namespace)
    if namespace is None:
        raise statuses.not_found(RESOURCES["Namespace"], attempt.namespace)
    return _selects(selector, _labels(namespace))


def _labels(document: Object | None) -> dict[str, str]:
    return lookup(document, ("metadata", "labels")) or {}


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    try:
        return selects(selector, labels)
    except UnknownOperatorError as error:
        raise statuses.internal_error(f'"{error}" is not a valid label selector operator') from error


_BUDGET = 2_500_000
"""RuntimeCELCostBudgetMatchConditions: the total cost limit of the conditions of one webhook."""
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


@dataclass(frozen=True)
class Variables:
    """The variables of matchConditions for one write, computed for the first condition."""

    attempt: Attempt

    @cached_property
    def value(self) -> Map:
        """The variables; `namespaceObject` is always null, as in the API server."""
        attempt = self.attempt
        objects = {"object": attempt.object, "oldObject": attempt.old_object, "namespaceObject": None}
        # A dict becomes a Map.
        return value_of({**objects, "request": request_of(attempt)})  # type: ignore[return-value]


def conditions_hold(hook: Hook, attempt: Attempt, variables: Variables, count_error: Callable[[], None]) -> bool:
    """True if all matchConditions hold; calls `count_error` for each that fails before a false one.

    Raises:
        Refused: A condition fails, none is false, and the webhook's failurePolicy is Fail.
    """
    budget = _BUDGET
    verdicts: list[bool | str] = []
    for _, expression in hook.conditions:
        try:
            condition = compile_condition(expression)
        except CelCompileError as error:
            verdicts.append(f"compilation error: {error}")
            continue
        verdict, cost = condition.holds(variables.value)
        budget -= cost
        if budget < 0:
            verdicts = [_OUT_OF_BUDGET]
            break
        verdicts.append(verdict)
    else:
        for each in takewhile(lambda verdict: verdict is not False, verdicts):
            if isinstance(each, str):
                count_error()
    if False in verdicts:
        return False
    failures = list(dict.fromkeys(verdict for verdict in verdicts if isinstance(verdict, str)))
    if not failures:
        return True
    if hook.ignores_failures:
        return False
    why = failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]"
    raise statuses.forbidden(attempt.resource, attempt.name, why)
