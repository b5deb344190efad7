"""Rendering: pages and parts of pages from templates that escape every value."""

from __future__ import annotations

import base64
import re
from fractions import Fraction
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from policies.kubernetes.names import format_amount, printable
from policies.quota.limits.amounts import yaml_amount
from policies.rules.messages import remedy_sentences

if TYPE_CHECKING:
    from policies.quota.quota_report import LimitUse


def render_part(template: str, **facts: Any) -> str:
    """A part of a page.

    Args:
        template: The name of a file in `templates`, without `.html`.
        facts: The values that the template names. Texts are escaped; a name that is missing is an error.
    """
    return _environment().get_template(f"{template}.html").render(facts)


def render_page(template: str, *, title: str, **facts: Any) -> str:
    """A whole page that needs nothing but itself; arguments as for `render_part`.

    The page runs its own script only, and cannot be made to load or send anything.
    """
    style, script = asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # Neither holds values; both are files of this package.
    inside = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - no text of others is in them
    return render_part(template, title=title, policy=policy, **inside, **facts)


@cache
def asset(name: str) -> str:
    """The text of a style or a script of this package."""
    return (files(__package__) / "assets" / name).read_text("utf-8")


def _source(text: str) -> str:
    """The text as a source of a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable_value,
    )
    environment.filters |= {
        "amount": _amount,
        "amount_text": format_amount,
        "limit_amount": _limit_amount,
        "coordinate": coordinate,
        "word": one_word,
        "breaks": _with_breaks,
        "kind": _kind,
    }
    environment.globals["remedy_sentences"] = remedy_sentences
    return environment


def _kind(block: object) -> str:
    """The kind of a block of the report model."""
    return type(block).__name__


def _printable_value(value: object) -> object:
    """A value of a template, with blanks for characters that cannot be printed, which pages must not have.

    A value of any other type becomes a text here, because it can have such characters too.
    """
    return value if isinstance(value, Markup) else printable(str(value))


def _amount(amount: Fraction | int | None, beside: Fraction | int | None = None) -> str:
    """An amount with at most one decimal; one that is rounded has its exact value as a tooltip."""
    text = format_amount(amount, beside)
    return text if amount is None or 10 * amount % 1 == 0 else _with_tooltip(text, _exact(Fraction(amount)))


def _limit_amount(amount: Fraction | None, use: LimitUse, *, has_unit: bool = False) -> str:
    """An amount of a limit in one unit for the line; a rounded one has its exact value as a tooltip."""
    scale, unit, limit = use.scale, use.limit.unit, use.limit.hard
    text = scale.text(amount, limit) if has_unit else scale.number(amount, limit)
    if amount is None or scale.is_exact(amount):
        return text
    return _with_tooltip(text, yaml_amount(unit, amount) if unit == "memory" else _exact(amount))


def _exact(amount: Fraction) -> str:
    """The exact amount: a decimal number, or a fraction beyond nine decimals: `0.25`, `11 3/7`."""
    whole, part = divmod(amount, 1)
    if 10**9 % part.denominator == 0:
        return f"{float(amount):.9f}".rstrip("0")
    return f"{whole:,} {part}" if whole else str(part)


def _with_tooltip(text: str, exact: str) -> Markup:
    return Markup('<span title="exactly {}">{}</span>').format(exact, text)


_BREAK = re.compile(r"(?<=\w[/-])(?=\w)|(?<=\w\.)(?=[^\W\d])")
_LONG_WORD = re.compile(r"\S{25,}")
"""Shorter words fit a line of a phone. Places to break were most elements of a page with many names."""


def _with_breaks(value: object) -> Markup:
    """A text whose long names may break after `/`, `-` and `.`."""
    # Entities have none of these characters.
    text = str(escape(printable(str(value))))
    return Markup(_LONG_WORD.sub(lambda word: _BREAK.sub("<wbr>", word[0]), text))  # noqa: S704 - the text is escaped


def coordinate(number: float | Fraction) -> str:
    """A coordinate of a picture in few characters: `35`, `35.5`, `.5`."""
    return f"{float(number):.1f}".removesuffix(".0").removeprefix("0") or "0"


def one_word(text: str) -> str:
    """A text as one word, which a filter compares with its values."""
    return "-".join(text.split()) or "unknown"
