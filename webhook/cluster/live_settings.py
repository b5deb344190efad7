"""Settings of a running cluster: the stored GPUAdmissionPolicy, parsed whenever it changes."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

# Registers every rule, so that unknown rules are found.
import policies.admission  # noqa: F401
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.rules.idle_settings import settings_remarks
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, SettingsError, parse_settings

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView

__all__ = ["LiveSettings", "SettingsState", "generation_of"]

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
    problems: tuple[tuple[FieldPath, str], ...] = ()
    """Why the stored settings are not in use; empty if they are."""
    remarks: tuple[tuple[FieldPath, str], ...] = ()
    """Fields of the settings without any effect."""

    @property
    def used(self) -> str:
        """The settings in use, in words."""
        return "the built-in defaults" if self.generation is None else f"the settings of generation {self.generation}"


class LiveSettings:
    """The administrator's current settings; thread-safe.

    Valid settings are in use from the moment that the view shows them. If they are invalid (stored by an older version,
    or while our webhook was not installed) or unknown, the last accepted ones stay in use, or else the built-in defaults.
    The defaults are also in use if the GPUAdmissionPolicy, or its CRD, does not exist.
    """

    def __init__(self, view: ClusterView) -> None:
        """The view must return a new object whenever the stored settings change."""
        self._view = view
        self._state = SettingsState()
        self._logged = ""
        self._lock = threading.Lock()

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
        return [f"{_KIND} {_NAME}: {path}: {said}" for path, said in state.remarks]

    def _stored_settings(self) -> Object | Unknown | None:
        return self._view.get(_KIND, _NAME)

    def _take(self, stored: Object | Unknown | None) -> None:
        before = self._state
        if stored is UNKNOWN:
            self._state = replace(before, stored=UNKNOWN, problems=(), remarks=())
            return
        self._state = _state_of(stored, before) if isinstance(stored, dict) else SettingsState(stored=None)
        self._log(self._state)

    def _log(self, state: SettingsState) -> None:
        """Log the result of a change, unless it is the same message as before."""
        if state.problems:
            message, level = f"{_refusal(state)}: {_first_of(state.problems)}", logging.WARNING
        elif state.stored is None:
            message, level = f"{_KIND} {_NAME} does not exist, using {state.used}", logging.INFO
        else:
            remarks = f"; but {_first_of(state.remarks)}" if state.remarks else ""
            message, level = f"using {state.used}{remarks}", logging.INFO
        if message != self._logged:
            self._logged = message
            _logger.log(level, "%s", message)


def generation_of(stored: Object) -> int:
    """The generation of an object; 0 if it has none."""
    generation = lookup(stored, ("metadata", "generation"))
    return generation if isinstance(generation, int) else 0


def _state_of(stored: Object, before: SettingsState) -> SettingsState:
    try:
        policy = parse_settings(stored)
    except SettingsError as error:
        return replace(before, stored=stored, problems=tuple(error.problems), remarks=())
    remarks = tuple(settings_remarks(policy))
    return SettingsState(policy, generation_of(stored), stored, remarks=remarks)


def _refusal(state: SettingsState) -> str:
    generation = generation_of(state.stored) if isinstance(state.stored, dict) else 0
    return f"{_KIND} {_NAME}, generation {generation}, is invalid, using {state.used} instead"


def _first_of(problems: tuple[tuple[FieldPath, str], ...]) -> str:
    """The first few problems, and how many more there are."""
    shown = "; ".join(f"{path}: {said}" for path, said in problems[:_SHOWN])
    return shown if len(problems) <= _SHOWN else f"{shown}; and {len(problems) - _SHOWN} more"
