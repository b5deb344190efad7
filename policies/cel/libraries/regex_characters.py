"""Characters of Go's regular expressions: escapes, classes and ranges, and how RE2 reads them."""

from __future__ import annotations

import re
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
