"""Reviews of files: reads the objects, reviews them and prints the results."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.admission import rule_book
from policies.kubernetes.names import printable
from policies.kubernetes.objects import in_namespace
from policies.rules.request import UserInfo
from policies.rules.settings.choices import workload_kinds
from webhook.cli.folders import NamedFiles, exclusion_of
from webhook.cli.manifest_reader import show_problems
from webhook.cli.progress import current_progress
from webhook.cli.repository import RepositoryReader
from webhook.cli.review import PROBLEM_FORMATS, Format, TextOptions
from webhook.cli.review.review_report import FailOn, Level, Review, ReviewedObject, findings_of
from webhook.cli.settings import read_facts
from webhook.cli.subjects import ChargedReviews, Circumstances, SubjectReader
from webhook.pages.text_report import print_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.folders import Exclusion
    from webhook.cli.settings import RunningFacts

__all__ = ["Circumstances", "ReviewInput", "UserInfo", "exclusion_of", "fail_on_of", "print_review", "review_files"]


@dataclass(frozen=True, slots=True)
class ReviewInput:
    """The files of a review."""

    paths: Sequence[str]
    """Files and folders to review, or `-`."""
    source: ClusterOptions
    """The cluster, which is not reviewed itself."""
    old: str | None
    """The file with the objects before an update."""
    baseline: str | None
    """The file with the known findings, which is not reviewed itself."""
    exclusion: Exclusion | None
    """The files of folders to skip."""
    strict: bool
    """True if other files of folders than manifests are problems; otherwise they are skipped."""

    @property
    def named(self) -> NamedFiles:
        """The files that options name, which are not reviewed with a folder."""
        named = [("--settings", self.source.settings), ("--old", self.old), ("--baseline", self.baseline)]
        return NamedFiles([*(("--cluster", path) for path in self.source.cluster), *named])


def fail_on_of(words: str) -> FailOn:
    """The findings that `--fail-on` names: `deny`, `warn` and ids of rules, separated by commas.

    Raises:
        click.BadParameter: A word is neither.
    """
    levels, rules = set[Level](), set[str]()
    for word in filter(None, map(str.strip, words.split(","))):
        if word in ("deny", "warn"):
            levels |= {Level.ERROR} if word == "deny" else {Level.ERROR, Level.WARNING}
        elif rule_book().get(word.upper()) is not None:
            rules.add(word.upper())
        else:
            message = f"write deny, warn or rules, such as deny,GA410: {rule_book().not_found(word)}"
            raise click.BadParameter(message, param_hint="'--fail-on'")
    if not levels and not rules:
        raise click.BadParameter("is empty; write deny, warn or rules, such as deny,GA410", param_hint="'--fail-on'")
    return FailOn(frozenset(levels), frozenset(rules))


def review_files(
    given: ReviewInput,
    circumstances: Circumstances,
    running: RunningFacts | None,
    fail_on: FailOn,
) -> Review:
    """Read everything, then review what can be read.

    Args:
        given: The files.
        circumstances: The parts of requests that manifests lack.
        running: A running cluster, instead of the files of one.
        fail_on: The findings that fail the review.

    Raises:
        UnreadableInputError: The settings, the cluster or the old objects have problems.
        click.UsageError: The files have no objects.
    """
    reader = RepositoryReader()
    files = read_facts(given.source, running, reader)
    before = reader.manifests([given.old] if given.old is not None else [])
    is_reliable = not reader.problems
    manifests = reader.repository(given.paths, given.exclusion, given.named, strict=given.strict)
    reviewed = [in_namespace(manifest.object, circumstances.namespace) for manifest in manifests]
    view = files.view(reviewed)
    subject_reader = SubjectReader(circumstances, reader.problems, workload_kinds(files.settings), view)
    subjects = subject_reader.subjects(manifests, before)
    if not is_reliable:
        reader.check()
    if not subjects and not reader.problems:
        skipped = "".join(f"; {line}" for line in reader.others.lines)
        raise click.UsageError(f"nothing to review: no objects in {', '.join(given.paths)}{skipped}")
    reviews = ChargedReviews(view, files.settings)
    objects: list[ReviewedObject] = []
    with suppress(KeyboardInterrupt):  # Ctrl-C keeps what was reviewed until then.
        for subject in current_progress().count("reviewing", subjects):
            result = reviews.admit(subject)
            objects.append(ReviewedObject(result, tuple(findings_of(result))))
    return Review(
        tuple(objects),
        tuple(dict.fromkeys([*reader.problems, *reader.empty])),
        tuple(reader.others.lines),
        fail_on=fail_on,
        unreviewed=tuple(subjects[len(objects) :]),
        shortages=tuple(reviews.shortages),
    )


def print_review(review: Review, output: Format, options: TextOptions) -> None:
    """Print the results in one format, then quotas that are too small, what was skipped, and the problems.

    If no object was reviewed, only formats that show problems have anything to show, and the empty list in JSON of an
    interrupted review.

    Raises:
        click.UsageError: The output is `patch`, and the review has not exactly one result.
    """
    if review.objects or output in PROBLEM_FORMATS or (review.unreviewed and output == "json"):
        match output:
            case "text":
                from webhook.cli.review.text import show
            case "json":
                from webhook.cli.review.json import show
            case "yaml":
                from webhook.cli.review.text import show_yaml as show
            case "patch":
                from webhook.cli.review.text import show_patch as show
            case "junit":
                from webhook.cli.review.junit import show
            case "sarif":
                from webhook.cli.review.code_hosts import show_sarif as show
            case "github":
                from webhook.cli.review.code_hosts import show_annotations as show
            case "gitlab":
                from webhook.cli.review.code_hosts import show_code_quality as show
        show(review, options)
    if review.objects or output in PROBLEM_FORMATS or review.unreviewed:
        print_lines((*map(printable, review.shortages), *review.skipped, *review.interruption), err=output != "text")
    # GitHub would read a line as a command if the name of its file begins with colons.
    if review.problems and output != "github":
        show_problems(review.problems, "everything else was reviewed" if review.objects else "nothing was done")
