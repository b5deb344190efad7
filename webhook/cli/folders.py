"""The files of folders: manifests, other files, and those that options name."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import click

from policies.admission import reviewed_kinds
from policies.kubernetes.objects import lookup
from policies.kubernetes.yaml import YAMLError, load_document
from policies.rules.settings import DEFAULTS
from webhook.cli.user_files import is_special, read_file, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.kubernetes.yaml import Document


SUFFIXES = (".yaml", ".yml", ".json")


class Exclusion(Protocol):
    """Decides which paths below a folder are excluded."""

    def match_file(self, file: str) -> bool:
        """True if a path relative to the folder is excluded; the path of a folder ends with a slash."""


def exclusion_of(exclude: tuple[str, ...], ignore_file: str | None) -> Exclusion | None:
    """The exclusion by all patterns, or None without patterns.

    Args:
        exclude: Patterns of files and folders to skip, each as a line of a .gitignore. They come last.
        ignore_file: A file with such patterns.

    Raises:
        click.UsageError: The file of patterns cannot be read, or a pattern is invalid.
    """
    if not exclude and ignore_file is None:
        return None
    from pathspec import GitIgnoreSpec

    patterns = [*_patterns(ignore_file), *exclude]
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise click.UsageError(f"--exclude and --ignore-file need patterns as in a .gitignore: {error}") from error


class NamedFiles:
    """The files that options such as `--cluster` name.

    A review of a folder that contains them leaves them out.
    """

    def __init__(self, paths: Iterable[tuple[str, str | None]]) -> None:
        """`paths` are options, each with a file or folder that it names; None if the option is not used."""
        self._options = {_absolute(path): option for option, path in paths if path is not None}

    def option_of(self, file: str, root: str) -> str:
        """The option that names a file below a folder, or a subfolder with it; empty if none does."""
        root, path = os.path.realpath(root), _absolute(file)
        while path != root and path != os.path.dirname(path):
            if option := self._options.get(path, ""):
                return option
            path = os.path.dirname(path)
        return ""


def files_of(root: str, exclusion: Exclusion | None, on_error: Callable[[OSError], None]) -> list[str]:
    """The manifests of a folder and its subfolders, in kubectl's order, without hidden and excluded ones."""
    files = []
    for folder, folders, names in os.walk(root, onerror=on_error):
        below = "" if folder == root else os.path.relpath(folder, root) + "/"
        folders[:] = sorted(name for name in folders if not _is_left_out(f"{below}{name}/", name, exclusion))
        files += [
            os.path.join(folder, name).removeprefix("./")
            for name in sorted(names)
            if name.endswith(SUFFIXES)
            and not _is_left_out(below + name, name, exclusion)
            and _is_document(os.path.join(folder, name))
        ]
    # kubectl sorts files and folders of one folder by name. Source: filepath.Walk of Go.
    return sorted(files, key=lambda file: file.split(os.sep))


def is_covered(file: str, path: str, exclusion: Exclusion | None) -> bool:
    """True if a file is one that is named, or is below a folder and not left out; it need not exist."""
    file, root = os.path.normpath(file), os.path.normpath(path)
    if file == root:
        return True
    below = os.path.relpath(file, root)
    if below.startswith(os.pardir):
        return False
    *folders, name = below.split(os.sep)
    paths = [("/".join(folders[: depth + 1]) + "/", folder) for depth, folder in enumerate(folders)] + [(below, name)]
    return not any(_is_left_out(relative, part, exclusion) for relative, part in paths)


def _patterns(ignore_file: str | None) -> list[str]:
    if ignore_file is None:
        return []
    try:
        return read_file(ignore_file).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "is not UTF-8"
        raise click.UsageError(f"--ignore-file {ignore_file}: {reason}") from error


def _absolute(path: str) -> str:
    """The absolute path without symbolic links, except that of a file itself."""
    if os.path.isdir(path):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _is_left_out(relative: str, name: str, exclusion: Exclusion | None) -> bool:
    return name.startswith(".") or (exclusion is not None and exclusion.match_file(relative))


def _is_document(file: str) -> bool:
    """True also for a broken link, to report it."""
    return not is_special(file) and not os.path.isdir(file)


NO_OBJECTS = "no Kubernetes objects"
TEMPLATES = "templates; review what they render, such as the output of `helm template`"
PATCHES = "patches; review the output of `kubectl kustomize`"

_KEYS = re.compile(rb"\b(?:apiVersion|kind)[\"']?\s*:")
"""Keys that all manifests contain, and few other files."""
_VERSION = "serverVersion"
"""The key of the output of `kubectl version`, the only fact about a cluster without a kind."""
_TEMPLATE = "{{"
_PLACEHOLDERS = re.compile(r"\{\{|\{%|%\{|^[ \t]*\$\{\w+\}[ \t]*$", re.MULTILINE)
"""Placeholders in templates of Helm, Jinja, Terraform and envsubst."""
_NAME_PLACEHOLDERS = ("{{", "${", "$(")
"""Placeholders that no name of an object can contain."""
_KUSTOMIZE = "kustomize.config.k8s.io/"
SUITE_GROUP = "test.gpu-admission.io/"
"""The group of suites in `apiVersion`, whatever the version."""


class OtherFiles:
    """Recognises and counts other files than manifests."""

    def __init__(self, *, is_of_cluster: bool = False) -> None:
        """Prepare; `is_of_cluster` is True if the output of `kubectl version` counts as a manifest."""
        self._is_of_cluster = is_of_cluster
        self._counts: Counter[tuple[str, str]] = Counter()
        self._patches: frozenset[str] = frozenset()
        self._labels: dict[str, dict[str, str]] = {}

    @property
    def lines(self) -> list[str]:
        """The numbers of skipped files and documents, with a line for each reason."""
        return [
            f"{count} {unit}{'s' * (count != 1)} skipped: {reason}"
            for reason in dict.fromkeys([NO_OBJECTS, TEMPLATES, PATCHES, *sorted(reason for _, reason in self._counts)])
            for unit in ("file", "document")
            if (count := self._counts[unit, reason])
        ]

    def enter(self, files: Iterable[str]) -> None:
        """Start the next folder; its Kustomizations name patches among its files, and complete selectors."""
        kustomizations = read_kustomizations(files)
        self._patches = patch_files(kustomizations)
        self._labels = selector_labels(kustomizations)

    def skip_named(self, option: str) -> None:
        """Count a file that is skipped because an option names it."""
        self._counts["file", f"named by {option}"] += 1

    def skips(self, file: str, content: bytes) -> bool:
        """True if a file is skipped before it is parsed."""
        if os.path.abspath(file) in self._patches:
            reason = PATCHES
        elif not (_has_keys(content) or (self._is_of_cluster and _VERSION.encode() in content)):
            reason = NO_OBJECTS
        elif _TEMPLATE.encode() in content and _is_chart_template(file):
            reason = TEMPLATES
        else:
            return False
        self._counts["file", reason] += 1
        return True

    def skips_json(self, value: dict[str, Any] | list[Any] | None) -> bool:
        """True if a JSON file is skipped; `value` is its content, or None if it is not JSON.

        Parsing with positions takes seconds for a long lock file.
        """
        is_skipped = value is not None and not self._is_wanted(value)
        self._counts["file", NO_OBJECTS] += is_skipped
        return is_skipped

    def sort(
        self, file: str, documents: Sequence[Document], errors: Sequence[YAMLError]
    ) -> tuple[list[Document], list[YAMLError]]:
        """The manifests of a file, and the errors in broken manifests; suites are not counted.

        Selectors that a Kustomization of the folder writes are written.
        """
        found = [document for document in documents if not is_suite(document.value)]
        if not found and documents and not errors:
            return [], []
        reasons, written, broken = [], [], []
        for error in errors:
            if reason := _reason_to_skip(error):
                reasons.append(reason)
            else:
                broken.append(error)
        for document in found:
            if not self._is_wanted(document.value):
                reasons.append(NO_OBJECTS)
            elif _is_template(document.value):
                reasons.append(TEMPLATES)
            else:
                self._complete(file, document)
                written.append(document)
        if written or broken:
            self._counts.update(("document", reason) for reason in reasons)
        else:
            self._counts["file", TEMPLATES if TEMPLATES in reasons else NO_OBJECTS] += 1
        return written, broken

    def _complete(self, file: str, document: Document) -> None:
        """Write a selector that is left to the file's Kustomization, as bases of kustomize do."""
        value, labels = document.value, self._labels.get(os.path.abspath(file))
        spec = lookup(value, ("spec",))
        if labels and value.get("apiVersion") == "apps/v1" and isinstance(spec, dict) and "selector" not in spec:
            template, metadata = (lookup(spec, path) or {} for path in (("template",), ("template", "metadata")))
            own = lookup(metadata, ("labels",)) or {}
            completed = {**template, "metadata": {**metadata, "labels": {**own, **labels}}}
            document.value = {**value, "spec": {**spec, "selector": {"matchLabels": labels}, "template": completed}}

    def _is_wanted(self, value: Any) -> bool:
        return _is_manifest(value) or (self._is_of_cluster and (is_version(value) or _has_kind(value)))


def is_version(value: Any) -> bool:
    """True if a document is the output of `kubectl version`."""
    return isinstance(value, dict) and _VERSION in value and "kind" not in value


def is_suite(value: Any) -> bool:
    """True if a document is only for `gpu-admission test`."""
    version = value.get("apiVersion") if isinstance(value, dict) else None
    return isinstance(version, str) and version.startswith(SUITE_GROUP)


def is_kustomization(value: Any) -> bool:
    """True if a document is only for kustomize."""
    version = value.get("apiVersion") if isinstance(value, dict) else None
    return isinstance(version, str) and version.startswith(_KUSTOMIZE)


def _is_chart_template(file: str) -> bool:
    """True for a template of a Helm chart, which is not a manifest before it is rendered."""
    folder = os.path.dirname(os.path.abspath(file))
    while (parent := os.path.dirname(folder)) != folder:
        if os.path.basename(folder) == "templates" and os.path.exists(os.path.join(parent, "Chart.yaml")):
            return True
        folder = parent
    return False


def _reason_to_skip(error: YAMLError) -> str:
    """The reason to skip a document that cannot be parsed; empty if it looks like a broken manifest."""
    if _PLACEHOLDERS.search(error.text):
        return TEMPLATES
    return NO_OBJECTS if error.text and not _has_outer_keys(error.text) else ""


def _has_outer_keys(text: str) -> bool:
    """True if a text that cannot be parsed has an apiVersion or a kind at its outermost level."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "---"))]
    if not lines or lines[0].lstrip().startswith("{"):
        return _has_keys(text.encode(errors="replace"))
    outermost = min(len(line) - len(line.lstrip(" ")) for line in lines)
    return any(_KEYS.match(line[outermost:].lstrip("\"'").encode(errors="replace")) for line in lines)


def _has_keys(content: bytes) -> bool:
    """True if a text may contain manifests, also in UTF-16, which is then reported."""
    return _KEYS.search(content) is not None or (
        b"\0" in content and _KEYS.search(content.replace(b"\0", b"")) is not None
    )


def _is_manifest(value: Any) -> bool:
    """True if a document has an apiVersion and a kind, or one of them and metadata or items.

    Without an apiVersion, rules must know the kind: other tools, such as Zarf, have kinds, too.
    """
    if not isinstance(value, dict) or is_kustomization(value):
        return False
    version, kind = (isinstance(value.get(key), str) for key in ("apiVersion", "kind"))
    has_shape = isinstance(value.get("metadata"), dict) or isinstance(value.get("items"), list)
    return (version and (kind or has_shape)) or (kind and has_shape and _is_known(value["kind"]))


def _has_kind(value: Any) -> bool:
    """True if a document may be a broken fact, which must be reported."""
    return isinstance(value, dict) and isinstance(value.get("kind"), str) and not is_kustomization(value)


def _is_known(kind: str) -> bool:
    kinds = {kind for _, kind in reviewed_kinds(DEFAULTS)}
    return kind.removesuffix("List") in {*kinds, ""}


def _is_template(value: dict[str, Any]) -> bool:
    """True if the name of an object has a placeholder."""
    metadata = value.get("metadata")
    names = [metadata.get(field) for field in ("name", "namespace")] if isinstance(metadata, dict) else []
    return any(mark in name for name in names if isinstance(name, str) for mark in _NAME_PLACEHOLDERS)


_NAMES = ("kustomization.yaml", "kustomization.yml")
_LISTS = ("patches", "patchesStrategicMerge", "patchesJson6902")
"""Fields of a Kustomization or Component with patches: file names, or mappings with a `path`."""


def patch_files(kustomizations: Iterable[tuple[str, Any]]) -> frozenset[str]:
    """The absolute paths of files that Kustomizations name as patches."""
    return frozenset(
        os.path.abspath(os.path.join(folder, patch))
        for folder, kustomization in kustomizations
        for patch in _patches(kustomization)
    )


def selector_labels(kustomizations: Iterable[tuple[str, Any]]) -> dict[str, dict[str, str]]:
    """The labels that Kustomizations add to selectors and templates, by absolute path of a resource.

    Source: sigs.k8s.io/kustomize api/internal/builtins LabelTransformer, api/internal/konfig/builtinpluginconsts
    commonlabels.go.
    """
    added: dict[str, dict[str, str]] = {}
    for folder, kustomization in kustomizations:
        labels: dict[str, str] = {}
        for each in (kustomization.get("commonLabels"), *_selector_pairs(kustomization)):
            labels |= each if isinstance(each, dict) else {}
        resources = kustomization.get("resources")
        for file in resources if labels and isinstance(resources, list) else ():
            if isinstance(file, str):
                added.setdefault(os.path.abspath(os.path.join(folder, file)), {}).update(labels)
    return added


def read_kustomizations(files: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """The Kustomizations and Components among files, each with its folder.

    One that cannot be read is skipped here; the review of the folder reports it.
    """
    found = ((os.path.dirname(file), _kustomization(file)) for file in files if os.path.basename(file) in _NAMES)
    return [(folder, value) for folder, value in found if isinstance(value, dict)]


def _patches(kustomization: Any) -> Iterator[str]:
    for field in _LISTS:
        listed = lookup(kustomization, (field,))
        for item in listed if isinstance(listed, list) else ():
            path = lookup(item, ("path",)) if isinstance(item, dict) else item
            if isinstance(path, str) and "\n" not in path:
                yield path


def _selector_pairs(kustomization: dict[str, Any]) -> Iterator[Any]:
    listed = kustomization.get("labels")
    for item in listed if isinstance(listed, list) else ():
        if lookup(item, ("includeSelectors",)) is True:
            yield lookup(item, ("pairs",))


def _kustomization(file: str) -> Any:
    try:
        return load_document(read_file(file)).value
    except (OSError, YAMLError):
        return None
