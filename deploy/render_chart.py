"""Renders the Helm chart: its templates are the manifests, with values in their places.

`python deploy/render_chart.py` writes them and the table of values in docs/helm.md, after `deploy/render.py` wrote the
manifests; `--check` reports files that are out of date. `make chart` packs it.
"""

# ruff: noqa: INP001 - a script among manifests, and no package
from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from policies.admission import ENTRIES
from policies.rules.settings import DEFAULTS
from policies.rules.settings.choices import DRA_DRIVER_NAMESPACES
from policies.rules.settings.exemptions import NEVER_MATCHED

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NotFoundInManifestError", "chart_files", "page_with_values", "rendered_files"]

_DEPLOY = Path(__file__).resolve().parent
_CHART = _DEPLOY / "chart"
_SUBSTITUTIONS = _DEPLOY / "chart_values.yaml"
_SCHEMA = "values.schema.json"
_PAGE = _DEPLOY.parent / "docs" / "helm.md"
_TABLE = re.compile(r"(?<=<!-- rendered by deploy/render_chart.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
_NOTE = "{{{{- /* Rendered by deploy/render_chart.py from deploy/{}: change that file, or the substitutions. */ -}}}}\n"
_NAME = re.compile(r"^- name: ([\w-]+)\.gpu-admission\.io$", re.MULTILINE)
_METADATA = re.compile(
    r"""
    ^kind:[ ](?P<kind>\w+)\n
    metadata:\n
    (?P<head>[ ]{2}name:[ ]\S+\n(?:[ ]{2}namespace:.*\n)?)
    [ ]{2}labels:\n
    [ ]{4}app\.kubernetes\.io/name:[ ]gpu-admission\n
    [ ]{4}app\.kubernetes\.io/component:[ ](?P<component>\w+)\n
    [ ]{4}app\.kubernetes\.io/part-of:[ ]gpu-admission\n
    (?P<labels>(?:[ ]{4}\S.*\n)*)
    """,
    re.MULTILINE | re.VERBOSE,
)
"""The head of each manifest; helpers of the chart write its labels and annotations."""
_EXCLUDED = re.compile(
    r"(    - key: kubernetes\.io/metadata\.name\n      operator: NotIn\n      values:)(?: \[.*\]|(?:\n      - .*)+)\n"
)
_DOCS = re.compile(r"https://docs\.example\.com/gpu-admission/docs/([a-z-]+)\.html")
"""Pages of the documentation; a value has the place of the copy."""
_MOST_IN_CELL = 60
"""Characters of a default in the table of values."""
_USAGE = "usage: python deploy/render_chart.py [--check]\n"


class NotFoundInManifestError(Exception):
    """Raised if a manifest does not have exactly once what a value takes the place of."""


def rendered_files() -> dict[str, str]:
    """The rendered files of the chart, by their paths in it.

    Raises:
        NotFoundInManifestError: A substitution is out of date.
    """
    plan = yaml.safe_load(_SUBSTITUTIONS.read_text())
    files = {path: _template(source, steps) for path, (source, steps) in _templates(plan)}
    files |= {f"crds/{Path(source).name}": _first_crd(source) for source in plan["crds"]}
    files["templates/_webhooks.tpl"] = _webhooks(plan["webhooks"])
    files["files/exempt-namespaces.yaml"] = _exempt_namespaces()
    files["files/gpu-admission.json"] = (_DEPLOY / "components" / "monitoring" / "dashboard.json").read_text()
    files[_SCHEMA] = _schema()
    return files


def page_with_values(page: str) -> str:
    """The page about the chart, with a table of all values."""
    schema = json.loads((_CHART / _SCHEMA).read_text())
    values = yaml.safe_load((_CHART / "values.yaml").read_text())
    rows = "".join(f"| `{name}` | {default} | {text} |\n" for name, default, text in _rows(schema, values, ""))
    return _TABLE.sub(lambda _: f"| value | default | |\n|---|---|---|\n{rows}", page)


def _rows(schema: dict[str, Any], values: dict[str, Any], prefix: str) -> Iterator[tuple[str, str, str]]:
    for key, value in values.items():
        about = schema["properties"][key]
        if "properties" in about:
            yield from _rows(about, value, f"{prefix}{key}.")
        else:
            compact = json.dumps(value)
            default = f"`{compact}`" if len(compact) <= _MOST_IN_CELL else "see `values.yaml`"
            yield f"{prefix}{key}", default, about["description"]


def chart_files() -> dict[str, bytes]:
    """All files of the chart, by their paths in it."""
    paths = sorted(path for path in _CHART.rglob("*") if path.is_file())
    return {path.relative_to(_CHART).as_posix(): path.read_bytes() for path in paths}


def _templates(plan: dict[str, Any]) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    for source, steps in plan["templates"].items():
        yield f"templates/{steps.get('to', source.partition('/')[2])}", (source, steps)


def _template(source: str, steps: dict[str, Any]) -> str:
    text = (_DEPLOY / source).read_text().strip() + "\n"
    text = text.replace("{{", '{{ "{{" }}')
    text = _DOCS.sub(r'{{ $.Values.monitoring.docsURL | replace "PAGE" "\1" }}', text)
    for old, new in steps.get("replace", ()):
        text = _replace(source, text, old, new)
    text = _with_metadata(text, steps)
    if condition := steps.get("if"):
        text = f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"
    return _NOTE.format(source) + text


def _with_metadata(text: str, steps: dict[str, Any]) -> str:
    """The manifests with the labels and annotations of the values; `steps` has more, by the kind."""

    def metadata(found: re.Match[str]) -> str:
        more = steps.get("metadata", {}).get(found["kind"], "dict")
        if found["labels"]:
            pairs = (f"{json.dumps(key)} {json.dumps(value)}" for key, value in yaml.safe_load(found["labels"]).items())
            more = f'(dict "labels" (dict {" ".join(pairs)}))'
        include = f'{{{{- include "gpu-admission.metadata" (list $ "{found["component"]}" {more}) | nindent 2 }}}}'
        return f"kind: {found['kind']}\nmetadata:\n{found['head']}  {include}\n"

    text, count = _METADATA.subn(metadata, text)
    if count != text.count("\nmetadata:\n"):
        raise NotFoundInManifestError(f"a manifest without the labels name, component and part-of:\n{text}")
    return text


def _replace(source: str, text: str, old: str, new: str) -> str:
    if text.count(old) != 1:
        raise NotFoundInManifestError(
            f"deploy/{source} has this {text.count(old)} times instead of once; change it in deploy/{_SUBSTITUTIONS.name}:\n{old}"
        )
    return text.replace(old, new)


def _first_crd(source: str) -> str:
    """A CRD as an object of the release that its template is in, which takes it over.

    Helm creates it before it resolves the kinds of templates, and never changes it; the template does.
    """
    text = (_DEPLOY / source).read_text()
    return _replace(
        source,
        text,
        "    app.kubernetes.io/part-of: gpu-admission\n",
        "    app.kubernetes.io/part-of: gpu-admission\n    app.kubernetes.io/managed-by: Helm\n"
        "  annotations:\n    helm.sh/resource-policy: keep\n"
        "    meta.helm.sh/release-name: gpu-admission\n    meta.helm.sh/release-namespace: gpu-admission\n",
    )


def _webhooks(steps: dict[str, Any]) -> str:
    """The template of both webhook configurations: selectors and rules follow from the settings."""
    documents = []
    for source in ("base/webhooks/mutating.yaml", "base/webhooks/validating.yaml"):
        head, *rest = re.split(r"(?m)^(?=- name: )", (_DEPLOY / source).read_text())
        head = _with_metadata(head, steps)
        documents.append(head + "".join(_webhook(source, each, steps) for each in rest))
    text = "---\n".join(documents)
    return f'{_NOTE.format("base/webhooks")}{{{{- define "gpu-admission.webhooks" -}}}}\n{text}{{{{- end -}}}}\n'


def _webhook(source: str, text: str, steps: dict[str, Any]) -> str:
    """The template of one webhook."""
    named = _NAME.match(text)
    if named is None:
        raise NotFoundInManifestError(f"deploy/{source}: a webhook of another name: {text.partition(chr(10))[0]}")
    name = named[1]
    text = _replace(source, text, *steps["each"])
    if concerns := ENTRIES[name].exempt_from:
        # The order does not matter; "conversion-check" and "preview" are exempt as "conversion" is.
        arguments = " ".join(json.dumps(concern) for concern in concerns)
        include = f'{{{{- include "gpu-admission.excludedNames" (list . {arguments}) | nindent 6 }}}}'
        text, count = _EXCLUDED.subn(lambda found: f"{found[1]}\n      {include}\n", text)
        if count != 1:
            raise NotFoundInManifestError(f"deploy/{source}: webhook {name} excludes no namespaces")
    for old, new in steps.get(name, {}).get(source, ()):
        text = _replace(source, text, old, new)
    return text


def _exempt_namespaces() -> str:
    """The defaults of settings that selectors follow from."""
    defaults = {
        "neverMatched": NEVER_MATCHED,
        "operatorNamespaces": DEFAULTS.configuration.operator_namespaces,
        "draDriverNamespaces": DRA_DRIVER_NAMESPACES,
        "access": DEFAULTS.access.exempt_namespaces,
        "quota": DEFAULTS.quota.exempt_namespaces,
    }
    lists = {name: list(values) for name, values in defaults.items()}
    return (
        f"# Rendered by deploy/render_chart.py from policies.rules.settings.\n{yaml.safe_dump(lists, sort_keys=False)}"
    )


def _schema() -> str:
    """The schema of values, with that of the settings as the CRD has it."""
    schema = json.loads((_CHART / _SCHEMA).read_text())
    crd = yaml.safe_load((_DEPLOY / "base" / "api" / "gpuadmissionpolicies.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    schema["definitions"]["settings"] = _of_draft_7(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return json.dumps(schema, indent=2) + "\n"


def _of_draft_7(schema: Any) -> Any:
    """The schema of a CRD in draft 7: unknown fields are refused, and Kubernetes' extensions left out."""
    if isinstance(schema, list):
        return [_of_draft_7(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {
        key: _properties(value) if key == "properties" else _of_draft_7(value)
        for key, value in schema.items()
        if not key.startswith("x-kubernetes-")
    }
    if "properties" in plain and plain.get("type") == "object":
        plain.setdefault("additionalProperties", False)
    return plain


def _properties(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties, whose names are not keywords."""
    return {name: _of_draft_7(schema) for name, schema in properties.items()}


def _out_of_date(files: dict[str, str]) -> list[str]:
    stale = [
        path for path, text in files.items() if not (_CHART / path).exists() or (_CHART / path).read_text() != text
    ]
    left = (path for path, content in chart_files().items() if path not in files and b"Rendered by" in content)
    return [*stale, *left]


def main(arguments: list[str]) -> int:
    """Write the rendered files, or compare them (`--check`)."""
    try:
        files = rendered_files()
        stale = _out_of_date(files)
        page = _PAGE.read_text()
    except NotFoundInManifestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    match arguments:
        case []:
            for path, text in files.items():
                (_CHART / path).parent.mkdir(parents=True, exist_ok=True)
                (_CHART / path).write_text(text)
            for path in set(stale) - files.keys():
                (_CHART / path).unlink()
            _PAGE.write_text(page_with_values(page))
        case ["--check"] if stale:
            sys.stderr.write(
                f"deploy/chart is not what the manifests say ({', '.join(stale)}); run: python deploy/render_chart.py\n"
            )
            return 1
        case ["--check"] if page_with_values(page) != page:
            sys.stderr.write("docs/helm.md does not have the values of the chart; run: python deploy/render_chart.py\n")
            return 1
        case ["--check"]:
            pass
        case _:
            sys.stderr.write(_USAGE)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
