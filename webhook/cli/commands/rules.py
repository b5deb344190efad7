"""`gpu-admission rules`: what the rules require, why, and what to do instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import click

from policies.admission import rule_book
from policies.kubernetes.names import closest, resource_name, shown
from policies.kubernetes.objects import filled_record
from policies.rules.decision import EVERY_KIND, WORKLOAD, Severity
from policies.rules.idle_settings import NEEDS
from policies.rules.messages import remedy_sentences
from webhook.cli.options import complete_from, output_option
from webhook.cli.shipped_files import read_examples
from webhook.cli.text_layout import output_text
from webhook.pages.report_model import Lines, Paragraph, Section, Tone
from webhook.pages.text_report import colour_text, fit_to_terminal, render_text, terminal_width, wrap_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.rules.decision import Rule


_TONES = {
    Severity.DENY: Tone.BAD,
    Severity.WARN: Tone.WARN,
    Severity.AUDIT: Tone.NOTE,
    Severity.OFF: Tone.QUIET,
}


# Read by pydantic: without an alias generator, because these names were published in snake case.
_SNAKE_CASE: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class RuleJSON:
    """A rule: one with an ID, else a list of them. `needs` is a setting and the value that it must have."""

    __pydantic_config__ = _SNAKE_CASE

    id: str
    title: str
    default: Severity
    why: str
    remedy: str
    administrator: str
    source: str
    wrong: str
    right: str
    setting: str
    rows: tuple[str, ...]
    fixed: bool
    shared_cause: bool
    kinds: tuple[str, ...]
    beside: tuple[str, ...]
    needs: tuple[str | bool, ...] | None
    cluster_scoped: bool


RulesJSON = list[RuleJSON] | RuleJSON
"""The output of `gpu-admission rules -o json`; one rule if an ID is given."""


@click.command("rules")
@click.argument("rule_id", required=False, metavar="[ID]", shell_complete=complete_from("rules"))
@click.option(
    "--search",
    metavar="WORDS",
    help="Only rules whose texts and examples have all these words, however they are joined: time-slicing finds timeSlicing.",
)
@click.option(
    "--kind",
    metavar="KIND",
    shell_complete=complete_from("kinds"),
    help="Only rules that review objects of this kind: ClusterPolicy, ConfigMap, Node, Pod, Deployment.",
)
@output_option("for people", "every field of the rules")
def command(rule_id: str | None, search: str | None, kind: str | None, output: str) -> None:
    """List the rules, or explain one.

    \b
    All rules, with their default severity:
      gpu-admission rules
    One rule, with its reason, what to do instead, and an example:
      gpu-admission rules GA307
    The rules about something, and those that review one kind of objects:
      gpu-admission rules --search time-slicing
      gpu-admission rules --kind ClusterPolicy --search driver
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if rule_id is not None and (search, kind) != (None, None):
        raise click.UsageError("name a rule, or search for some")
    kind = None if kind is None else _known_kind(kind)
    rules = rule_book().rules if kind is None else rule_book().of_kind(kind)
    if search is not None:
        words = ["".join(_words_of(word)) for word in search.split()]
        found = tuple(rule for rule in rules if _has_words(rule, words))
        if not found:
            whose, option = (f" for {kind}", f" --kind {kind}") if kind else ("", "")
            message = f"no rule{whose} has all the words of {search!r}; gpu-admission rules{option} lists them all."
            raise click.ClickException(message)
        rules = found
    if rule_id is None:
        click.echo(output_text([_fields(rule) for rule in rules], RulesJSON) if output == "json" else _table(rules))
        return
    rule = rule_book().get(rule_id.upper())
    if rule is None:
        raise click.BadParameter(rule_book().not_found(rule_id), param_hint="'ID'")
    click.echo(output_text(_fields(rule), RulesJSON) if output == "json" else _in_full(rule))


def _known_kind(text: str) -> str:
    """The kind that has rules, also if it is written as kubectl takes it: `clusterpolicy`, `pods`.

    Raises:
        click.BadParameter: No rule reviews objects of such a kind.
    """
    known = rule_book().kinds
    names = {name: kind for kind in known for name in (kind.lower(), resource_name(kind))}
    if text.lower() in names:
        return names[text.lower()]
    guess = closest(text, names)
    hint = f"did you mean {names[guess]}? Kinds" if guess else "kinds"
    message = f"no rule reviews objects of kind {shown(text)}; {hint} with rules: {', '.join(known)}."
    raise click.BadParameter(message, param_hint="'--kind'")


def _has_words(rule: Rule, words: Iterable[str]) -> bool:
    """True if each word begins where a word of the rule begins, however the rule joins its words."""
    written = (rule.id, rule.title, rule.why, rule.remedy, rule.source, rule.setting, *read_examples(rule.id))
    parts = _words_of("\n".join(written))
    letters, starts = "".join(parts), [0, *accumulate(map(len, parts))]
    return all(any(letters.startswith(word, start) for start in starts) for word in words)


def _words_of(text: str) -> list[str]:
    """The words of a text in small letters; `timeSlicing` is two."""
    return [word.casefold() for word in re.findall(r"[A-Z]?[^\W\dA-Z_]+|[A-Z]+(?![a-z])|\d+", text)]


def _table(rules: Sequence[Rule]) -> str:
    width, lines = terminal_width(), []
    for rule in rules:
        title = [rule.title] if width is None else wrap_text(rule.title, width - len("GA101  audit  "))
        lines.append(f"{rule.id}  {_severity(rule)}{' ' * (5 - len(rule.default))}  {title[0]}")
        lines += (f"{' ' * len('GA101  audit  ')}{line}" for line in title[1:])
    return "\n".join(lines)


def _fields(rule: Rule) -> RuleJSON:
    """The fields of a rule that users need; its examples follow the other texts."""
    examples = read_examples(rule.id)
    beside, needs = (each.id for each in rule_book().grounds_of(rule)), NEEDS.get(rule.id)
    return filled_record(
        RuleJSON, rule, examples, rows=tuple(rule.rows), kinds=tuple(rule.kinds), beside=tuple(beside), needs=needs
    )


def _in_full(rule: Rule) -> str:
    examples = read_examples(rule.id)
    setting = f"{rule.setting}, or spec.rules" if rule.setting else "spec.rules"
    held = "whatever the settings say" if rule.fixed else f"unless {setting} of the GPUAdmissionPolicy says otherwise"
    remedies = [f"{each}." for each in remedy_sentences(rule.remedy, rule.administrator)]
    sections = (
        Section([Paragraph(" ".join(rule.why.split()))]),
        Section([Paragraph(" ".join(remedies))]),
        Section([Lines(["Wrong:"]), Lines(examples.wrong.rstrip().split("\n"), 4, is_copied=True)]),
        Section([Lines(["Right:"]), Lines(examples.right.rstrip().split("\n"), 4, is_copied=True)]),
        Section([Paragraph(f"Source: {rule.source}")]),
    )
    title = colour_text(f"{rule.id}: {rule.title}", bold=True)
    head = fit_to_terminal([title, "", f"Severity: {_severity(rule)}, {held}", f"Kinds: {_kinds(rule)}", ""])
    return "\n".join([*head, render_text(sections)])


def _kinds(rule: Rule) -> str:
    """The kinds of the objects that a rule reviews, as words."""
    words = {EVERY_KIND: "all", WORKLOAD: "workloads"}
    return ", ".join(words.get(kind, kind) for kind in rule.kinds)


def _severity(rule: Rule) -> str:
    return colour_text(str(rule.default), _TONES[rule.default])
