"""Decides on admission requests: the one pipeline of concerns, and reviews by a view.

A name is imported with its module when it is first used, so that a command pays for what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.admission.admission_policies import STATIC_SUFFIX, AdmissionPolicy, PolicyRefusal, policy_refusals
    from policies.admission.all_rules import rule_book
    from policies.admission.concerns import load_rules, warm
    from policies.admission.coverage import reviewed_kind, reviewed_kinds
    from policies.admission.installed import NAME_LABEL, entry_of, opened_webhooks, uncovered_settings
    from policies.admission.namespaces import label_policy
    from policies.admission.objects import ObjectReview, Refusal, Verdict, review_object
    from policies.admission.opt_in import (
        ConversionResult,
        ExpectedConversion,
        expected_conversion,
        is_converted,
        requests_device_plugin,
    )
    from policies.admission.pipeline import Charge, Course, Ensure, Failure, Finish, Judge, Part, Read, Step, decide
    from policies.admission.pod_forms import (
        ANNOTATIONS_READ,
        REPEATABLE,
        as_created,
        as_running,
        common_object,
        common_part,
        common_request,
        controller_label,
        form_of,
        slim_pod,
    )
    from policies.admission.pods import well_formed_pod
    from policies.admission.reviews import (
        entries_called,
        judge,
        missing_templates,
        needed_by_workloads,
        review,
        review_concern,
    )
    from policies.admission.severities import finish, judged_findings
    from policies.admission.static_policies import (
        compile_policies,
        doubled_webhooks,
        is_static_configuration,
        outdated_policies,
    )
    from policies.admission.webhooks import (
        CLAIM_KINDS,
        CONFIGURATIONS,
        ENTRIES,
        WEBHOOKS,
        Entry,
        ResourceRule,
        Webhook,
        kinds_of,
    )
    from policies.admission.workload_templates import templates_of, unread_pods

__all__ = [
    "ANNOTATIONS_READ",
    "CLAIM_KINDS",
    "CONFIGURATIONS",
    "ENTRIES",
    "NAME_LABEL",
    "REPEATABLE",
    "STATIC_SUFFIX",
    "WEBHOOKS",
    "AdmissionPolicy",
    "Charge",
    "ConversionResult",
    "Course",
    "Ensure",
    "Entry",
    "ExpectedConversion",
    "Failure",
    "Finish",
    "Judge",
    "ObjectReview",
    "Part",
    "PolicyRefusal",
    "Read",
    "Refusal",
    "ResourceRule",
    "Step",
    "Verdict",
    "Webhook",
    "as_created",
    "as_running",
    "common_object",
    "common_part",
    "common_request",
    "compile_policies",
    "controller_label",
    "decide",
    "doubled_webhooks",
    "entries_called",
    "entry_of",
    "expected_conversion",
    "finish",
    "form_of",
    "is_converted",
    "is_static_configuration",
    "judge",
    "judged_findings",
    "kinds_of",
    "label_policy",
    "load_rules",
    "missing_templates",
    "needed_by_workloads",
    "opened_webhooks",
    "outdated_policies",
    "policy_refusals",
    "requests_device_plugin",
    "review",
    "review_concern",
    "review_object",
    "reviewed_kind",
    "reviewed_kinds",
    "rule_book",
    "slim_pod",
    "templates_of",
    "uncovered_settings",
    "unread_pods",
    "warm",
    "well_formed_pod",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """The public name of a module, which is imported when it is first used."""
        match name:
            case "STATIC_SUFFIX" | "AdmissionPolicy" | "PolicyRefusal" | "policy_refusals":
                from policies.admission import admission_policies as home
            case "rule_book":
                from policies.admission import all_rules as home
            case "load_rules" | "warm":
                from policies.admission import concerns as home
            case "reviewed_kind" | "reviewed_kinds":
                from policies.admission import coverage as home
            case "NAME_LABEL" | "entry_of" | "opened_webhooks" | "uncovered_settings":
                from policies.admission import installed as home
            case "label_policy":
                from policies.admission import namespaces as home
            case "ObjectReview" | "Refusal" | "Verdict" | "review_object":
                from policies.admission import objects as home
            case (
                "ConversionResult"
                | "ExpectedConversion"
                | "expected_conversion"
                | "is_converted"
                | "requests_device_plugin"
            ):
                from policies.admission import opt_in as home
            case "Charge" | "Course" | "Ensure" | "Failure" | "Finish" | "Judge" | "Part" | "Read" | "Step" | "decide":
                from policies.admission import pipeline as home
            case (
                "ANNOTATIONS_READ"
                | "REPEATABLE"
                | "as_created"
                | "as_running"
                | "common_object"
                | "common_part"
                | "common_request"
                | "controller_label"
                | "form_of"
                | "slim_pod"
            ):
                from policies.admission import pod_forms as home
            case "well_formed_pod":
                from policies.admission import pods as home
            case "entries_called" | "judge" | "missing_templates" | "needed_by_workloads" | "review" | "review_concern":
                from policies.admission import reviews as home
            case "finish" | "judged_findings":
                from policies.admission import severities as home
            case "compile_policies" | "doubled_webhooks" | "is_static_configuration" | "outdated_policies":
                from policies.admission import static_policies as home
            case (
                "CLAIM_KINDS"
                | "CONFIGURATIONS"
                | "ENTRIES"
                | "WEBHOOKS"
                | "Entry"
                | "ResourceRule"
                | "Webhook"
                | "kinds_of"
            ):
                from policies.admission import webhooks as home
            case "templates_of" | "unread_pods":
                from policies.admission import workload_templates as home
            case _:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals().setdefault(name, getattr(home, name))
