"""Renders the webhook configurations, and the overlay `default` as install.yaml.

`python deploy/render.py` writes the files; `--check` reports files that are out of date. `--settings FILE` prints them with
the additions of a GPUAdmissionPolicy: rules of webhooks, namespaces in their selectors, and RBAC; changed documents lose
their comments. The overlay only lists files, so this needs no kustomize; for overlays with patches, use
`kubectl kustomize`.
"""

# ruff: noqa: INP001 - a script among manifests, and no package
from __future__ import annotations

import copy
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from policies.admission import NAME_LABEL, WEBHOOKS, entry_of
from policies.rules.settings import DEFAULTS, SettingsError, parse_settings
from policies.rules.settings.exemptions import excluded_names, exempt_names, in_default_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.admission import ResourceRule, Webhook
    from policies.nvidia.pod_conditions import ChangeCondition, PodCondition
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["CannotRender", "render", "webhook_configuration", "with_settings"]

_DEPLOY = Path(__file__).resolve().parent
_INSTALL = _DEPLOY / "install.yaml"
_WEBHOOKS = _DEPLOY / "base" / "webhooks"
_CONFIGURATIONS = {_WEBHOOKS / "mutating.yaml": True, _WEBHOOKS / "validating.yaml": False}
"""Files of webhook configurations, and whether they are mutating."""
_HEAD = (
    "# gpu-admission, as deploy/overlays/default has it; rendered by deploy/render.py. docs/install.md says more.\n"
    "# kubectl apply -f deploy/install.yaml\n"
)
_WEBHOOKS_HEAD = """\
# Every field with a default is written out, so that GitOps tools see no difference. The exception is caBundle, which
# gpu-admission or cert-manager fills in and which must not be written here. matchConditions name only fields that the
# entry reads.
apiVersion: admissionregistration.k8s.io/v1
"""
_WEBHOOKS_METADATA = """
metadata:
  name: gpu-admission
  labels:
    app.kubernetes.io/name: gpu-admission
    app.kubernetes.io/component: webhooks
webhooks:
"""
_MOST_IN_LINE = 3
"""Values of a selector that are written in one line."""
_KUSTOMIZATION = "kustomization.yaml"
_UNDERSTOOD = frozenset({"apiVersion", "kind", "resources", "components"})
_SEPARATOR = "---\n"
_USAGE = "usage: python deploy/render.py [--check | --settings FILE]\n"


class CannotRender(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """Raised if a kustomization does more than list files, or settings are invalid."""


def render(overlay: Path) -> str:
    """All manifests of a kustomization in one text, in its order.

    Raises:
        CannotRender: It patches, generates or transforms something.
    """
    return _HEAD + "".join(f"{_SEPARATOR}{file.read_text().strip()}\n" for file in _files(overlay))


def webhook_configuration(*, mutating: bool) -> str:
    """The manifest of one webhook configuration, with its comments."""
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    webhooks = (_webhook(each) for each in WEBHOOKS if each.mutating is mutating)
    return f"{_WEBHOOKS_HEAD}kind: {kind}{_WEBHOOKS_METADATA}{''.join(webhooks)}"


def _webhook(webhook: Webhook) -> str:
    entry = webhook.entry
    lines = [
        *(f"# {line}" for line in webhook.note.split("\n")),
        f"- name: {entry.webhook}",
        "  admissionReviewVersions: [v1]",
        "  clientConfig:",
        "    service:",
        "      name: gpu-admission",
        "      namespace: gpu-admission",
        f"      path: /{entry.name}",
        "      port: 443",
        f"  failurePolicy: {entry.failure_policy}",
        f"  sideEffects: {entry.side_effects}",
        f"  timeoutSeconds: {webhook.timeout}",
        "  matchPolicy: Equivalent",
        *([f"  reinvocationPolicy: {webhook.reinvocation}"] if webhook.mutating else []),
        *_namespace_selector(webhook),
        *(
            ["  objectSelector:", "    matchLabels:", f'      {webhook.objects[0]}: "{webhook.objects[1]}"']
            if webhook.objects
            else ["  objectSelector: {}"]
        ),
        "  rules:",
        *(line for rule in webhook.rules for line in _rule_lines(rule)),
        *(["  matchConditions:"] if webhook.conditions else []),
        *(line for name, condition in webhook.conditions.items() for line in _condition(name, condition)),
    ]
    return "".join(f"{line}\n" for line in lines)


def _namespace_selector(webhook: Webhook) -> Iterator[str]:
    if webhook.everywhere:
        yield "  namespaceSelector: {}"
        return
    yield from ("  namespaceSelector:", "    matchExpressions:")
    for key, operator, value in webhook.namespaces:
        yield from (f"    - key: {key}", f"      operator: {operator}", f"      values: [{value}]")
    names = in_default_order(excluded_names(webhook.entry.exempt_from, DEFAULTS))
    yield from (f"    - key: {NAME_LABEL}", "      operator: NotIn")
    if len(names) <= _MOST_IN_LINE:
        yield f"      values: {_flow(names)}"
    else:
        yield "      values:"
        yield from (f"      - {name}" for name in names)


def _rule_lines(rule: ResourceRule) -> tuple[str, ...]:
    return (
        f"  - apiGroups: {_flow([rule.group])}",
        f"    apiVersions: {_flow(rule.versions)}",
        f"    operations: {_flow(rule.operations)}",
        f"    resources: {_flow(rule.resources)}",
        f"    scope: {rule.scope}",
    )


def _condition(name: str, condition: str | PodCondition | ChangeCondition) -> Iterator[str]:
    expression = condition if isinstance(condition, str) else condition.expression
    yield f"  - name: {name}"
    if "\n" not in expression and expression[0].isalpha():
        yield f"    expression: {expression}"
    else:
        yield "    expression: >-"
        yield from (f"      {line}" for line in expression.split("\n"))


def _flow(values: Iterable[str]) -> str:
    return f"[{', '.join(json.dumps(value) if value in ('', '*') else value for value in values)}]"


def with_settings(text: str, settings: GPUAdmissionPolicy) -> str:
    """Rendered manifests with what settings add to webhooks and RBAC."""
    head, *documents = text.split(f"\n{_SEPARATOR}")
    changed = [_with_settings(document, settings) for document in documents]
    # Before the webhooks, which come last.
    first = next(index for index, text in enumerate(changed) if "\nkind: MutatingWebhookConfiguration\n" in text)
    bindings = [_binding(name) for name in _added_operator_namespaces(settings)]
    return f"\n{_SEPARATOR}".join([head, *changed[:first], *bindings, *changed[first:]])


def _with_settings(text: str, settings: GPUAdmissionPolicy) -> str:
    """A document as settings have it; the very text if they change nothing."""
    before = yaml.safe_load(text)
    after = copy.deepcopy(before)
    match before["kind"], before["metadata"]["name"]:
        case "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration", _:
            for webhook in after["webhooks"]:
                _change_webhook(webhook, settings)
        case "ClusterRole", "gpu-admission":
            for group, plural in _added_resources(settings):
                after["rules"].append({"apiGroups": [group], "resources": [plural], "verbs": ["list"]})
        case "ValidatingAdmissionPolicy", "namespace-labels.gpu-admission.io":
            for validation in after["spec"]["validations"]:
                _change_names(validation, settings)
        case "ValidatingAdmissionPolicy", "admin-access.gpu-admission.io":
            for condition in after["spec"]["matchConditions"]:
                _change_operators(condition, settings)
    return text if after == before else _dump(after)


def _change_webhook(webhook: dict[str, Any], settings: GPUAdmissionPolicy) -> None:
    entry = entry_of(webhook)
    for term in webhook["namespaceSelector"].get("matchExpressions", ()):
        if entry is not None and (term["key"], term["operator"]) == (NAME_LABEL, "NotIn"):
            term["values"] = in_default_order(excluded_names(entry.exempt_from, settings))
    if webhook["name"] == "workloads.gpu-admission.io":
        webhook["rules"] += [_rule(group, plural) for group, plural in _added_resources(settings)]
    if webhook["name"] == "configuration.gpu-admission.io":
        for condition in webhook.get("matchConditions", ()):
            _change_operators(condition, settings)


def _change_operators(condition: dict[str, Any], settings: GPUAdmissionPolicy) -> None:
    """Name the namespaces of the GPU Operator wherever a list begins with the default ones."""
    default, own = (json.dumps(each.configuration.operator_namespaces)[:-1] for each in (DEFAULTS, settings))
    condition["expression"] = condition["expression"].replace(default, own)


def _change_names(validation: dict[str, Any], settings: GPUAdmissionPolicy) -> None:
    """Name the namespaces on which a label would promise what does not hold."""
    concern = "quota" if "gpu-admission.io/quota" in validation["expression"] else "conversion"
    names = json.dumps(in_default_order(exempt_names(concern, settings)))
    validation["expression"] = re.sub(
        r"object\.metadata\.name in \[[^\]]*\]", f"object.metadata.name in {names}", validation["expression"]
    )


def _added_resources(settings: GPUAdmissionPolicy) -> list[tuple[str, str]]:
    return [(kind.group, kind.plural) for kind in settings.workloads.kinds]


def _added_operator_namespaces(settings: GPUAdmissionPolicy) -> list[str]:
    default = DEFAULTS.configuration.operator_namespaces
    return [name for name in settings.configuration.operator_namespaces if name not in default]


def _rule(group: str, plural: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": [plural],
        "scope": "Namespaced",
    }


def _binding(namespace: str) -> str:
    """The RoleBinding by which the service reads a namespace of the GPU Operator."""
    binding = yaml.safe_load((_DEPLOY / "components" / "gpu-operator" / "role-binding.yaml").read_text())
    binding["metadata"]["namespace"] = namespace
    return _dump(binding)


def _dump(document: Any) -> str:
    text: str = yaml.safe_dump(document, sort_keys=False, width=120, allow_unicode=True)
    return text.strip()


def _files(folder: Path) -> Iterator[Path]:
    kustomization = yaml.safe_load((folder / _KUSTOMIZATION).read_text())
    if more := sorted(kustomization.keys() - _UNDERSTOOD):
        raise CannotRender(
            f"{folder / _KUSTOMIZATION} has {', '.join(more)}; render it with `kubectl kustomize {folder}`."
        )
    # Components come first, so that the webhooks stay last.
    for resource in (*kustomization.get("components", ()), *kustomization["resources"]):
        path = (folder / resource).resolve()
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def _settings(file: str) -> GPUAdmissionPolicy:
    try:
        return parse_settings(yaml.safe_load(Path(file).read_text()))
    except (OSError, UnicodeError, yaml.YAMLError, SettingsError) as error:
        raise CannotRender(f"{file}: {error}") from error


def main(arguments: list[str]) -> int:
    """Write deploy/install.yaml, compare it (`--check`), or print it for settings (`--settings FILE`)."""
    try:
        configurations = {file: webhook_configuration(mutating=kind) for file, kind in _CONFIGURATIONS.items()}
        if not arguments:
            for file, manifest in configurations.items():
                file.write_text(manifest)
        text = render(_DEPLOY / "overlays" / "default")
        match arguments:
            case []:
                _INSTALL.write_text(text)
            case ["--check"] if any(file.read_text() != manifest for file, manifest in configurations.items()):
                sys.stderr.write(
                    "deploy/base/webhooks is not what policies.admission.webhooks says; run: python deploy/render.py\n"
                )
                return 1
            case ["--check"] if _INSTALL.read_text() != text:
                sys.stderr.write("deploy/install.yaml is not what its overlay says; run: python deploy/render.py\n")
                return 1
            case ["--check"]:
                pass
            case ["--settings", file]:
                sys.stdout.write(with_settings(text, _settings(file)))
            case _:
                sys.stderr.write(_USAGE)
                return 2
    except CannotRender as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
