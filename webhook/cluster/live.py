"""Settings of a running cluster: the stored GPUAdmissionPolicy, parsed whenever it changes."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from policies.admission import rule_book
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import OTHER_PODS, UNKNOWN, ClusterView, ResultsPerObject, Unknown
from policies.rules.idle_settings import settings_remarks
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, SettingsError, parse_settings
from webhook.cluster.watched_kinds import KnownKind

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.rules.checks import Problem
    from webhook.cluster.store import Store
    from webhook.cluster.watched_kinds import Watched


_logger = logging.getLogger("gpu_admission.settings")

_KIND = "GPUAdmissionPolicy"
_NAME = "default"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SettingsState:
    """The settings in use in this process, and problems of the stored ones."""

    policy: GPUAdmissionPolicy = DEFAULTS
    """The settings in use."""
    generation: int | None = None
    """The generation of the settings in use; None for the built-in defaults."""
    stored: Object | Unknown | None = UNKNOWN
    """The GPUAdmissionPolicy, trimmed; None if it does not exist."""
    problems: tuple[Problem, ...] = ()
    """The reason why the stored settings are not in use; empty if they are."""
    remarks: tuple[Problem, ...] = ()
    """Fields of the settings without any effect."""

    @property
    def used(self) -> str:
        """The settings in use, in words."""
        return "the built-in defaults" if self.generation is None else f"the settings of generation {self.generation}"


@dataclass(eq=False)
class LiveSettings:
    """The administrator's current settings; thread-safe.

    Valid settings are in use from the moment that the view shows them. If they are invalid (stored by an older version,
    or while our webhook was not installed) or unknown, the last accepted ones stay in use, or else the built-in defaults.
    The defaults are also in use if the GPUAdmissionPolicy, or its CRD, does not exist.
    """

    view: ClusterView
    _state: SettingsState = field(default_factory=SettingsState, init=False)
    _logged: str = field(default="", init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self) -> GPUAdmissionPolicy:
        """The settings in use."""
        return self.state.policy

    @property
    def state(self) -> SettingsState:
        """The settings in use, and the stored ones, as the view shows them now."""
        if self._stored_settings() is not self._state.stored:
            with self._lock:
                # Another thread may have been here first, with newer settings.
                self._take(self._stored_settings())
        return self._state

    def notes(self) -> list[str]:
        """Problems of the stored settings, for the administrator, without full stops."""
        state = self.state
        if state.stored is UNKNOWN:
            return [f"{_KIND} {_NAME} cannot be read, using {state.used}"]
        if state.problems:
            return [f"{_refusal(state)}: {_first_of(state.problems)}"]
        return [f"{_KIND} {_NAME}: {each.text}" for each in state.remarks]

    def _stored_settings(self) -> Object | Unknown | None:
        return self.view.get(_KIND, _NAME)

    def _take(self, stored: Object | Unknown | None) -> None:
        before = self._state
        if stored is UNKNOWN:
            self._state = replace(before, stored=UNKNOWN, problems=(), remarks=())
            return
        state, level = SettingsState(stored=None), logging.INFO
        if isinstance(stored, dict):
            try:
                policy = parse_settings(stored)
            except SettingsError as error:
                state = replace(before, stored=stored, problems=error.problems, remarks=())
                message, level = f"{_refusal(state)}: {_first_of(state.problems)}", logging.WARNING
            else:
                remarks = tuple(settings_remarks(policy, rule_book()))
                state = SettingsState(policy, generation_of(stored), stored, remarks=remarks)
                message = f"using {state.used}{f'. {_first_of(remarks)}' if remarks else ''}"
        else:
            message = f"{_KIND} {_NAME} does not exist, using {state.used}"
        self._state = state
        if message != self._logged:
            self._logged = message
            _logger.log(level, "%s", message)


def generation_of(stored: Object) -> int:
    """The generation of an object; 0 if it has none."""
    generation = lookup(stored, ("metadata", "generation"))
    return generation if isinstance(generation, int) else 0


def _refusal(state: SettingsState) -> str:
    generation = generation_of(state.stored) if isinstance(state.stored, dict) else 0
    return f"{_KIND} {_NAME}, generation {generation}, is invalid, using {state.used} instead"


def _first_of(problems: tuple[Problem, ...]) -> str:
    """The first few problems, and how many more there are."""
    shown = ". ".join(each.text for each in problems[:_SHOWN])
    return shown if len(problems) <= _SHOWN else f"{shown}. And {len(problems) - _SHOWN} more"


H = TypeVar("H", bound="Hashable")


class LiveView(ClusterView):
    """Facts from the stores of all kinds that are watched; thread-safe.

    A kind that was never listed, is forbidden, or was not heard of for long, is unknown; see `KnownKind`.
    """

    def __init__(self, stores: Iterable[tuple[Watched, Store]] = ()) -> None:
        """Show these stores."""
        self._version: tuple[int, int] | Unknown = UNKNOWN
        self._gates: Mapping[str, bool] = {}
        self._changes = 0
        self._shown: list[tuple[Watched, Store]] = []
        self._kinds: dict[str, KnownKind] = {}
        self.show(stores)

    def show(self, stores: Iterable[tuple[Watched, Store]]) -> None:
        """Use these stores from now on; digests of others are dropped."""
        shown = [*stores]
        if shown == self._shown:
            return
        self._shown = shown
        kinds: dict[str, list[tuple[Watched, Store]]] = {}
        for watched, store in shown:
            kinds.setdefault(watched.kind, []).append((watched, store))
        found = {kind: KnownKind(pairs, self) for kind, pairs in kinds.items()}
        # The versions of other stores begin anew, but no generation may come again.
        changes = 1 + max(map(self.generation, (*self._kinds, OTHER_PODS)))
        self._kinds, self._changes, self._digests, self._results = found, changes, {}, ResultsPerObject()

    def set_server_version(self, version: tuple[int, int] | Unknown) -> None:
        """Set the API server's version."""
        if version != self._version:
            self._version = version
            self._changes += 1

    def set_feature_gates(self, gates: Mapping[str, bool]) -> None:
        """Set the feature gates that the API server shows."""
        if gates != self._gates:
            self._gates = gates
            self._changes += 1

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None if it does not exist."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.get(name, namespace)

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        """All objects of a kind that are kept; unknown if no store of the kind is known."""
        known = self._kinds.get(kind)
        return UNKNOWN if known is None else known.list(namespace)

    def server_version(self) -> tuple[int, int] | Unknown:
        """The last known version of the API server."""
        return self._version

    def feature_gates(self) -> Mapping[str, bool]:
        """The last known feature gates of the API server."""
        return self._gates

    def generation(self, kind: str) -> int:
        """A number that grows whenever an answer about a kind may change."""
        known = self._kinds.get("Pod" if kind == OTHER_PODS else kind)
        if known is None:
            return self._changes
        return self._changes + (known.others_generation if kind == OTHER_PODS else known.generation)

    def count_each(
        self, kind: str, function: Callable[[Object], H | None], wanted: Callable[[H], bool]
    ) -> Mapping[H, int] | Unknown:
        """The number of kept objects for each wanted value of `function`, as the stores have counted them."""
        known = self._kinds.get(kind)
        counts = UNKNOWN if known is None else known.count_each(function)
        return counts if counts is UNKNOWN else {value: count for value, count in counts.items() if wanted(value)}

    def others_on(self, node: str) -> Mapping[str, int] | Unknown:
        """The amounts that pods which are not kept use on a node; unknown while pods are."""
        known = self._kinds.get("Pod")
        return UNKNOWN if known is None else known.others_on(node)
