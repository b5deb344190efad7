"""Strategies of conversion: how the pods of a namespace get GPUs by DRA."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.strategies.scheduler_claims import leave, rename, translations
from policies.conversion.strategies.template import template
from policies.conversion.versions import kubelet_problem, server_problem
from policies.decision import Severity
from policies.fleet.known_classes import known_classes
from policies.rules import rule

if TYPE_CHECKING:
    from policies.conversion.conversion import ConversionCandidate

__all__ = ["STRATEGIES"]

CHOSEN = rule(
    "GA333",
    "The strategy auto must report what it chooses",
    default=Severity.WARN,
    why="""
    The strategy auto leaves a pod as it is if a DeviceClass stands for what it requests, nothing needs translating and
    every GPU node's kubelet is 1.36 or newer; every other pod gets a claim from a template. The choice may change, so a
    warning says for each pod what was chosen and why.""",
    remedy="set gpu-admission.io/dra-strategy to template or leave on the namespace to have one of them always",
    source="docs/conversion.md",
)


def auto(candidate: ConversionCandidate) -> Conversion:
    """Choose `leave` or `template` for a pod, and report why; anything unknown leads to `template`."""
    if candidate.obstacles:
        return template(candidate)
    reason = _reason_for_template(candidate)
    if reason is None:
        classes = known_classes(candidate.view)
        named = " and ".join(f'"{classes.standing_for(resource)[0]}"' for resource in candidate.places)
        text = f"the strategy auto leaves the pod as it is: DRA hands out its GPUs by DeviceClass {named}"
        return Conversion(notices=(CHOSEN.finding(NAMESPACE, text),))
    converted = template(candidate)
    if converted.obstacles:
        return converted
    notice = CHOSEN.finding(NAMESPACE, f"the strategy auto makes a claim from a template: {reason}")
    return replace(converted, notices=(*converted.notices, notice))


def _reason_for_template(candidate: ConversionCandidate) -> str | None:
    classes = known_classes(candidate.view)
    if not classes.are_listed:
        return "the DeviceClasses are not known"
    unmapped = next((resource for resource in candidate.places if not classes.standing_for(resource)), None)
    if unmapped is not None:
        return f"no DeviceClass has extendedResourceName: {unmapped}"
    translated = next((text for _, text in translations(candidate)), None)
    return translated or server_problem(candidate.view) or kubelet_problem(candidate.view)


STRATEGIES = {"template": template, "rename": rename, "leave": leave, "auto": auto}
"""By the value of the namespace label `gpu-admission.io/dra-strategy`."""
