"""The strategy `auto`: leaves a pod as it is where that certainly gives it the same GPUs, and otherwise uses a template."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.conversion import Conversion
from policies.conversion.opt_in import NAMESPACE
from policies.conversion.strategies.template import template
from policies.conversion.translations import translations
from policies.conversion.versions import kubelet_problem, server_problem
from policies.decision import Severity
from policies.fleet.known_classes import known_classes
from policies.rules import rule

if TYPE_CHECKING:
    from policies.conversion.conversion import Question

__all__ = ["auto"]


CHOSEN = rule(
    "GA333",
    "Users must be told what the strategy auto chooses",
    default=Severity.WARN,
    why="""
    The strategy auto leaves a pod as it is where a DeviceClass stands for what it asks for, nothing needs translating
    and every GPU node's kubelet is 1.36 or newer; everything else gets a claim from a template. The choice may be
    another tomorrow, so each pod is told what was chosen for it and why.""",
    remedy="set gpu-admission.io/dra-strategy to template or leave on the namespace to have one of them always",
    source="docs/conversion.md",
)


def auto(question: Question) -> Conversion:
    """Choose for a pod, and say what and why; what is not known speaks for a template, which works in every cluster."""
    if question.obstacles:
        return template(question)
    reason = _against_leaving(question)
    if reason is None:
        classes = known_classes(question.view)
        named = " and ".join(f'"{classes.standing_for(resource)[0]}"' for resource in question.places)
        text = f"the strategy auto leaves the pod as it is: DRA hands out its GPUs by DeviceClass {named}"
        return Conversion(notices=(CHOSEN.finding(NAMESPACE, text),))
    converted = template(question)
    if converted.obstacles:
        return converted
    told = CHOSEN.finding(NAMESPACE, f"the strategy auto makes a claim from a template: {reason}")
    return replace(converted, notices=(*converted.notices, told))


def _against_leaving(question: Question) -> str | None:
    classes = known_classes(question.view)
    if not classes.are_listed:
        return "the DeviceClasses are not known"
    unmapped = next((resource for resource in question.places if not classes.standing_for(resource)), None)
    if unmapped is not None:
        return f"no DeviceClass has extendedResourceName: {unmapped}"
    translated = next((text for _, text in translations(question)), None)
    return translated or server_problem(question.view) or kubelet_problem(question.view)
