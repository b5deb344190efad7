r"""The syntax of Go's regular expressions: Go's errors for a pattern, and its translation for RE2.

RE2 and Go read nearly the same language. Where they differ the pattern is rewritten: names of groups, which Go lets repeat,
and names of Unicode classes in `\p{...}`. Both know Unicode's general categories and scripts. Go also takes long names, in
any case and with any `_`, `-` and spaces, and the code points that are not assigned.
Source: Go 1.26 regexp/syntax/parse.go, with the flags of syntax.Perl, and package unicode, which knows Unicode 15; limits of
repetition, nesting and size are those of repeatIsValid, calcHeight and calcSize. Go looks at a tree whose alternatives it
has factored; ours is not, and may be called too large where Go's is a little smaller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import NoReturn

from policies.cel.errors import CelRuntimeError

_CATEGORIES = frozenset(
    "C Cc Cf Cn Co Cs L Lc Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split()  # noqa: SIM905 - a table
)
_LONG_NAMES = {
    "Casedletter": "Lc",
    "Closepunctuation": "Pe",
    "Cntrl": "Cc",
    "Combiningmark": "M",
    "Connectorpunctuation": "Pc",
    "Control": "Cc",
    "Currencysymbol": "Sc",
    "Dashpunctuation": "Pd",
    "Decimalnumber": "Nd",
    "Digit": "Nd",
    "Enclosingmark": "Me",
    "Finalpunctuation": "Pf",
    "Format": "Cf",
    "Initialpunctuation": "Pi",
    "Letter": "L",
    "Letternumber": "Nl",
    "Lineseparator": "Zl",
    "Lowercaseletter": "Ll",
    "Mark": "M",
    "Mathsymbol": "Sm",
    "Modifierletter": "Lm",
    "Modifiersymbol": "Sk",
    "Nonspacingmark": "Mn",
    "Number": "N",
    "Openpunctuation": "Ps",
    "Other": "C",
    "Otherletter": "Lo",
    "Othernumber": "No",
    "Otherpunctuation": "Po",
    "Othersymbol": "So",
    "Paragraphseparator": "Zp",
    "Privateuse": "Co",
    "Punct": "P",
    "Punctuation": "P",
    "Separator": "Z",
    "Spaceseparator": "Zs",
    "Spacingmark": "Mc",
    "Surrogate": "Cs",
    "Symbol": "S",
    "Titlecaseletter": "Lt",
    "Unassigned": "Cn",
    "Uppercaseletter": "Lu",
}
_SCRIPTS = frozenset(
    """
    Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
    Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee
    Chorasmian Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra
    Duployan Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Georgian Glagolitic Gothic Grantha Greek Gujarati
    Gunjala_Gondi Gurmukhi Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
    Khitan_Small_Script Khmer Khojki Khudawadi Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
    Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
    Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari
    Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Old_Hungarian Old_Italic
    Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage
    Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan
    Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Syloti_Nagri
    Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan
    Tifinagh Tirhuta Toto Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square
    """.split()  # noqa: SIM905 - a table
)
_ASSIGNED = r"\pL\pM\pN\pP\pS\pZ\pC"
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def unicode_class(name: str, *, is_negated: bool) -> str | None:
    r"""The text inside of RE2's `[...]` for a name, or None if Go knows no such name.

    Args:
        name: as written between the braces of `\p{...}`, without a leading `^`.
        is_negated: whether all other code points are meant.
    """
    canonical = _canonical(name)
    canonical = _LONG_NAMES.get(canonical, canonical)
    match canonical:
        case "Any":
            return r"\P{Any}" if is_negated else r"\p{Any}"
        case "Ascii":
            return "[:^ascii:]" if is_negated else "[:ascii:]"
        case "Assigned":
            return _unassigned_ranges() if is_negated else _ASSIGNED
        case "Cn":
            return _ASSIGNED if is_negated else _unassigned_ranges()
        case "C":
            return r"\pL\pM\pN\pP\pS\pZ" if is_negated else rf"\pC{_unassigned_ranges()}"
        case "Lc":
            return rf"\p{{Lm}}\p{{Lo}}\pM\pN\pP\pS\pZ\pC{_unassigned_ranges()}" if is_negated else r"\p{Lu}\p{Ll}\p{Lt}"
    known = canonical if canonical in _CATEGORIES else _scripts().get(canonical)
    return known and rf"\{'P' if is_negated else 'p'}{{{known}}}"


def _canonical(name: str) -> str:
    """With a capital in front, the rest in small letters, and nothing between words."""
    bare = name.translate({ord(separator): None for separator in "_- "})
    return bare[:1].upper() + bare[1:].lower() if bare.isascii() else bare


@cache
def _scripts() -> dict[str, str]:
    return {_canonical(name): name for name in _SCRIPTS}


@cache
def _unassigned_ranges() -> str:
    """The ranges of all code points that RE2 has no category for, which it has no name for either."""
    import re2

    everything = "".join(chr(code) for code in range(_LAST_CODE_POINT + 1) if code not in _SURROGATES)
    found = re2.compile(rf"[^{_ASSIGNED}]+").finditer(everything)
    spans = ((everything[match.start()], everything[match.end() - 1]) for match in found)
    return "".join(rf"\x{{{ord(first):x}}}-\x{{{ord(last):x}}}" for first, last in spans)


PERL_CLASSES = frozenset("dDsSwW")
UNICODE_CLASSES = frozenset("pP")
"""The letters behind a backslash."""

_POSIX_CLASSES = frozenset(
    "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()  # noqa: SIM905 - a table
)
_OCTAL = re.compile(r"[1-7][0-7]{1,2}|0[0-7]{0,2}")
_TWO_HEXADECIMALS = re.compile(r"[0-9a-fA-F]{2}")
_HEXADECIMALS = re.compile(r"[0-9a-fA-F]*")
_SIGNIFICANT_DIGITS = 6
_NAMED_ESCAPES = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_INVALID_RANGE = "invalid character class range"


def escape_code_point(code: int) -> str:
    """A code point as both Go and RE2 read it, wherever it stands."""
    character = chr(code)
    return character if character.isascii() and character.isalnum() else rf"\x{{{code:x}}}"


class CharacterReader:
    """A pattern, and how far it has been read."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def fail(self, problem: str, part: str) -> NoReturn:
        """Raise Go's error for a part of the pattern."""
        raise CelRuntimeError(f"error parsing regexp: {problem}: `{part}`")

    def since(self, start: int) -> str:
        """The text read from a place on."""
        return self.pattern[start : self.position]

    def ahead(self, text: str) -> bool:
        """True if a text comes next."""
        return self.pattern.startswith(text, self.position)

    def escape(self) -> int:
        r"""Read `\n`, `\x41` or another single character behind a backslash; the answer is its code point."""
        start = self.position
        following = self.pattern[start + 1 : start + 2]
        if not following:
            self.fail("trailing backslash at end of expression", "")
        octal = _OCTAL.match(self.pattern, start + 1)
        if octal:
            self.position = octal.end()
            return int(octal[0], 8)
        self.position += 2
        if following == "x":
            code = self._braced_hexadecimal() if self.ahead("{") else self._two_hexadecimals()
        elif following in _NAMED_ESCAPES:
            code = _NAMED_ESCAPES[following]
        else:
            code = ord(following) if following.isascii() and not following.isalnum() else None
        if code is None:
            self.fail("invalid escape sequence", self.since(start))
        return code

    def _two_hexadecimals(self) -> int | None:
        digits = self.pattern[self.position : self.position + 2]
        self.position += len(digits)
        return int(digits, 16) if _TWO_HEXADECIMALS.fullmatch(digits) else None

    def _braced_hexadecimal(self) -> int | None:
        """Where it is wrong, it is read up to the character at which Go finds out."""
        self.position += 1
        found = _HEXADECIMALS.match(self.pattern, self.position)
        digits = found[0] if found else ""
        significant = digits.lstrip("0")
        code = int(significant[:_SIGNIFICANT_DIGITS] or "0", 16)
        if len(significant) > _SIGNIFICANT_DIGITS or code > _LAST_CODE_POINT:
            kept = next(size for size in (6, 7) if int(f"{significant}0"[:size], 16) > _LAST_CODE_POINT)
            self.position += len(digits) - len(significant) + kept
            return None
        self.position += len(digits)
        is_closed = self.ahead("}")
        self.position = min(self.position + 1, len(self.pattern))
        return code if is_closed and digits else None

    def unicode_class(self) -> str:
        r"""Read `\pL` or `\p{Greek}`; the answer is what RE2 understands inside of `[...]`."""
        start = self.position
        self.position += 3
        if self.pattern.startswith("{", start + 2):
            self.position = self.pattern.find("}", start) + 1
            if self.position == 0:
                self.fail(_INVALID_RANGE, self.pattern[start:])
        name = self.since(start + 2).removeprefix("{").removesuffix("}")
        is_negated = (self.pattern[start + 1] == "P") != name.startswith("^")
        found = unicode_class(name.removeprefix("^"), is_negated=is_negated)
        if found is None:
            self.fail(_INVALID_RANGE, self.since(start))
        return found

    def character_class(self) -> str:
        """Read `[...]`; the answer is the same for RE2."""
        start = self.position
        self.position += 2 if self.pattern.startswith("^", start + 1) else 1
        written = [self.since(start), self._member(start)]
        while not self.ahead("]"):
            written.append(self._member(start))
        self.position += 1
        return "".join((*written, "]"))

    def _member(self, class_start: int) -> str:
        start = self.position
        following = self.pattern[start + 1 : start + 2] if self.ahead("\\") else ""
        if following in UNICODE_CLASSES:
            return self.unicode_class()
        if following in PERL_CLASSES:
            self.position += 2
            return self.since(start)
        end = self.pattern.find(":]", start + 2) if self.ahead("[:") else -1
        return self._posix_class(end + 2) if end >= 0 else self._range(class_start)

    def _posix_class(self, end: int) -> str:
        name = self.pattern[self.position : end]
        self.position = end
        if name[2:-2].removeprefix("^") not in _POSIX_CLASSES:
            self.fail(_INVALID_RANGE, name)
        return name

    def _range(self, class_start: int) -> str:
        start = self.position
        low = self._end_of_range(class_start)
        if not self.ahead("-") or self.pattern[self.position + 1 : self.position + 2] in ("", "]"):
            return escape_code_point(low)
        self.position += 1
        high = self._end_of_range(class_start)
        if high < low:
            self.fail(_INVALID_RANGE, self.since(start))
        return f"{escape_code_point(low)}-{escape_code_point(high)}"

    def _end_of_range(self, class_start: int) -> int:
        if self.position == len(self.pattern):
            self.fail("missing closing ]", self.pattern[class_start:])
        if self.ahead("\\"):
            return self.escape()
        self.position += 1
        return ord(self.pattern[self.position - 1])


LARGEST_REPEAT = 1000
LARGEST_HEIGHT = 1000
LARGEST_SIZE = (128 << 20) // 40
"""Instructions of 40 bytes in 128 MiB."""


@dataclass(slots=True)
class Part:
    """The size, height and copies of a part of a pattern."""

    size: int = 1
    height: int = 1
    copies: int = 1
    """The number of repetitions of its most repeated part."""
    is_literal: bool = False

    def enclose(self) -> Part:
        """In a group that captures, or with `*`, `+` or `?` behind it."""
        return Part(self.size + 2, self.height + 1, self.copies)

    def repeat(self, least: int, most: int | None) -> Part:
        """So many times, or without an end."""
        if most is None:
            size = 1 + least * self.size if least else 2 + self.size
            copies = max(least, 1) * self.copies
        else:
            size = most * self.size + most - least
            copies = most * self.copies
        return Part(max(1, size), self.height + 1, max(1, copies))


class Level:
    """The parts read between two brackets, or from a bracket on."""

    def __init__(self, *, captures: bool) -> None:
        self.captures = captures
        self.parts: list[Part] = []
        """Since the last `|`."""
        self._alternatives: list[Part] = []

    def push(self, part: Part) -> None:
        """Add a part; literals grow together once nothing can repeat the last of them."""
        parts = self.parts
        if len(parts) > 1 and parts[-1].is_literal and parts[-2].is_literal:
            parts[-2].size += parts.pop().size
        parts.append(part)

    def end_alternative(self) -> None:
        """Begin the next alternative after a `|`."""
        self._alternatives.append(_sequence(self.parts, extra=0))
        self.parts = []

    def whole(self) -> Part:
        """All of it as one part."""
        self.end_alternative()
        return _sequence(self._alternatives, extra=len(self._alternatives) - 1)


def _sequence(parts: list[Part], extra: int) -> Part:
    if len(parts) == 1:
        return parts[0]
    return Part(
        size=max(1, sum(part.size for part in parts) + extra),
        height=1 + max((part.height for part in parts), default=0),
        copies=max((part.copies for part in parts), default=1),
    )


_REPEAT = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_DIGITS_THAT_COUNT = 9
_GROUP_NAME = re.compile(r"[A-Za-z0-9_]+")
_ANCHORS = frozenset("AbBz")
_FLAGS = frozenset("imsU")
_NO_FLAGS = "(?)"


def translate_pattern(pattern: str) -> str:
    """A pattern that Go takes, written for RE2.

    Raises:
        CelRuntimeError: Go does not take it; the message is that of Go's regexp.Compile.
    """
    return _Parser(pattern).parse()


class _Parser(CharacterReader):
    """Reads a pattern once, from left to right, without recursion."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        self._levels = [Level(captures=False)]
        self._last_repeat: int | None = None
        """Where the repetition operator began that has just been read."""
        self._written: list[str] = []

    def parse(self) -> str:
        while self.position < len(self.pattern):
            start = self.position
            is_repeat = self._read_one(start)
            self._last_repeat = start if is_repeat else None
        if len(self._levels) > 1:
            self.fail("missing closing )", self.pattern)
        self._check(self._levels[0].whole())
        return "".join(self._written)

    def _read_one(self, start: int) -> bool:
        """Read the next element; whether it was a repetition operator."""
        match self.pattern[start]:
            case "(":
                self._open(start)
            case "|":
                self._levels[-1].end_alternative()
                self._copy(1)
            case ")":
                self._close()
            case "[":
                self._push(Part(), self.character_class())
            case "*" | "+" | "?":
                self.position += 1
                self._repeat(start)
                return True
            case "{" if found := _REPEAT.match(self.pattern, start):
                self._counted_repeat(found)
                return True
            case "\\":
                self._backslash(start)
            case "^" | "$" | ".":
                self._push_copy(Part(), 1)
            case _:
                self.position += 1
                self._push(Part(is_literal=True), escape_code_point(ord(self.pattern[start])))
        return False

    def _copy(self, length: int) -> None:
        """Go on by some characters, and write them down."""
        start = self.position
        self.position += length
        self._written.append(self.since(start))

    def _push_copy(self, part: Part, length: int) -> None:
        self._levels[-1].push(part)
        self._copy(length)

    def _push(self, part: Part, written: str) -> None:
        """Add a part that has been read, and what it is for RE2."""
        self._levels[-1].push(part)
        self._written.append(written)

    def _check(self, part: Part) -> None:
        if part.size > LARGEST_SIZE:
            self.fail("expression too large", self.pattern)
        if part.height > LARGEST_HEIGHT:
            self.fail("expression nests too deeply", self.pattern)

    def _open(self, start: int) -> None:
        rest = len(self.pattern) - start
        if not self.ahead("(?"):
            self._levels.append(Level(captures=True))
            self._copy(1)
        elif self.ahead("(?<") and rest > len("(?<"):
            self._named_group(start + len("(?<"))
        elif self.ahead("(?P<") and rest > len("(?P<"):
            self._named_group(start + len("(?P<"))
        else:
            self._flags(start)

    def _named_group(self, name_start: int) -> None:
        start = self.position
        self.position = self.pattern.find(">", start) + 1
        if self.position == 0:
            self.fail("invalid named capture", self.pattern[start:])
        if not _GROUP_NAME.fullmatch(self.pattern, name_start, self.position - 1):
            self.fail("invalid named capture", self.since(start))
        self._levels.append(Level(captures=True))
        self._written.append("(")

    def _flags(self, start: int) -> None:
        """Read flags such as `(?i)`, or the beginning of a group that does not capture."""
        is_negative = has_flag = False
        for character in self.pattern[start + 2 :]:
            self.position += 1
            if character in _FLAGS:
                has_flag = True
            elif character == "-" and not is_negative:
                is_negative, has_flag = True, False
            elif character in ":)" and (has_flag or not is_negative):
                if character == ":":
                    self._levels.append(Level(captures=False))
                self.position = start
                self._copy(self.pattern.index(character, start) + 1 - start)
                return
            else:
                break
        self.position += 2
        self.fail("invalid or unsupported Perl syntax", self.since(start))

    def _close(self) -> None:
        if len(self._levels) == 1:
            self.fail("unexpected )", self.pattern)
        level = self._levels.pop()
        part = level.whole().enclose() if level.captures else level.whole()
        self._check(part)
        self._push_copy(part, 1)

    def _counted_repeat(self, found: re.Match[str]) -> None:
        self.position = found.end()
        low, comma, high = found.groups()
        is_too_long = max(len(low), len(high or "")) > _DIGITS_THAT_COUNT
        least = LARGEST_REPEAT + 1 if is_too_long else int(low)
        most = least if is_too_long or not comma else int(high) if high else None
        if least > LARGEST_REPEAT or (most is not None and not least <= most <= LARGEST_REPEAT):
            self.fail("invalid repeat count", found[0])
        part = self._repeat(found.start(), (least, most))
        if max(least, most or 0) >= 2 and part.copies > LARGEST_REPEAT:
            self.fail("invalid repeat count", self.since(found.start()))

    def _repeat(self, start: int, times: tuple[int, int | None] | None = None) -> Part:
        """Let the operator that began there apply to what came before it; it is greedy, unless a `?` follows."""
        if self.ahead("?"):
            self.position += 1
        if self._last_repeat is not None:
            self.fail("invalid nested repetition operator", self.since(self._last_repeat))
        parts = self._levels[-1].parts
        if not parts:
            self.fail("missing argument to repetition operator", self.since(start))
        part = parts[-1].repeat(*times) if times else parts[-1].enclose()
        self._check(part)
        parts[-1] = part
        self._written.append(self.since(start))
        return part

    def _backslash(self, start: int) -> None:
        following = self.pattern[start + 1 : start + 2]
        if following == "Q":
            self._quotation(start + 2)
        elif following in UNICODE_CLASSES:
            self._push(Part(), f"[{self.unicode_class()}]")
        elif following in _ANCHORS or following in PERL_CLASSES:
            self._push_copy(Part(), 2)
        else:
            self._push(Part(is_literal=True), escape_code_point(self.escape()))

    def _quotation(self, start: int) -> None:
        r"""Read what is behind `\Q`, up to `\E` or to the end of the pattern."""
        end = self.pattern.find("\\E", start)
        quoted = self.pattern[start : end if end >= 0 else len(self.pattern)]
        self.position = end + 2 if end >= 0 else len(self.pattern)
        for character in quoted:
            self._push(Part(is_literal=True), escape_code_point(ord(character)))
        if not quoted:
            self._written.append(_NO_FLAGS)
