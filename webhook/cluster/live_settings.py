"""Settings of a running cluster: the stored GPUAdmissionPolicy, read again whenever it changes."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

# Registers every rule, so that one which does not exist is seen.
import policies.review  # noqa: F401
from policies.idle_settings import settings_remarks
from policies.kubernetes.paths import FieldPath, lookup
from policies.settings import DEFAULTS, GPUAdmissionPolicy, SettingsError, parse_settings
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["LiveSettings", "SettingsState", "generation_of"]

_logger = logging.getLogger("gpu_admission.settings")

_KIND = "GPUAdmissionPolicy"
_NAME = "default"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SettingsState:
    """Which settings hold in this process, and what is to be said of those that are stored."""

    policy: GPUAdmissionPolicy = DEFAULTS
    """What holds."""
    generation: int | None = None
    """Of the stored settings, when they were as they hold; None where the built-in defaults hold."""
    stored: Object | Unknown | None = UNKNOWN
    """The GPUAdmissionPolicy, trimmed; None where there is none."""
    problems: tuple[tuple[FieldPath, str], ...] = ()
    """Why what is stored does not hold; empty where it does."""
    remarks: tuple[tuple[FieldPath, str], ...] = ()
    """What of it holds without any effect."""

    @property
    def held(self) -> str:
        """Which settings hold, in words."""
        return "the built-in defaults" if self.generation is None else f"the settings of generation {self.generation}"


class LiveSettings:
    """The administrator's choices as they are now.

    Valid settings hold from the moment that the view shows them. Where they are invalid (stored by an older version, or
    while the webhook that refuses them was away) or unknown, those that this process accepted last stay, and before any
    the built-in defaults hold. These hold as well where there is no GPUAdmissionPolicy, or not even the kind.

    It can be asked from several threads at once, and costs no more than a look at the view while nothing changes.
    """

    def __init__(self, view: ClusterView) -> None:
        """Args: where the stored settings are seen; each of its answers is another object once something changed."""
        self._view = view
        self._state = SettingsState()
        self._told = ""
        self._lock = threading.Lock()

    def __call__(self) -> GPUAdmissionPolicy:
        """The settings that hold now."""
        return self.state.policy

    @property
    def state(self) -> SettingsState:
        """What holds, and what is stored, as the view shows it now."""
        if self._stored() is not self._state.stored:
            with self._lock:
                # Another thread may have been here first, and seen something newer.
                self._take(self._stored())
        return self._state

    def notes(self) -> list[str]:
        """What is wrong with the stored settings and which hold instead: for the administrator, without full stops."""
        state = self.state
        if state.stored is UNKNOWN:
            return [f"{_KIND} {_NAME} cannot be read, so {state.held} hold"]
        if state.problems:
            return [f"{_refused(state)}: {_listed(state.problems)}"]
        return [f"{_KIND} {_NAME}: {path}: {said}" for path, said in state.remarks]

    def _stored(self) -> Object | Unknown | None:
        return self._view.get(_KIND, _NAME)

    def _take(self, stored: Object | Unknown | None) -> None:
        before = self._state
        if stored is UNKNOWN:
            self._state = replace(before, stored=UNKNOWN, problems=(), remarks=())
            return
        self._state = _state_of(stored, before) if isinstance(stored, dict) else SettingsState(stored=None)
        self._tell(self._state)

    def _tell(self, state: SettingsState) -> None:
        """Log what became of a change; a list that shows the same as before is none."""
        if state.problems:
            told, level = f"{_refused(state)}: {_listed(state.problems)}", logging.WARNING
        elif state.stored is None:
            told, level = f"there is no {_KIND} {_NAME}, so {state.held} hold", logging.INFO
        else:
            remarks = f"; but {_listed(state.remarks)}" if state.remarks else ""
            told, level = f"{state.held} hold{remarks}", logging.INFO
        if told != self._told:
            self._told = told
            _logger.log(level, "%s", told)


def generation_of(stored: Object) -> int:
    """The generation of an object; 0 where it says none."""
    generation = lookup(stored, ("metadata", "generation"))
    return generation if isinstance(generation, int) else 0


def _state_of(stored: Object, before: SettingsState) -> SettingsState:
    try:
        policy = parse_settings(stored)
    except SettingsError as error:
        return replace(before, stored=stored, problems=tuple(error.problems), remarks=())
    remarks = tuple(settings_remarks(policy))
    return SettingsState(policy, generation_of(stored), stored, remarks=remarks)


def _refused(state: SettingsState) -> str:
    generation = generation_of(state.stored) if isinstance(state.stored, dict) else 0
    return f"{_KIND} {_NAME}, generation {generation}, is refused, and {state.held} hold instead"


def _listed(problems: tuple[tuple[FieldPath, str], ...]) -> str:
    """The first few, and how many more there are."""
    shown = "; ".join(f"{path}: {said}" for path, said in problems[:_SHOWN])
    return shown if len(problems) <= _SHOWN else f"{shown}; and {len(problems) - _SHOWN} more"
