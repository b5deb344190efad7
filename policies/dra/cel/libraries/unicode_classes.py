r"""The names that `\p{...}` takes in Go's regular expressions, said in RE2's.

Both know Unicode's general categories and scripts. Go also takes long names, in any case and with any `_`, `-` and
spaces, and the code points that are not assigned.
Source: Go 1.26 regexp/syntax/parse.go, unicodeTable, and package unicode, which knows Unicode 15.
"""

from __future__ import annotations

from functools import cache

__all__ = ["unicode_class"]

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
    r"""What to write inside of RE2's `[...]` for a name, or None if Go knows no such name.

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
            return _unassigned() if is_negated else _ASSIGNED
        case "Cn":
            return _ASSIGNED if is_negated else _unassigned()
        case "C":
            return r"\pL\pM\pN\pP\pS\pZ" if is_negated else rf"\pC{_unassigned()}"
        case "Lc":
            return rf"\p{{Lm}}\p{{Lo}}\pM\pN\pP\pS\pZ\pC{_unassigned()}" if is_negated else r"\p{Lu}\p{Ll}\p{Lt}"
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
def _unassigned() -> str:
    """The ranges of all code points that RE2 has no category for, which it has no name for either."""
    import re2  # noqa: PLC0415 - nobody asks for these, and loading it takes a while

    everything = "".join(chr(code) for code in range(_LAST_CODE_POINT + 1) if code not in _SURROGATES)
    found = re2.compile(rf"[^{_ASSIGNED}]+").finditer(everything)
    spans = ((everything[match.start()], everything[match.end() - 1]) for match in found)
    return "".join(rf"\x{{{ord(first):x}}}-\x{{{ord(last):x}}}" for first, last in spans)
