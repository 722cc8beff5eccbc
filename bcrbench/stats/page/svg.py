"""Figures for the page: matplotlib's SVG cut down to shapes and text, without scripts, styles or outside references.

Style attributes become presentation attributes, so that the page's policy need not allow inline styles; the ink becomes
the page's text colour, so that figures follow a dark theme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from bcrbench.stats.figures.style import INK

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_TAGS = {"svg", "g", "defs", "clipPath", "path", "rect", "use", "text", "tspan"}
_GEOMETRY = {"d", "x", "y", "width", "height", "transform", "viewBox"}
_PAINT = {
    "fill", "fill-opacity", "fill-rule", "stroke", "stroke-width", "stroke-dasharray", "stroke-dashoffset",
    "stroke-linecap", "stroke-linejoin", "stroke-miterlimit", "stroke-opacity", "opacity", "text-anchor", "font-size",
    "font-weight",
}  # fmt: skip
_LOCAL = re.compile(r"url\(#([\w-]+)\)")
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SIZE = re.compile(r"[\d.]+px")


def clean(svg: bytes, prefix: str, label: str) -> str:
    """An SVG document as an element for a page; `prefix` keeps its ids apart from other figures'."""
    root = ET.fromstring(svg)
    kept = _kept(root, prefix, set(_targets(root)))
    assert kept is not None
    for name in ("width", "height"):
        kept.attrib.pop(name, None)
    kept.attrib |= {"role": "img", "aria-label": label, "class": "plot"}
    return ET.tostring(kept, encoding="unicode")


def _targets(root: ET.Element) -> Iterator[str]:
    for element in root.iter():
        yield from (value[1:] for value in (element.get("href"), element.get(_HREF)) if value and value[0] == "#")
        for value in element.attrib.values():
            yield from _LOCAL.findall(value)


def _kept(element: ET.Element, prefix: str, targets: set[str]) -> ET.Element | None:
    tag = element.tag.removeprefix(_SVG) if isinstance(element.tag, str) else ""
    if tag not in _TAGS:
        return None
    copy = ET.Element(tag, dict(_attributes(element, prefix, targets)))
    copy.text = element.text if tag in ("text", "tspan") else None
    children = (_kept(child, prefix, targets) for child in element)
    copy.extend(child for child in children if child is not None)
    return copy


def _attributes(element: ET.Element, prefix: str, targets: set[str]) -> Iterator[tuple[str, str]]:
    for name, value in element.attrib.items():
        if name in _GEOMETRY:
            yield name, _LONG.sub(_short, value).replace("\n", " ")
        elif name in _PAINT:
            yield name, _paint(value)
        elif name == "id" and value in targets:
            yield name, prefix + value
        elif name in ("href", _HREF) and value[:1] == "#":
            yield "href", f"#{prefix}{value[1:]}"
        elif name == "clip-path" and (local := _LOCAL.fullmatch(value)):
            yield name, f"url(#{prefix}{local[1]})"
        elif name == "style":
            yield from _style(value)


def _style(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(";"):
        name, _, value = (piece.strip() for piece in part.partition(":"))
        if name == "font" and (size := _SIZE.search(value)):
            yield "font-size", size[0]
        elif name in _PAINT and "(" not in value:
            yield name, _paint(value)


def _paint(value: str) -> str:
    return "currentColor" if value.lower() == INK else value


def _short(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
