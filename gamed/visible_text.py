"""Texts that people choose hold no invisible characters, by which two of them could look the same.

The joiners U+200C and U+200D are invisible, too, and allowed where writing needs them: in Persian, Sinhala and other
scripts by the rules of RFC 5892 A.1 and A.2, and between two emoji (UTS 51 2.3). Each joiner is decided by the few
characters around it.
"""

from unicodedata import category

from idna import valid_contextj

ZWNJ, ZWJ = "\u200c", "\u200d"
JOINERS = frozenset({ZWNJ, ZWJ})
EMOJI_STYLE = "\ufe0f"
"""A selector that a phone's keyboard adds to many emoji; without it they are the same characters."""
INVISIBLE = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)))
) | frozenset(map(chr, range(0xE0100, 0xE01F0)))
"""Invisible letters and marks, by which two names could look the same (Default_Ignorable_Code_Point)."""
BLANK = INVISIBLE | frozenset("\u2800\u3164\uffa0\U0001d159")
"""Characters that are shown as nothing although they are letters, marks or symbols."""
_UNSHOWN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Controls, formats (among them tags and what changes the direction of text), lone surrogates, separators of lines.

Unassigned and private characters, too, as in display names: fonts show nothing for some of them, such as U+2065.
"""
_NEAR = 6
"""The characters on each side of a joiner that can decide: a letter with the marks that may stand on it."""
_MODIFIERS = range(0x1F3FB, 0x1F400)
"""The colours of skin, which follow an emoji."""
_PICTOGRAPHS = """
    A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 2388 23CF 23E9-23F3 23F8-23FA 24C2 25AA-25AB 25B6 25C0
    25FB-25FE 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271D 2721 2728 2733-2734 2744 2747 274C 274E
    2753-2755 2757 2763-2767 2795-2797 27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D 3297 3299
    1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1E5 1F201-1F20F 1F21A 1F22F
    1F232-1F23A 1F23C-1F23F 1F249-1F3FA 1F400-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F 1F7D5-1F7FF 1F80C-1F80F
    1F848-1F84F 1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1FAFF 1FC00-1FFFD
"""
_RANGES = tuple(
    range(int(first, 16), int(last or first, 16) + 1)
    for first, _, last in (each.partition("-") for each in _PICTOGRAPHS.split())
)
"""Extended_Pictographic, which has all emoji that a joiner may join (UAX 29, GB11); reserved ones are never shown."""


def visible(text: str) -> str:
    """Return the text without characters that are not shown; joiners stay."""
    return "".join(c for c in text if c in JOINERS or (category(c) not in _UNSHOWN and c not in BLANK))


def without_joiners(text: str) -> str:
    return text.replace(ZWNJ, "").replace(ZWJ, "")


def without_stray_joiners(text: str) -> str:
    """Return the text without the joiners that join nothing where they are; `text` has a bounded length."""
    if JOINERS.isdisjoint(text):
        return text
    kept = ""
    for position, character in enumerate(text):
        if character not in JOINERS or _joins(kept[-_NEAR:], text[position : position + 1 + _NEAR]):
            kept += character
    return kept


def _joins(before: str, after: str) -> bool:
    """Return whether the joiner with which `after` begins joins what is around it."""
    if after[0] == ZWJ and _is_emoji(before) and any(ord(after[1:2] or " ") in codes for codes in _RANGES):
        return True
    try:
        return valid_contextj(before + after, len(before))
    except ValueError:  # the character before it has no name, or is none
        return False


def _is_emoji(before: str) -> bool:
    """Return whether the text ends with an emoji, perhaps with a colour of skin."""
    if before and ord(before[-1]) in _MODIFIERS:
        before = before[:-1]
    return bool(before) and any(ord(before[-1]) in codes for codes in _RANGES)
