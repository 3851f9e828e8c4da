import dataclasses
import datetime
import enum
import hashlib
import html.parser
import json
import re
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from kvgate.engine.workspace import frozen_setup
from kvgate.errors import UsageError
from kvgate.model.finding import RunResult
from kvgate.model.quantity import Quantity
from kvgate.report.render import FILES, render
from kvgate.report.text import visible
from kvgate.store.reader import RunReader
from kvgate.store.run import RunWriter
from kvgate.store.seal import seal

ALL = tuple(FILES)
VOID = {
    "meta",
    "br",
    "hr",
    "img",
    "link",
    "input",
    "use",
    "rect",
    "line",
    "circle",
    "path",
    "polygon",
    "polyline",
}


class Reader(html.parser.HTMLParser):
    """Collects tags, attributes and text, and refuses tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: bytes) -> Reader:
    reader = Reader()
    reader.feed(page.decode())
    reader.close()
    assert not reader.open
    return reader


@pytest.fixture
def made(sample: Any, templates: Path) -> dict[str, bytes]:
    run, result = sample
    return render(run, result, formats=ALL, templates=templates)


def test_every_format_has_its_file(made: dict[str, bytes]) -> None:
    assert set(made) == {"report.html", "report.md", "report.json", "junit.xml"}
    assert all(made.values())


def test_same_run_same_bytes(sample: Any, made: dict[str, bytes], templates: Path) -> None:
    run, result = sample
    assert render(run, result, formats=ALL, templates=templates) == made


def test_only_what_is_asked_for_is_made(sample: Any, templates: Path) -> None:
    run, result = sample
    assert set(render(run, result, formats=("json",), templates=templates)) == {"report.json"}
    with pytest.raises(UsageError, match="'pdf' is not a format"):
        render(run, result, formats=("pdf",), templates=templates)


def test_html_is_self_contained_and_in_order(made: dict[str, bytes]) -> None:
    page = read(made["report.html"])
    assert not page.tags & {"script", "iframe", "object", "embed", "img", "form", "base"}
    for tag, name, value in page.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("href", "src", "action", "xlink:href"):
            assert value.startswith("#"), (tag, name, value)
    assert not re.search(rb"@import|url\((?!#)", made["report.html"])
    order = [value for tag, name, value in page.attributes if tag == "section" and name == "id"]
    assert order == [
        "verdict",
        "trouble",
        "gate-G1",
        "gate-G2",
        "gate-G3",
        "gate-G4",
        "hosts",
        "left-out",
        "deviations",
        "time",
        "provenance",
        "evidence",
    ]


def test_every_link_has_a_place_and_every_place_one_name(made: dict[str, bytes]) -> None:
    page = read(made["report.html"])
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    links = {value[1:] for _, name, value in page.attributes if name == "href"}
    labels = {
        part
        for _, name, value in page.attributes
        if name == "aria-labelledby"
        for part in value.split()
    }
    assert links | labels <= set(ids)


def test_a_rehearsal_says_so_in_every_format_for_people(made: dict[str, bytes]) -> None:
    words = "REHEARSAL — can never be signed as an acceptance"
    assert f'<div class="band" role="note"><span>{words}' in made["report.html"].decode()
    assert words in made["report.md"].decode()
    assert json.loads(made["report.json"])["banner"] == words
    assert words in made["junit.xml"].decode()


def test_an_acceptance_has_no_band(sample: Any, templates: Path) -> None:
    run, result = sample
    other = dataclasses.replace(result, profile="acceptance")
    made = render(run, other, formats=ALL, templates=templates)
    assert "REHEARSAL" not in "".join(each.decode() for each in made.values())


def test_what_a_reader_needs_is_there(made: dict[str, bytes]) -> None:
    text = " ".join(" ".join(read(made["report.html"]).texts).split())
    for needed in (
        "20260512T081500Z-sample-1f2e",
        "2026-05-12 08:15:00 UTC",
        "m.chen on load1",
        "plus uncommitted changes",
        "kvgate run --plan gates/plans/sample.yaml",
        "S6XTNX0T100307",
        "over the limit of 0",
        "ask the supplier for a replacement",
        "claim: 11.6 GB/s per host (supplier's data sheet, rev. C)",
        "TP8, NVMe-oF RDMA, 2 × 100 Gb/s",
        "Joint test plan §4.2",
        "marginal",
        "1.11 GB/s",
        "The virtual NICs of this hall's test machines report no speed",
        "A forced gate bars the run from acceptance",
        "G3/ttft/arm=local/round=3",
        "SIGTERM from the terminal",
        "kvgate's own time:",
        "kvgate verify runs/20260512T",
        "not sealed yet",
        "ended by its deadline after 20.0 s",
        "7CQ1X93",
        "engine killed on ini1: 9.3 s to its repair",
    ):
        assert needed in text, needed


def test_failures_stand_before_all_else(made: dict[str, bytes]) -> None:
    troubles = json.loads(made["report.json"])["troubles"]
    assert [(each["mark"], each["criterion"], each["host"]) for each in troubles] == [
        ("fail", "G1.3", "ini2"),
        ("inconclusive", "G1.4", "ini2"),
        ("not_run", "G3.3", "all hosts together"),
    ]


def test_criteria_that_fell_with_one_test_are_one_trouble(sample: Any, templates: Path) -> None:
    run, result = sample
    one = result.gates[2].findings[2]
    fallen = tuple(dataclasses.replace(one, criterion=f"G3.{number}") for number in (1, 2, 3))
    gate = dataclasses.replace(result.gates[2], findings=fallen)
    made = render(
        run, dataclasses.replace(result, gates=(gate,)), formats=("json",), templates=templates
    )
    troubles = json.loads(made["report.json"])["troubles"]
    assert [(each["criterion"], each["gate"], each["text"]) for each in troubles] == [
        ("", "G3", "3 criteria: G3.1, G3.2, G3.3")
    ]
    two = dataclasses.replace(gate, findings=fallen[:2])
    made = render(
        run, dataclasses.replace(result, gates=(two,)), formats=("json",), templates=templates
    )
    assert len(json.loads(made["report.json"])["troubles"]) == 2


def test_a_reason_says_the_value_as_it_is_shown_beside_it(made: dict[str, bytes]) -> None:
    rows = {
        row["id"]: row
        for gate in json.loads(made["report.json"])["gates"]
        for row in gate["criteria"]
    }
    assert rows["G2.1"]["because"] == "holds on all 2 hosts; the worst: 1.11 GB/s on ini1"


def test_json_keeps_the_exact_value(made: dict[str, bytes]) -> None:
    document = json.loads(made["report.json"])
    restore = next(row for row in document["gates"][1]["criteria"] if row["id"] == "G2.1")
    assert restore["measured"]["text"] == "1.11 GB/s"
    assert restore["measured"]["exact"].endswith(" B/s")
    assert document["format"] == "kvgate-report/1"


def test_the_journal_gives_the_own_time(made: dict[str, bytes]) -> None:
    spent = json.loads(made["report.json"])["spent"]
    rows = {row["name"]: row for row in spent["rows"]}
    assert rows["G2"]["by_child"] == "fio 90.4 s"
    assert 0 < spent["own_s"] < 20


def test_the_seal_is_named_once_there_is_one(sample: Any, templates: Path) -> None:
    run, result = sample
    run.path.mkdir()
    (run.path / "SHA256SUMS").write_bytes(b"sums\n")
    made = render(run, result, formats=("json",), templates=templates)
    facts = {each["label"]: each["text"] for each in json.loads(made["report.json"])["provenance"]}
    assert facts["Seal of the run"] == hashlib.sha256(b"sums\n").hexdigest()


def poisoned(value: Any, poison: str) -> Any:
    """Return `value` with `poison` added to every text in it but profile and digests."""
    if isinstance(value, enum.Enum | datetime.datetime | Quantity):
        return value
    if isinstance(value, str):
        return value if re.fullmatch(r"[0-9a-f]{64}", value) else f"{value}{poison}"
    if isinstance(value, tuple | list):
        return type(value)(poisoned(each, poison) for each in value)
    if isinstance(value, dict):
        return {key: poisoned(each, poison) for key, each in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value,
            **{
                field.name: poisoned(getattr(value, field.name), poison)
                for field in dataclasses.fields(value)
                if field.name != "kind"
            },
        )
    return value


@pytest.fixture
def hostile(sample: Any, templates: Path) -> dict[str, bytes]:
    run, result = sample
    from_host = next(
        each.value for each in run.taken if each.name == "os.pretty_name" and each.host == "load1"
    )
    setup = frozen_setup(run)
    bad = dataclasses.replace(poisoned(result, from_host), profile=result.profile)
    run.journal = [
        dataclasses.replace(event, fields=poisoned(dict(event.fields), from_host))
        for event in run.journal
    ]
    run.taken = [
        dataclasses.replace(poisoned(each, from_host), name=each.name) for each in run.taken
    ]
    run.pieces = {ref: poisoned(piece, from_host) for ref, piece in run.pieces.items()}
    run.manifest["who"] = from_host
    return render(run, bad, formats=ALL, templates=templates, setup=setup)


def test_hostile_texts_in_every_field_stay_texts_in_html(hostile: dict[str, bytes]) -> None:
    page = read(hostile["report.html"])
    assert "script" not in page.tags
    assert "".join(page.texts).count("<script>alert('x')</script>") > 100
    assert all(value.startswith("#") for _, name, value in page.attributes if name == "href")
    assert not any(name.startswith("on") for _, name, _ in page.attributes)


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json", "junit.xml"])
def test_no_control_or_direction_character_is_left(hostile: dict[str, bytes], name: str) -> None:
    text = hostile[name].decode()
    assert all(visible(line) == line[:4000] or len(line) > 4000 for line in text.split("\n"))
    assert not set(text) & set("\x1b\x07\x00\u202e\u200b\ufeff\ufffe")


def test_hostile_texts_stay_texts_in_markdown(hostile: dict[str, bytes]) -> None:
    tokens = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .parse(hostile["report.md"].decode())
    )
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close", "softbreak"}
    assert not any(token.type.startswith(("html", "fence", "code")) for token in tokens)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("td_open", "th_open"):
            widths[-1] += 1
    assert len(widths) > 30
    assert hostile["report.md"].decode().count("\n|---") == sum(
        token.type == "table_open" for token in tokens
    )


def test_evidence_that_can_not_be_read_is_named_and_the_report_made(
    sample: Any, templates: Path
) -> None:
    run, result = sample
    gone = next(iter(run.pieces))
    del run.pieces[gone]
    made = render(run, result, formats=("json",), templates=templates)
    pieces = {each["sha256"]: each for each in json.loads(made["report.json"])["evidence"]}
    assert pieces[gone]["unreadable"] == f"evidence {gone[:12]}: is missing"


def test_a_run_without_gates_or_journal_says_so(sample: Any, templates: Path) -> None:
    run, result = sample
    run.journal, run.taken = [], []
    nothing = RunResult(
        run=result.run,
        profile="lab",
        verdict=result.verdict,
        gates=(),
        criteria_digest="",
        journal_digest="",
    )
    made = render(run, nothing, formats=ALL, templates=templates)
    read(made["report.html"])
    assert b"No gate of this run was judged" in made["report.html"]
    assert b"holds no records" in made["report.html"]


def test_a_run_of_the_real_store_is_reported(sample: Any, tmp_path: Path, templates: Path) -> None:
    kept, result = sample
    manifest = {key: value for key, value in kept.manifest.items() if key != "inputs"}
    path = tmp_path / "real"
    with RunWriter.create(path, manifest, kept.inputs) as run:
        for event in kept.journal[1:]:
            if not event.kind.startswith("block_"):
                run.event(event.kind, **event.fields)
        refs = {
            old: run.evidence(piece)
            for old, piece in kept.pieces.items()
            if b"\xff" not in piece.stdout
        }
        for each in kept.taken[:6]:
            run.measure(dataclasses.replace(each, evidence=()))
        for each in kept.samples:
            run.telemetry(each)
    one = refs[result.gates[0].findings[0].evidence[0]]
    finding = dataclasses.replace(result.gates[0].findings[0], hosts=(), evidence=(one,))
    gate = dataclasses.replace(result.gates[0], findings=(finding,))
    judged = dataclasses.replace(result, gates=(gate,))
    seal(path)
    made = render(RunReader(path), judged, formats=ALL, templates=templates)
    document = json.loads(made["report.json"])
    assert [each["sha256"] for each in document["evidence"]] == [one]
    assert not document["evidence"][0]["unreadable"]
    facts = {each["label"]: each["text"] for each in document["provenance"]}
    assert (
        facts["Seal of the run"] == hashlib.sha256((path / "SHA256SUMS").read_bytes()).hexdigest()
    )
    assert (
        facts["gates/g1-arrival.yaml"]
        == hashlib.sha256(kept.inputs["gates/g1-arrival.yaml"]).hexdigest()
    )
