"""Checks of settings beside their types: empty lists, unknown rules, spellings of accounts."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import items_at, lookup
from policies.kubernetes.printable import quote
from policies.settings.placement_checks import taint_problems, wish_problems
from policies.settings.workload_kinds import kind_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["spec_problems"]

_RULE_ID = re.compile(r"GA[0-9]{3}")
_ACCOUNT = re.compile(r"[-a-z0-9*?\[\]!]+/[-a-z0-9.*?\[\]!]+")
_USER = re.compile(r"system:serviceaccount:([^:]+):([^:]+)")
"""How the API server spells the user that a service account is."""

_ACCOUNTS = ("access", "exemptServiceAccounts")
_EXEMPT_FROM = re.compile(r"conversion|access|GA(?:[0-9]{3}|[0-9]{0,2}\*)")
_WEIGHT = re.compile(r"[0-9]{1,4}/[1-9][0-9]{0,3}|[01](?:\.[0-9]{1,6})?")
_TRUSTED = ("quota", "trustedCreators")
_SUBJECTS = ("users", "groups", "serviceAccounts")
_EMPTY = {
    ("conversion", "schedulers"): "is empty, so nothing would be converted; leave it out to mean default-scheduler",
    ("configuration", "operatorNamespaces"): (
        "is empty, so nothing of the GPU Operator would be found; leave it out to mean gpu-operator and "
        "nvidia-gpu-operator"
    ),
    _TRUSTED: (
        "is empty, so the claims of pods would be charged a second time; leave it out to mean Kubernetes' own controllers"
    ),
}
"""What to say of lists that must name something."""


def spec_problems(spec: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Where in a spec of any shape something is wrong beside types, and what."""
    for path, check in _ITEMS.items():
        for index, item in enumerate(items_at(spec, path)):
            if lookup(item, ("namespaces",)) == []:
                yield (*path, index, "namespaces"), "is empty; leave it out to mean every namespace"
            for steps, said in check(item):
                yield (*path, index, *steps), said
    for path, said in _EMPTY.items():
        if lookup(spec, path) == []:
            yield path, said
    for index, user in enumerate(items_at(spec, _TRUSTED)):
        if user == "":
            yield (*_TRUSTED, index), "is empty; write the name of a user, such as system:kube-scheduler"
    for index, account in enumerate(items_at(spec, _ACCOUNTS)):
        if isinstance(account, str) and not _ACCOUNT.fullmatch(account):
            yield (*_ACCOUNTS, index), _account_problem(account)


def _override_problems(override: Any) -> Iterator[tuple[tuple[str], str]]:
    rule = lookup(override, ("rule",))
    if isinstance(rule, str) and not _RULE_ID.fullmatch(rule):
        yield ("rule",), f'is "{rule}"; a rule is GA and three digits, such as GA307'


def _account_problem(account: str) -> str:
    user = _USER.fullmatch(account)
    written = f'"{user[1]}/{user[2]}"' if user else "namespace/name, such as monitoring/dcgm-exporter"
    return f"is {quote(account)}; write {written}"


def _exemption_problems(exemption: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(exemption, dict) and not any(exemption.get(key) for key in _SUBJECTS):
        yield (), f"exempts no user; name users in {', '.join(_SUBJECTS[:-1])} or {_SUBJECTS[-1]}"
    if lookup(exemption, ("from",)) == []:
        yield ("from",), "is empty, so it exempts from nothing; write conversion, access, or rules such as GA307"
    for index, what in enumerate(items_at(exemption, ("from",))):
        if isinstance(what, str) and not _EXEMPT_FROM.fullmatch(what):
            said = quote(what)
            yield ("from", index), f"is {said}; write conversion, access, or rules such as GA307 or GA6*"
    for index, account in enumerate(items_at(exemption, ("serviceAccounts",))):
        if isinstance(account, str) and not _ACCOUNT.fullmatch(account):
            yield ("serviceAccounts", index), _account_problem(account)


def _weight_problems(weight: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if lookup(weight, ("products",)) == []:
        yield ("products",), 'is empty, so it weighs nothing; write "*" to mean every product'
    for index, product in enumerate(items_at(weight, ("products",))):
        if product == "":
            yield ("products", index), 'is empty; write a product such as "Tesla-T4" or "H100*"'
    gpus = lookup(weight, ("gpus",))
    if isinstance(gpus, str) and not (_WEIGHT.fullmatch(gpus) and 0 < Fraction(gpus) <= 1):
        said = quote(gpus)
        yield ("gpus",), f'is {said}; write how much of a GPU a replica is, above 0 and at most 1, such as "1/4"'


_ITEMS: dict[tuple[str, ...], Callable[[Any], Iterator[tuple[tuple[str | int, ...], str]]]] = {
    ("rules",): _override_problems,
    ("exemptions",): _exemption_problems,
    ("placement", "wishes"): wish_problems,
    ("placement", "tolerations"): taint_problems,
    ("quota", "weights"): _weight_problems,
    ("workloads", "kinds"): kind_problems,
}
"""Lists whose items hold in namespaces, and what else is checked of an item."""
