import json
from typing import Any
from xml.etree import ElementTree as ET

import hypothesis
import pytest
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markupsafe import Markup

from kvgate.report.text import css_string, excerpt, harmless, markdown, visible
from kvgate.report.views import Fact

ANYTHING = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, ünicode, 合格", "plain text, ünicode, 合格"),
        ("\x1b[31mred", "⟨1B⟩[31mred"),
        ("a\nb\tc", "a⟨0A⟩b⟨09⟩c"),
        ("\u202egnp.exe", "⟨202E⟩gnp.exe"),
        ("zero\u200bwidth", "zero⟨200B⟩width"),
        ("\ud800", "⟨D800⟩"),
        ("\ufffe", "⟨FFFE⟩"),
        ("\u3164", "⟨3164⟩"),
    ],
)
def test_what_can_not_be_seen_is_shown(text: str, expected: str) -> None:
    assert visible(text) == expected


def test_a_long_text_says_how_much_is_missing() -> None:
    assert visible("x" * 10_000).endswith("… (6000 more characters)")
    assert len(visible("x" * 10_000)) < 4100


@hypothesis.given(ANYTHING)
def test_visible_text_is_legal_xml_and_printable(text: str) -> None:
    shown = visible(text)
    element = ET.Element("a", b=shown)
    element.text = shown
    again = ET.fromstring(ET.tostring(element, encoding="utf-8"))  # noqa: S314  made here
    assert again.text == (shown or None)
    assert again.get("b") == shown
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert json.loads(json.dumps(shown)) == shown


@hypothesis.given(ANYTHING)
def test_escaped_markdown_reads_as_the_text_itself(text: str) -> None:
    shown = visible(text).strip()
    hypothesis.assume(shown)
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(f"| head |\n|---|\n| {markdown(shown)} |\n")
    assert [token.type for token in tokens if token.type == "td_open"] == ["td_open"]
    cell = tokens[[token.type for token in tokens].index("td_open") + 1]
    assert {child.type for child in cell.children or ()} <= {"text", "text_special"}
    read = "".join(child.content for child in cell.children or ())
    assert read == shown


@pytest.mark.parametrize(
    "text",
    [
        "# no heading",
        "- no list",
        "1. no list",
        "> no quote",
        "---",
        "=== no",
        "+ no",
        "    no code",
    ],
)
def test_markdown_at_the_start_of_a_line_makes_no_block(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse("before\n\n" + markdown(text.strip()))
    assert {token.type for token in tokens} == {"paragraph_open", "inline", "paragraph_close"}


def test_no_address_becomes_a_link() -> None:
    assert "://" not in markdown("see https://evil.test")


@hypothesis.given(ANYTHING)
def test_css_string_can_not_be_left(text: str) -> None:
    made = css_string(text)
    assert made.isascii()
    assert not set(made) & set("\"'<>{};\n")


def test_harmless_reaches_every_text_of_a_view() -> None:
    view: Any = (Fact("\x1b", "\u202e", exact="\x00"), ("\x07",), 3, None, Markup("<svg/>"))
    assert harmless(view) == (
        Fact("⟨1B⟩", "⟨202E⟩", exact="⟨00⟩"),
        ("⟨07⟩",),
        3,
        None,
        Markup("<svg/>"),
    )
    assert isinstance(harmless(view)[4], Markup)


@pytest.mark.parametrize(
    ("data", "lines", "cut"),
    [
        (b"", (), False),
        (b"one\n", ("one",), False),
        (b"one\ntwo\nthree\n", ("one", "two"), True),
        (b"\xff\xfe", ("\ufffd\ufffd",), False),
        (b"x" * 300, ("x" * 200 + "…",), True),
        (b"\n\n", ("", ""), False),
    ],
)
def test_excerpt(data: bytes, lines: tuple[str, ...], cut: bool) -> None:
    assert excerpt(data, lines=2) == (lines, cut)
