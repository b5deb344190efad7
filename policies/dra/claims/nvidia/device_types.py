"""Device types: a config of one kind is for devices of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import listed_types, reached, types_asked, types_selected
from policies.dra.claims.nvidia.schemas import TYPE_OF
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject

_KIND_OF = {type_: kind for kind, type_ in TYPE_OF.items()}


@CLAIMS.rule(
    "GA250",
    "A config must be for devices of its type",
    default=Severity.DENY,
    remedy="write the kind of config that these devices have",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go validateDeviceConfigType",
)
def matching_types(subject: Subject) -> Iterator[Problem]:
    """A GpuConfig for a request that gets a MIG device makes the driver refuse the device when it prepares it.

    That goes for a config that names the request, and for one of its class. What a request gets is known by its class
    and by its selectors; nothing is said where they leave it open.
    """
    for found in nvidia_configs(subject, *TYPE_OF):
        if subject.kind == "DeviceClass":
            types = types_selected(subject)
            if _is_refused(found, types):
                text = f"cannot apply {found.kind} to devices of type {listed_types(types, found.driver)}"
                yield problem(found.at("kind"), f"{text}, which the class is for", _remedy(types))
            continue
        asked_for = {
            subrequest.full_name: types_asked(subrequest, subject.facts) for subrequest in reached(found, subject)
        }
        for index, name in _names(found):
            types = asked_for.get(name, frozenset())
            if _is_refused(found, types):
                text = f"cannot apply {found.kind} to devices of type {listed_types(types, found.driver)}"
                text += f" (request: {printable(name)})"
                yield problem(found.config.path / "requests" / index, text, _remedy(types))


@CLAIMS.rule(
    "GA251",
    "A config must be for devices that the claim requests",
    default=Severity.WARN,
    remedy="remove the config, or ask for devices of its type",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go matchesDeviceType",
)
def effective_configs(subject: Subject) -> Iterator[Problem]:
    """A config without requests is for all devices of its type, and the driver passes it over where there are none.

    So it does with a config for devices of another driver.
    """
    for found in nvidia_configs(subject, *TYPE_OF):
        type_ = TYPE_OF[found.kind]
        text = f'is for devices of type "{type_}" of {found.driver}, and'
        if subject.kind == "DeviceClass":
            types = types_selected(subject)
            if type_ not in types and not _is_refused(found, types):
                yield problem(found.at("kind"), f"{text} the class selects none")
        elif not found.config.requests:
            if subject.requests and not reached(found, subject):
                yield problem(found.at("kind"), f"{text} no request can get one")
        else:
            yield from _foreign_requests(found, subject, text)


def _foreign_requests(found: NvidiaConfig, subject: Subject, text: str) -> Iterator[Problem]:
    asked_for = {subrequest.full_name: types_asked(subrequest, subject.facts) for subrequest in reached(found, subject)}
    for index, name in _names(found):
        types = asked_for.get(name, frozenset({TYPE_OF[found.kind]}))
        if TYPE_OF[found.kind] not in types and not _is_refused(found, types):
            path = found.config.path / "requests" / index
            yield problem(path, f'the {found.kind} {text} request "{printable(name)}" can get none')


def _names(found: NvidiaConfig) -> Iterator[tuple[int, str]]:
    names = found.config.fields.get("requests")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str):
            yield index, name


def _is_refused(found: NvidiaConfig, types: frozenset[str]) -> bool:
    """Whether devices of the config's driver can be meant, and none of them is of its type."""
    return TYPE_OF[found.kind] not in types and bool(listed_types(types, found.driver))


def _remedy(types: frozenset[str]) -> str | None:
    kinds = [kind for kind in (_KIND_OF.get(type_) for type_ in sorted(types)) if kind is not None]
    return f"write opaque.parameters.kind: {kinds[0]}" if len(kinds) == 1 else None
