"""Renders webhook configurations, admission policies, and the overlay `default` as install.yaml.

`python deploy/render.py` writes the files; `--check` reports files that are out of date. `--settings FILE` prints them with
the additions of a GPUAdmissionPolicy: rules of webhooks, namespaces in their selectors, and RBAC; changed documents lose
their comments. The overlay only lists files, so this needs no kustomize; for overlays with patches, use
`kubectl kustomize`.

`--static DIR` writes admission policies for the files of an API server into a folder, as docs/static-admission.md says; with
`--url URL` also the webhooks, called at this address, whose certificate the authorities in `--ca FILE` sign. `--cluster PATH`
has objects of the cluster and its settings.
"""

# ruff: noqa: INP001 - a script among manifests, and no package
from __future__ import annotations

import argparse
import base64
import copy
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from policies.admission import NAME_LABEL, STATIC_SUFFIX, WEBHOOKS, compile_policies, entry_of, label_policy
from policies.rules.settings import DEFAULTS
from policies.rules.settings.exemptions import excluded_names, in_default_order
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.settings import ADMISSION_CONFIGURATION, cluster_files
from webhook.cli.user_files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.admission import AdmissionPolicy, ResourceRule, Webhook
    from policies.nvidia.pod_conditions import ChangeCondition, PodCondition
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.settings import ClusterFiles

__all__ = ["CannotRender", "policy_manifest", "render", "static_files", "webhook_configuration", "with_settings"]

_DEPLOY = Path(__file__).resolve().parent
_INSTALL = _DEPLOY / "install.yaml"
_WEBHOOKS = _DEPLOY / "base" / "webhooks"
_CONFIGURATIONS = {_WEBHOOKS / "mutating.yaml": True, _WEBHOOKS / "validating.yaml": False}
"""Files of webhook configurations, and whether they are mutating."""
_LABEL_POLICY = _DEPLOY / "base" / "api" / "namespace-labels.yaml"
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
    app.kubernetes.io/part-of: gpu-admission
webhooks:
"""
_MOST_IN_LINE = 3
"""Values of a selector that are written in one line."""
_KUSTOMIZATION = "kustomization.yaml"
_UNDERSTOOD = frozenset({"apiVersion", "kind", "resources", "components"})
_SEPARATOR = "---\n"
_USAGE = (
    "python deploy/render.py [--check | --settings FILE | "
    "--static DIR [--url URL [--ca FILE]] [--settings FILE] [--cluster PATH]]"
)


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
        f"    scope: {json.dumps(rule.scope) if rule.scope == '*' else rule.scope}",
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
            after, _ = label_policy(settings).documents(static=False)
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


def policy_manifest(policy: AdmissionPolicy, *, static: bool) -> str:
    """The manifests of a policy and its binding, with their comments."""
    document, binding = policy.documents(static=static)
    constraints = document["spec"]["matchConstraints"]
    lines = [
        *(f"# {line}" for line in policy.note.split("\n")),
        *_yaml({key: document[key] for key in ("apiVersion", "kind", "metadata")}),
        "spec:",
        "  failurePolicy: Fail",
        "  matchConstraints:",
        "    matchPolicy: Equivalent",
        *(
            f"    {line}"
            for line in _yaml({"namespaceSelector": constraints["namespaceSelector"], "objectSelector": {}})
        ),
        "    resourceRules:",
        *(f"  {line}" for rule in policy.resource_rules for line in _rule_lines(rule)),
        *(["  matchConditions:"] if policy.conditions else []),
        *(line for name, text in policy.conditions.items() for line in _condition(name, text)),
        *(["  variables:"] if policy.variables else []),
        *(line for name, text in policy.variables.items() for line in _condition(name, text)),
        "  validations:",
    ]
    for each in policy.validations:
        lines += [f"  # {each.note}"] if each.note else []
        lines += ["  - expression: >-", *_block(each.expression), f"    reason: {each.reason}"]
        for field, text in (("message", each.message), ("messageExpression", each.message_expression)):
            is_short = "\n" not in text and not text.startswith('"')
            lines += [f"    {field}: {json.dumps(text)}"] if text and is_short else []
            lines += [f"    {field}: >-", *_block(text)] if text and not is_short else []
    lines += ["---", *_yaml({key: binding[key] for key in ("apiVersion", "kind", "metadata")})]
    lines += ["spec:", f"  policyName: {binding['spec']['policyName']}", "  validationActions: [Deny]"]
    return "".join(f"{line}\n" for line in lines)


def _block(text: str) -> Iterator[str]:
    return (f"      {line}" for line in text.split("\n"))


def _yaml(document: Any) -> list[str]:
    return _dump(document).split("\n")


_SNIPPET = """\
# For --admission-control-config-file of each API server. If it has one, add these plugins to it: a plugin stands in it once.
# The folders must exist wherever an API server runs, with the same files.
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
"""
_PLUGINS = {
    "policies": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration"),
    "mutating": ("MutatingAdmissionWebhook", "WebhookAdmissionConfiguration"),
    "validating": ("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration"),
}
"""By the folder of its manifests: a plugin of the API server, and the kind of its configuration.

Source: k8s.io/apiserver pkg/admission/plugin/policy/config/apis/policyconfig/v1, webhook/config/apis/webhookadmission/v1.
"""
_MANIFEST = "gpu-admission.yaml"


def static_files(folder: Path, files: ClusterFiles, url: str = "", authorities: bytes = b"") -> dict[Path, str]:
    """The manifests for the files of an API server, and a snippet of its configuration, by their paths.

    Args:
        folder: Where the API server finds them.
        files: The settings, and what is known of the cluster.
        url: The address of gpu-admission; without it, there are no webhooks.
        authorities: The certificates of the authorities that sign the certificate of this address, as PEM; empty for those of
            the API server's system.

    Raises:
        CannotRender: The address is not one that an API server calls.
    """
    if url and not (url.startswith("https://") and url.removeprefix("https://").strip("/") and not {*url} & {*"?#@"}):
        raise CannotRender(f"{url}: must be https://HOST[:PORT][/PATH], without user, query and fragment")
    policies = compile_policies(files.settings, files.view())
    found = {"policies": _SEPARATOR.join(policy_manifest(each, static=True) for each in policies)}
    for name, mutating in {"mutating": True, "validating": False}.items() if url else ():
        configuration = yaml.safe_load(webhook_configuration(mutating=mutating))
        configuration["metadata"]["name"] = f"gpu-admission{STATIC_SUFFIX}"
        for webhook in configuration["webhooks"]:
            _change_webhook(webhook, files.settings)
            webhook["clientConfig"] = {"url": url.rstrip("/") + webhook["clientConfig"]["service"]["path"]}
            if authorities:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(authorities).decode()
        found[name] = f"{_dump(configuration)}\n"
    plugins = [
        {
            "name": plugin,
            "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1",
                "kind": kind,
                "staticManifestsDir": str(folder / name),
            },
        }
        for name, (plugin, kind) in _PLUGINS.items()
        if name in found
    ]
    snippet = {folder / ADMISSION_CONFIGURATION: f"{_SNIPPET}{_dump(plugins)}\n"}
    return {folder / name / _MANIFEST: text for name, text in found.items()} | snippet


def _write_static(folder: Path, files: dict[Path, str]) -> None:
    """Write the files, each as a whole, because an API server may read it at any moment."""
    for file in (folder / name / _MANIFEST for name in _PLUGINS):
        if file not in files and file.exists():
            raise CannotRender(f"{file} is of an earlier rendering with --url: remove it, or give --url")
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(file), text.encode())
        sys.stdout.write(f"{file}\n")


def _read(settings: str | None, cluster: list[str]) -> ClusterFiles:
    reader = ManifestReader()
    files = cluster_files(cluster, settings, reader)
    if reader.problems:
        raise CannotRender("\n".join(map(str, dict.fromkeys(reader.problems))))
    return files


def main(arguments: list[str]) -> int:
    """Write or compare deploy/install.yaml, print it for settings, or write files of an API server."""
    parser = argparse.ArgumentParser(usage=_USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("--check", action="store_true")
    for option in ("--settings", "--static", "--url", "--ca"):
        parser.add_argument(option)
    parser.add_argument("--cluster", action="append", default=[])
    chosen = parser.parse_args(arguments)
    is_static = chosen.static is not None
    if (chosen.check and arguments != ["--check"]) or (not is_static and (chosen.url or chosen.ca or chosen.cluster)):
        parser.error("--url, --ca and --cluster are for --static, and --check stands alone")
    if chosen.ca and not chosen.url:
        parser.error("--ca is for --url")
    try:
        if is_static:
            folder = Path(chosen.static).resolve()
            authorities = Path(chosen.ca).read_bytes() if chosen.ca else b""
            files = static_files(folder, _read(chosen.settings, chosen.cluster), chosen.url or "", authorities)
            _write_static(folder, files)
        elif chosen.settings is not None:
            text = render(_DEPLOY / "overlays" / "default")
            sys.stdout.write(with_settings(text, _read(chosen.settings, []).settings))
        else:
            return _write_manifests(checks=chosen.check)
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        return 1
    except CannotRender as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _write_manifests(*, checks: bool) -> int:
    """Write what is rendered in deploy/, or say which of it is out of date."""
    manifests = {file: webhook_configuration(mutating=kind) for file, kind in _CONFIGURATIONS.items()}
    manifests[_LABEL_POLICY] = policy_manifest(label_policy(DEFAULTS), static=False)
    for file, manifest in manifests.items():
        if not checks:
            file.write_text(manifest)
        elif file.read_text() != manifest:
            where = file.relative_to(_DEPLOY.parent)
            sys.stderr.write(f"{where} is not what policies.admission says; run: python deploy/render.py\n")
            return 1
    text = render(_DEPLOY / "overlays" / "default")
    if not checks:
        _INSTALL.write_text(text)
    elif _INSTALL.read_text() != text:
        sys.stderr.write("deploy/install.yaml is not what its overlay says; run: python deploy/render.py\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
