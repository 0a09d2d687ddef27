"""Badges: a label and a message, as SVG or as an endpoint of shields.io. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from aml_train.core.text import printable_line

Color = Literal["green", "red", "yellow", "blue", "grey"]

_HEX: Final[dict[str, str]] = {
    "green": "#2e8540",
    "red": "#c0392b",
    "yellow": "#8a6100",
    "blue": "#1f6feb",
    "grey": "#6e7781",
}
#: Of shields.io (https://shields.io/badges/endpoint-badge).
_SHIELDS: Final[dict[str, str]] = {
    "green": "brightgreen",
    "red": "red",
    "yellow": "yellow",
    "blue": "blue",
    "grey": "lightgrey",
}
_MOST: Final = 80
_HEIGHT: Final = 20
_PAD: Final = 6
#: Tenths of a pixel of characters of Verdana and DejaVu Sans at 11 px; others are as wide as a digit, wide scripts as 11 px.
_NARROW: Final = "ijlI.,:;!'|()[] ft"
_WIDE: Final = "mwMW@%"


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A label and a message; both may be foreign text."""

    label: str
    message: str
    color: Color

    def endpoint(self) -> dict[str, Any]:
        """Return the JSON that shields.io's endpoint badge reads."""
        return {
            "schemaVersion": 1,
            "label": _cut(self.label),
            "message": _cut(self.message),
            "color": _SHIELDS[self.color],
        }

    def svg(self) -> str:
        """Return the badge as SVG without scripts, links and fonts."""
        from markupsafe import Markup

        label, message = _cut(self.label), _cut(self.message)
        left, right = _width(label) + 2 * _PAD, _width(message) + 2 * _PAD
        text = Markup('<text x="{}" y="14" textLength="{}" lengthAdjust="spacingAndGlyphs">{}</text>')
        return str(
            Markup(
                '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">'
                "<title>{title}</title>"
                '<clipPath id="r"><rect width="{width}" height="{height}" rx="3"/></clipPath>'
                '<g clip-path="url(#r)"><rect width="{left}" height="{height}" fill="#444d56"/>'
                '<rect x="{left}" width="{right}" height="{height}" fill="{color}"/></g>'
                '<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">{first}{second}</g></svg>\n'
            ).format(
                width=left + right,
                height=_HEIGHT,
                left=left,
                right=right,
                color=_HEX[self.color],
                title=f"{label}: {message}",
                first=text.format(_PAD, _width(label), label),
                second=text.format(left + _PAD, _width(message), message),
            )
        )


def _cut(text: str) -> str:
    shown = "".join(sign for sign in printable_line(text) if sign.isprintable())
    return shown if len(shown) <= _MOST else f"{shown[: _MOST - 1]}…"


def _width(text: str) -> int:
    """Return the width of *text* in pixels, roughly; the SVG makes the text as wide."""
    tenths = sum(
        40 if sign in _NARROW else 100 if sign in _WIDE else 110 if ord(sign) > 0x2E80 else 67 for sign in text
    )
    return max(1, -(-tenths // 10))
