from typing import Any

from kvgate.engine.workspace import frozen_setup
from kvgate.report.happened import deviations
from kvgate.report.sources import Sources


def told(sample: Any) -> list[tuple[str, str]]:
    run, result = sample
    found = deviations(Sources.read(run, result, frozen_setup(run)))
    return [(each.kind, each.text) for each in found]


def test_what_departed_is_listed_in_the_order_in_which_it_happened(sample: Any) -> None:
    assert told(sample) == [
        ("Gate refused", "G2 was not opened: G1 is rejected"),
        (
            "Gate forced",
            "G2 was opened by force, so this run can't be accepted: "
            "G2 to be diagnosed while the drive of G1.3 is replaced",
        ),
        ("Interrupted", "SIGTERM from the terminal (10.0.4.2)"),
        ("Resumed", "attempt: 2"),
        (
            "Measurements discarded",
            "G3/ttft/arm=local/round=3: was open when the run was interrupted",
        ),
    ]


def test_a_block_that_was_discarded_is_told_in_one_sentence(sample: Any) -> None:
    sample[0].add(
        1, "block_discarded", begin=150, block="G3/kv/round=3", reason="KeyboardInterrupt: "
    )
    assert ("Measurements discarded", "G3/kv/round=3: KeyboardInterrupt") in told(sample)


def test_a_kind_that_nobody_told_us_of_is_listed_and_not_swallowed(sample: Any) -> None:
    sample[0].add(1, "torn_tail_cut", bytes=17, file="journal.jsonl")
    assert ("Torn tail cut", "bytes: 17; file: journal.jsonl") in told(sample)


def test_a_known_kind_with_more_fields_shows_all_of_them(sample: Any) -> None:
    sample[0].add(1, "note", text="a", more="b")
    assert ("Note", "text: a; more: b") in told(sample)


def test_a_fault_that_nothing_proves_or_repairs_is_named(sample: Any) -> None:
    sample[0].add(1, "fault_begin", fault="link_down", host="ini2")
    found = told(sample)
    assert ("Fault not proven", "link_down on ini2: nothing shows that it happened") in found
    assert ("Fault not repaired", "link_down on ini2: its repair was not proven") in found


def test_a_second_fault_needs_a_proof_of_its_own(sample: Any) -> None:
    sample[0].add(1, "fault_begin", fault="engine_killed", host="ini1")
    assert "Fault not proven" in [kind for kind, _ in told(sample)]


def test_a_run_that_did_not_end_says_so(sample: Any) -> None:
    run = sample[0]
    run.journal = [event for event in run.journal if event.kind != "run_end"][:-1]
    assert [kind for kind, _ in told(sample)][-2:] == ["Gate not ended", "Run not ended"]


def test_an_empty_journal_is_no_undisturbed_run(sample: Any) -> None:
    sample[0].journal = []
    assert told(sample) == [("No journal", "This run's journal holds no records.")]
