"""Our rules as ValidatingAdmissionPolicies, for API servers that read them from files.

Such a policy holds while gpu-admission is down, and cannot be deleted through the API. It has no parameters, so it is
compiled for settings, and compiled again when they change. Only refusals are compiled: warnings need no guard. Files that hold
other policies than this version compiles are reported.

Source: k8s.io/apiserver pkg/admission/plugin/policy/manifest/loader, pkg/admission/plugin/manifest (KEP-5793).
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.access.cel_rules import VARIABLES, offenders
from policies.admission.admission_policies import STATIC_SUFFIX, AdmissionPolicy, Validation
from policies.admission.all_rules import rule_book
from policies.admission.namespaces import label_policy
from policies.admission.webhooks import NEW_PODS, ResourceRule
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes import webhook_rules as conditions
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import lookup, mappings_at, name_of
from policies.nvidia.pod_conditions import CHANGES_GPU_ACCESS
from policies.nvidia.predicates import cel_string
from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import (
    ACCESS,
    NEVER_MATCHED,
    OF_ACCESS,
    excluded_names,
    exempt_patterns,
    in_default_order,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Rule
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Exemption


def compile_policies(settings: GPUAdmissionPolicy, view: ClusterView) -> tuple[AdmissionPolicy, ...]:
    """The policies that refuse what our rules refuse in every cluster, as far as CEL can express it.

    Every refusal of theirs is one of the rules under the same settings. A policy without validations is left out: if
    `access.mode` is `warn` and `rules` raises none of its rules, access refuses nothing.

    Args:
        settings: The settings, whose severities, exemptions and modes are compiled in.
        view: The cluster. Its ClusterPolicies, nodes and RuntimeClasses say which annotations are read, where the driver
            lies, and which RuntimeClasses are NVIDIA's; the usual counts for what it does not show.
    """
    found = (label_policy(settings), _access(settings, view), _claims(settings))
    return tuple(policy for policy in found if policy.validations)


_CHANGES = f"""\
request.operation == "UPDATE" && request.subResource == "" ?
{CHANGES_GPU_ACCESS.expression} :
{conditions.SHOWS_GPU_ACCESS}"""


def _access(settings: GPUAdmissionPolicy, view: ClusterView) -> AdmissionPolicy:
    """The access guard. In mode `warn`, only rules that `spec.rules` raises are in it."""
    names = excluded_names(("access",), settings) | excluded_names(("access",), DEFAULTS)
    found = {"gpu-access": _CHANGES}
    if patterns := exempt_patterns("access", settings):
        found["no-exempt-namespace"] = f"!{_matches('request.namespace', patterns)}"
    if accounts := settings.access.exempt_service_accounts:
        account = (
            '(object.spec.?serviceAccountName.orValue("") != "" ? object.spec.serviceAccountName :\n'
            'object.spec.?serviceAccount.orValue("") != "" ? object.spec.serviceAccount : "default")'
        )
        pairs = (pattern.partition("/") for pattern in accounts)
        found["no-exempt-account"] = " &&\n".join(
            f"!({_matches('request.namespace', [where])} && {_matches(account, [who])})" for where, _, who in pairs
        )
    listed = offenders(settings, view)
    validations = [*_validations(listed, Severity(settings.access.mode), settings)]
    used = {rules for rules in listed if any(each.rules == rules for each in validations)}
    return AdmissionPolicy(
        name="access",
        note="Pods that get GPUs without a request, as docs/access.md says.",
        resource_rules=(NEW_PODS, ResourceRule(("UPDATE",), "", ("Pod", "Pod/ephemeralcontainers"))),
        excluded=tuple(in_default_order(names)),
        conditions=found,
        variables={**VARIABLES, **{_variable(rules): listed[rules] for rules in listed if rules in used}},
        validations=tuple(validations),
    )


_COUNTED = 'x.?allocationMode.orValue("ExactCount") == "ExactCount" ? int(x.?count.orValue(1)) : 1'
_DEVICES = f"""\
[(has(object.spec.spec) ? object.spec.spec : object.spec).?devices.?requests.orValue([]).map(r,
(has(r.exactly) ? [r.exactly] : r.?firstAvailable.orValue([])).map(x, {_COUNTED})).map(counts,
size(counts) == 0 ? 0 : counts.min()).sum()].filter(total, total > {MOST_DEVICES}).map(total, string(total))"""
"""The number of devices that a claim requests at least, in a list, if a claim cannot hold them."""


def _claims(settings: GPUAdmissionPolicy) -> AdmissionPolicy:
    listed: dict[tuple[str, ...], str] = {("GA227",): _DEVICES}
    return AdmissionPolicy(
        name="claims",
        note="Claims that no scheduler can allocate. Those that a controller makes of a template were judged with it.",
        resource_rules=(ResourceRule(("CREATE",), "resource.k8s.io", ("ResourceClaim", "ResourceClaimTemplate")),),
        excluded=NEVER_MATCHED,
        conditions={"by-people": conditions.NOT_BY_CONTROLLERS},
        variables={_variable(rules): text for rules, text in listed.items()},
        validations=tuple(_validations(listed, Severity.DENY, settings)),
    )


def _variable(rules: tuple[str, ...]) -> str:
    return "_".join(rules).lower()


_SUBJECTS = {"GA611": "annotations ", "GA227": "number of devices "}
"""The noun for the members of the list of a rule, if they are not containers."""


def _validations(
    listed: Mapping[tuple[str, ...], str], default: Severity, settings: GPUAdmissionPolicy
) -> Iterator[Validation]:
    """A validation for each list of offenders whose rules may refuse.

    Args:
        listed: The lists, by the rules of which one refuses what is in them.
        default: The severity of the rules, unless the settings override it.
        settings: The settings.
    """
    for rules in listed:
        chosen = [each for each in rule_book().rules if each.id in rules]
        found = [_refusal_condition(rule, default, settings) for rule in chosen]
        if "false" in found:
            continue
        variable = f"variables.{_variable(rules)}"
        where = " && ".join(each for each in found if each != "true")
        expression = f"size({variable}) == 0"
        rule = chosen[-1]
        start = f"{rule.remedy}: {rule.title[0].lower()}{rule.title[1:]}"
        ids = f" [{' or '.join(rules)}]"
        subject = f"; {_SUBJECTS.get(rule.id, 'containers ')}"
        yield Validation(
            rules,
            f"!({where}) ||\n{expression}" if where else expression,
            start + ids,
            f'{cel_string(start + subject)} +\n{variable}.join(", ") + {cel_string(ids)}',
        )


def _refusal_condition(rule: Rule, default: Severity, settings: GPUAdmissionPolicy) -> str:
    """A condition on the request: the rule refuses; `true` and `false` if that is certain."""
    refuses = "true" if default is Severity.DENY else "false"
    for override in settings.rules:
        value = "true" if override.severity is Severity.DENY else "false"
        if override.rule != rule.id or value == refuses:
            continue
        place = _in_namespaces(override.namespaces)
        refuses = value if place == "true" else f"({place} ? {value} : {refuses})"
    if refuses == "false":
        return refuses
    exempt = [
        _exempts(each)
        for each in settings.exemptions
        if any(fnmatchcase(rule.id, OF_ACCESS if pattern == ACCESS else pattern) for pattern in each.from_)
    ]
    parts = [*([] if refuses == "true" else [refuses]), *(f"!({each})" for each in exempt)]
    return " && ".join(parts) or refuses


def _exempts(exemption: Exemption) -> str:
    user, groups = "request.userInfo.username", "request.userInfo.?groups.orValue([])"
    accounts = [f"system:serviceaccount:{each.replace('/', ':', 1)}" for each in exemption.service_accounts]
    ways = [_matches(user, names) for names in (exemption.users, accounts) if names]
    if exemption.groups:
        ways.append(f"{groups}.exists(g, {_matches('g', exemption.groups)})")
    place = _in_namespaces(exemption.namespaces)
    who = f"({' || '.join(ways) or 'false'})"
    return who if place == "true" else f"{place} && {who}"


def _in_namespaces(patterns: Iterable[str]) -> str:
    chosen = [*patterns]
    return "true" if "*" in chosen else _matches("request.namespace", chosen)


def _matches(text: str, patterns: Iterable[str]) -> str:
    """A CEL condition: a text matches one of some shell patterns, as `fnmatchcase` reads them."""
    return f"{text}.matches({cel_string('(?s)^(?:' + '|'.join(map(_expression, patterns)) + ')$')})"


_PART = re.compile(r"\*|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)


def _expression(pattern: str) -> str:
    """A shell pattern in the syntax of RE2."""
    wild = {"*": ".*", "?": "."}
    return "".join(
        wild.get(part) or (_class(part) if len(part) > 1 else re.escape(part)) for part in _PART.findall(pattern)
    )


def _class(part: str) -> str:
    """A class of a shell pattern. RE2 refuses ranges such as `b-a`, so its ASCII characters are listed."""
    is_negated = part.startswith("[!")
    known = f"[{part[2:]}" if is_negated else part
    members = "".join(rf"\x{code:02x}" for code in range(128) if fnmatchcase(chr(code), known))
    if not members:
        return "." if is_negated else r"[^\x00-\x{10ffff}]"
    return f"[{'^' * is_negated}{members}]"


_OURS = f".gpu-admission{STATIC_SUFFIX}"
_POLICY = "ValidatingAdmissionPolicy"
_MOST_NAMES = 5


def is_static_configuration(document: Object) -> bool:
    """True if an object is one of our webhook configurations for the files of an API server."""
    return name_of(document) == _OURS.removeprefix(".") and str(document.get("kind")).endswith("WebhookConfiguration")


def outdated_policies(
    documents: Sequence[Object], settings: GPUAdmissionPolicy, views: Sequence[ClusterView]
) -> Iterator[str]:
    """Sentences on policies that are not what this version compiles, without full stops.

    Args:
        documents: The objects of the files.
        settings: The settings in use.
        views: What the policies may be compiled for: nothing known, and the cluster. One of them must agree.
    """
    found = {
        (str(each["kind"]), name_of(each)): each.get("spec")
        for each in documents
        if str(each.get("kind")).startswith(_POLICY) and name_of(each).endswith(_OURS)
    }
    least: list[str] | None = None
    for view in views:
        compiled = {
            (str(each["kind"]), name_of(each)): each["spec"]
            for policy in compile_policies(settings, view)
            for each in policy.documents(static=True)
        }
        differing = sorted({key for key in compiled.keys() | found.keys() if compiled.get(key) != found.get(key)})
        # Of a policy and its binding, one is enough.
        names = [*dict.fromkeys(f"{key[1]} {_state(found.get(key), compiled.get(key))}" for key in differing)]
        least = names if least is None or len(names) < len(least) else least
    if least:
        yield (
            "render the files of the API server again, with deploy/render.py --static: they are not what this version makes "
            f"of the settings in use ({format_list(least, _MOST_NAMES)})"
        )


def _state(found: object, compiled: object) -> str:
    return "is missing" if found is None else "is not needed" if compiled is None else "differs"


def doubled_webhooks(static: Iterable[Object], stored: Iterable[Object]) -> list[str]:
    """The names of the webhooks that are in files of an API server, and in its API too."""
    in_files, in_api = (
        {
            (str(configuration["kind"]), str(lookup(webhook, ("name",))))
            for configuration in configurations
            for webhook in mappings_at(configuration, ("webhooks",))
        }
        for configurations in (static, stored)
    )
    return sorted({name for _, name in in_files & in_api})
