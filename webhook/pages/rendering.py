"""Rendering: pages and parts of pages from templates that escape every value."""

from __future__ import annotations

import base64
import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from policies.kubernetes.names import format_amount, printable
from policies.quota.limits.amounts import amount_with_unit
from policies.rules.messages import remedy_sentences

if TYPE_CHECKING:
    from fractions import Fraction

    from policies.rules.charges import Unit


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
        "amount": format_amount,
        "units": _amount_in,
        "point": _point,
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


def _amount_in(amount: Fraction | None, unit: Unit) -> str:
    """An amount of a quota with its unit: `2 1/4 GPUs`, `80Gi`."""
    return "?" if amount is None else amount_with_unit(unit, amount)


_BREAK = re.compile(r"(?<=\w[/-])(?=\w)|(?<=\w\.)(?=[^\W\d])")


def _with_breaks(value: object) -> Markup:
    """A text that may break after `/`, `-` and `.` within names."""
    # Entities have none of these characters.
    return Markup(_BREAK.sub("<wbr>", escape(printable(str(value)))))  # noqa: S704 - the text is escaped


def _point(value: float | Fraction) -> str:
    """A coordinate of a picture."""
    return f"{float(value):.1f}".removesuffix(".0")


def one_word(text: str) -> str:
    """A text as one word, which a filter compares with its values."""
    return "-".join(text.split()) or "unknown"
