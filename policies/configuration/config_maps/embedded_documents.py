"""Documents that ConfigMaps hold as text, for the components that read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.yaml import YAMLError, first_document, scan_documents
from policies.rules.checks import Problem
from policies.rules.decision import Place, Severity

if TYPE_CHECKING:
    from policies.configuration.change import Change
    from policies.kubernetes.yaml import Document, Limits


@dataclass(frozen=True, slots=True)
class Embedded:
    """One YAML document in the `data` of a ConfigMap."""

    change: Change
    """The ConfigMap that it is in."""
    key: str
    document: Document

    @property
    def path(self) -> FieldPath:
        """The path of the document in the ConfigMap."""
        return FieldPath(["data", self.key])

    @property
    def value(self) -> Any:
        """The whole document."""
        return self.document.value

    def problem(
        self,
        steps: tuple[str | int, ...],
        message: str,
        remedy: str | None = None,
        *,
        severity: Severity | None = None,
        of_key: bool = False,
    ) -> Problem:
        """A problem at a path of the document, or of the key that ends the path."""
        position = self.document.key_position(steps) if of_key else self.document.line_position(steps)
        place = Place(self.path, position.line, position.column)
        return Problem(FieldPath((*self.path, *steps)), message, remedy, severity=severity, place=place)


def read_embedded(
    path: FieldPath, text: str, limits: Limits, component: str, failure: str
) -> tuple[Document | None, list[Problem]]:
    """The document that a component reads from a text, and the problems of the text as YAML.

    The document is None if it cannot be read. Of a duplicate key the component silently keeps the last one, and of several
    documents it reads the first one only.

    Source: sigs.k8s.io/yaml Unmarshal, with which NVIDIA's components read their files.

    Args:
        path: The path of the text in its ConfigMap.
        text: The text.
        limits: The limits of our reader; the component may read more.
        component: The component that reads the text.
        failure: The consequence of a text that is not YAML, as a clause.
    """
    try:
        document = first_document(text, limits=limits)
    except YAMLError as error:
        place = Place(path, error.line, error.column)
        if error.is_limit:
            message = f"is too large to be read here, and was not reviewed: {error.message}"
            remedy = "write fewer configurations, or test it on a node"
            return None, [Problem(path, message, remedy, severity=Severity.WARN, place=place)]
        message = f"is not YAML in line {error.line}: {error.message}; {failure}"
        return None, [Problem(path, message, f"correct line {error.line}", place=place)]
    ignored = []
    if document.duplicates:
        steps, lines = next(iter(document.duplicates.items()))
        key = shown(steps[-1])
        message = f"has the duplicate key {key} in line {lines[1]}, first given at line {lines[0]}; "
        message += f"{component} would keep the last one and say nothing"
        ignored.append((document.key_position(steps), message, f"remove one key {key}"))
    documents = scan_documents(text, limits=limits, keeps_duplicates=True)[0] if "---" in text else []
    if len(documents) > 1:
        position = documents[1].position(())
        message = f"has a second document in line {position.line}; {component} would read the first one only"
        ignored.append((position, message, "merge the second document into the first"))
    return document, [
        Problem(path, message, remedy, severity=Severity.WARN, place=Place(path, position.line, position.column))
        for position, message, remedy in ignored
    ]
