"""Checks of a cluster: what was looked at, the answer, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from operator import not_


class Status(StrEnum):
    """The answer of a check, the worst first."""

    FAILING = "failing"
    UNKNOWN = "unknown"
    """The check could not be answered; its remedy names the missing right."""
    WARNING = "warning"
    OK = "ok"


# Read by pydantic when a check is written as JSON.
_WITHOUT_EMPTY = {"exclude_if": not_}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer of a check, without empty fields."""

    name: str
    """Several checks may have one name."""
    status: Status
    what: str
    where: str = field(default="", metadata=_WITHOUT_EMPTY)
    why: str = field(default="", metadata=_WITHOUT_EMPTY)
    remedy: str = field(default="", metadata=_WITHOUT_EMPTY)


class Topic(StrEnum):
    """The names of checks; each makes checks of its name."""

    APIS = "apis"
    CALLS = "calls"
    CA_BUNDLE = "caBundle"
    CERTIFICATE = "certificate"
    CLAIMS = "claims"
    CLOCK = "clock"
    COMPONENTS = "components"
    CONDITIONS = "conditions"
    CONVERSIONS = "conversions"
    CRDS = "crds"
    FEATURES = "features"
    KINDS = "kinds"
    KUBELETS = "kubelets"
    KUBERNETES = "kubernetes"
    LATENCY = "latency"
    LEADER = "leader"
    NAMESPACES = "namespaces"
    NETWORK = "network"
    OBJECTS = "objects"
    ORDER = "order"
    OWNER = "owner"
    PODS = "pods"
    POLICIES = "policies"
    PORTS = "ports"
    QUOTAS = "quotas"
    RBAC = "rbac"
    READINESS = "readiness"
    REPLICAS = "replicas"
    RIGHTS = "rights"
    SETTINGS = "settings"
    STORAGE = "storage"
    TEMPLATES = "templates"
    VERSION = "version"
    WEBHOOKS = "webhooks"

    def check(self, status: Status, what: str, where: str = "", why: str = "", remedy: str = "") -> Check:
        """A check of this topic."""
        return Check(name=self.value, status=status, what=what, where=where, why=why, remedy=remedy)

    def ok(self, what: str, where: str = "", why: str = "") -> Check:
        """A check that found nothing wrong."""
        return self.check(Status.OK, what, where, why)

    def warning(self, what: str, where: str = "", why: str = "", remedy: str = "") -> Check:
        """A check with a warning."""
        return self.check(Status.WARNING, what, where, why, remedy)

    def failure(self, what: str, where: str = "", why: str = "", remedy: str = "") -> Check:
        """A check that fails."""
        return self.check(Status.FAILING, what, where, why, remedy)

    def unknown(self, what: str, where: str = "", why: str = "", remedy: str = "") -> Check:
        """A check that could not be answered."""
        return self.check(Status.UNKNOWN, what, where, why, remedy)

    def forbidden(self, what: str, right: str) -> Check:
        """A check that could not be answered because the user lacks a right, such as `list nodes`."""
        return self.unknown(what, why=f"you may not {right}", remedy=f"allow the user to {right}")
