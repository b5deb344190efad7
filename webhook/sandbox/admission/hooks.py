"""The webhooks of the configurations in the cluster, with defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Objects

__all__ = ["ClientConfig", "Hook", "Rule", "hooks"]

_DEFAULT_TIMEOUT = 10
_HTTPS = 443


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
class Rule:
    """The writes that a webhook receives; `*` stands for all."""

    groups: tuple[str, ...]
    versions: tuple[str, ...]
    operations: tuple[str, ...]
    resources: tuple[str, ...]
    """`pods`, `pods/status`, `*/status`, `pods/*`, `*/*`."""
    scope: str


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of one configuration."""

    configuration: str
    index: int
    """The unique position among all webhooks of its phase."""
    name: str
    client: ClientConfig
    rules: tuple[Rule, ...]
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
    return [_hook(configuration, index, webhook) for index, (configuration, webhook) in enumerate(written)]


def _hook(configuration: str, index: int, webhook: Object) -> Hook:
    return Hook(
        configuration=configuration,
        index=index,
        name=webhook["name"],
        client=_client(webhook.get("clientConfig") or {}),
        rules=tuple(_rule(rule) for rule in webhook.get("rules") or []),
        namespace_selector=webhook.get("namespaceSelector") or {},
        object_selector=webhook.get("objectSelector") or {},
        conditions=tuple((found["name"], found["expression"]) for found in webhook.get("matchConditions") or []),
        ignores_failures=webhook.get("failurePolicy") == "Ignore",
        side_effects=webhook.get("sideEffects") or "",
        timeout=webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT,
        reinvocable=webhook.get("reinvocationPolicy") == "IfNeeded",
        review_versions=tuple(webhook.get("admissionReviewVersions") or ()),
    )


def _client(config: Object) -> ClientConfig:
    written: dict[str, Any] | None = config.get("service")
    service = None
    if written is not None:
        service = Service(
            written["namespace"], written["name"], written.get("port") or _HTTPS, written.get("path") or ""
        )
    return ClientConfig(config.get("url") or "", service, config.get("caBundle") or "")


def _rule(rule: Object) -> Rule:
    return Rule(
        groups=tuple(rule.get("apiGroups") or ()),
        versions=tuple(rule.get("apiVersions") or ()),
        operations=tuple(rule.get("operations") or ()),
        resources=tuple(rule.get("resources") or ()),
        scope=rule.get("scope") or "*",
    )
