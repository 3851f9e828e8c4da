"""What a fault came to, from moments and logs written by hand."""

import pytest

import fiopy
from kvgate.engine import failover
from kvgate.engine import failover_told as told
from kvgate.engine.failover_told import Times
from kvgate.faults.paths import Loss
from kvgate.model.quantity import Quantity
from kvgate.spec.faults import FaultTemplate
from kvgate.telemetry.paths_seen import Moment, PathId, PathState
from kvgate.workloads.acknowledged import Written
from kvgate.workloads.failover import Met

A, B = PathId("tcp", "10.77.1.1", "4420"), PathId("tcp", "10.77.2.1", "4420")
CLOCK = 1000.0  # of the host, ahead of its uptime


def at(uptime: float, a: str = "live", b: str = "live", ios: int = 0, b_ios: int = 0) -> Moment:
    paths = {
        A: PathState("nvme3", a, "optimized", ios, ios),
        B: PathState("nvme4", b, "optimized", b_ios, b_ios),
    }
    return Moment(uptime, CLOCK + uptime, paths)


BEFORE = at(0)
LOSS = Loss(before=BEFORE, taken=frozenset({A}))
TIMES = Times(begun=10.0, proven=15.0, undone=20.0, repaired=23.0)
COURSE = [BEFORE, at(12), at(15, "connecting"), at(21, "connecting"), at(22.5), at(30)]


def value(readings, name: str):
    [found] = [each for each in readings if each.name == f"failover.{name}"]
    return found.value if found.value is not None else found.problem


def test_leaving_and_recovering_are_timed_from_the_commands_begin() -> None:
    assert told.left_after(COURSE, LOSS, TIMES).value == Quantity.of("5.0", "s")
    recovered = told.recovered_at(COURSE, BEFORE, TIMES)
    assert recovered == 22.5
    found = list(told.of_repair(recovered, TIMES))
    assert value(found, "recovery_time") == Quantity.of("2.5", "s")
    assert value(found, "moments") == (
        "begun 10.00 s, proven 15.00 s, undone 20.00 s, repaired 23.00 s"
    )


def test_a_path_that_is_lost_only_after_the_undo_began_recovers_after_that() -> None:
    late = [BEFORE, at(20.5), at(21, "connecting"), at(22), at(30)]
    assert told.recovered_at(late, BEFORE, TIMES) == 22


def test_a_taken_path_that_was_never_seen_away_has_no_time() -> None:
    found = told.left_after([BEFORE, at(12), at(30)], LOSS, TIMES)
    assert found.value is None
    assert "was not seen to leave" in found.problem


@pytest.mark.parametrize(
    ("more", "flaps"),
    [
        ([], 0),
        ([at(40, b="connecting"), at(41)], 1),
        ([at(40, "connecting"), at(41), at(42, "connecting")], 2),
    ],
)
def test_what_leaves_without_the_fault_flaps(more, flaps) -> None:
    found = list(told.of_paths([*COURSE, *more], LOSS, TIMES, 22.5))
    assert value(found, "flaps") == Quantity.of(flaps, "")
    before = [BEFORE, at(5, "connecting"), *COURSE[1:]]
    assert value(told.of_paths(before, LOSS, TIMES, 22.5), "flaps") == Quantity.of(1, "")


@pytest.mark.parametrize(
    ("last", "share"),
    [
        (at(40, ios=300, b_ios=300), Quantity.of("100.00", "%")),
        (at(40, ios=300, b_ios=100), Quantity.of("50.00", "%")),
        (at(40, ios=300, b_ios=0), Quantity.of("0.00", "%")),
        (at(40, ios=3, b_ios=3), "too few to compare"),
        (at(40, b="connecting", ios=300), "1 optimized paths"),
    ],
)
def test_the_least_used_path_is_held_against_an_even_share(last, share) -> None:
    found = value([told.least_share([BEFORE, last])], "least_share")
    assert share in found if isinstance(share, str) else found == share


def test_a_counter_that_went_back_tells_no_share() -> None:
    found = told.least_share([at(1, ios=500, b_ios=500), at(9, ios=3, b_ios=900)])
    assert "the kernel counts no I/Os" in found.problem


def met(*times_s: float, error: int = 0) -> Met:
    """Return a fio whose I/Os were completed at these times of uptime, each after 2 ms."""
    lines = [f"{round(1000 * (CLOCK + each))}, 2000000, 1, 16384, 0\n" for each in times_s]
    course = fiopy.course([[line.encode() for line in lines]], window_s=0.5)
    output = fiopy.Output(
        jobs=(fiopy.JobResult(name="x", error=error, total_errors=error or None),)
    )
    return Met(outputs=(output,), course=course, problem="", evidence=())


def test_the_longest_gap_is_of_the_time_since_the_fault_began() -> None:
    ios = met(1, 6, 10.5, 10.6, 13.6, 13.7, 30)
    found = list(told.of_fio(ios, COURSE, 14.0))
    assert value(found, "longest_gap").to("s") == pytest.approx(16.3, abs=0.01)
    found = list(told.of_fio(met(1, 9.9, 10.5, 13.5, 13.6), COURSE, 10.0))
    assert value(found, "longest_gap").to("s") == pytest.approx(3.0, abs=0.01)
    assert value(found, "io_errors") == Quantity.of(0, "")
    assert value(found, "longest_io") == Quantity.of("0.002", "s")


def test_errors_and_wrong_data_are_counted_apart() -> None:
    io, wrong = met(1, 2, error=5), met(1, 2, error=84)  # EIO, EILSEQ
    assert value(told.of_fio(io, COURSE, None), "io_errors") == Quantity.of(5, "")
    assert value(told.of_fio(io, COURSE, None), "verify_errors") == Quantity.of(0, "")
    assert value(told.of_fio(wrong, COURSE, None), "verify_errors") == Quantity.of(84, "")


def test_a_clock_that_was_set_meanwhile_tells_no_gap() -> None:
    stepped = [BEFORE, Moment(30, CLOCK + 90, BEFORE.paths)]
    found = list(told.of_fio(met(1, 2), stepped, 0.5))
    assert value(found, "longest_gap") == "the host's clock was set while the load ran"


def test_io_can_go_on_from_when_one_path_is_back_not_only_from_when_all_are() -> None:
    gone = at(20.5, "connecting", "connecting")
    lost = [BEFORE, at(12), gone, at(21, "connecting", "live"), at(22.5), at(30)]
    until = told.all_away_until(lost, BEFORE, TIMES)
    assert until == 20.5
    assert told.resumed(met(1, 21), lost, until).value is True  # its time was over before 22.5
    assert told.resumed(met(1, 20), lost, until).value is False
    assert told.all_away_until(COURSE, BEFORE, TIMES) is None
    assert told.all_away_until(lost, BEFORE, Times(begun=10.0, undone=20.0)) is None


@pytest.mark.parametrize(("last_io", "resumed"), [(21, True), (20, False)])
def test_io_that_never_goes_on_after_the_loss_of_all_paths_is_found(last_io, resumed) -> None:
    both = FaultTemplate.model_validate(
        {"fault": "both", "kind": "both_paths", "on": "ini", "do": ["true"], "undo": ["true"],
         "takes": [{"address": A.address}, {"address": B.address}]}
    )  # fmt: skip
    loss = Loss(before=BEFORE, taken=frozenset({A, B}))
    away = [at(each, "connecting", "connecting") for each in (15, 20.5)]
    lost = (BEFORE, at(12), *away, at(21, "connecting"), at(22.5), at(30))
    found = list(failover._readings(both, lost, loss, TIMES, met(1, last_io)))
    assert value(found, "resumed") is resumed
    assert value(found, "recovery_time") == Quantity.of("2.5", "s")  # until all are back


def test_io_after_all_paths_were_away_is_what_resumed_means() -> None:
    assert told.resumed(met(1, 25), COURSE, 22.5).value is True
    assert told.resumed(met(1, 21), COURSE, 22.5).value is False
    unseen = told.resumed(met(1, 21), COURSE, None)
    assert unseen.value is None
    assert unseen.problem == "no moment was seen at which all paths were away"
    stepped = [BEFORE, Moment(30, CLOCK + 90, BEFORE.paths)]
    assert "clock was set" in told.resumed(met(1, 21), stepped, 20.0).problem


def test_a_writer_that_hangs_was_told_no_clear_error() -> None:
    failed = Written(acks=[(9.0, 0.1), (11.0, 0.2), (14.0, 3.0)], errors=[(15.0, 5)])
    assert told.clear_error(failed, hung=False).value is True
    assert told.clear_error(failed, hung=True).value is False
    assert told.clear_error(Written(), hung=False).value is False
    found = list(told.of_writer(failed, 10.0))
    assert value(found, "longest_gap") == Quantity.of("3.0", "s")
    assert value(found, "longest_io") == Quantity.of("3.0", "s")


@pytest.mark.parametrize(("last_io", "told_of"), [(21, True), (7, False)])
def test_a_rebuild_that_was_not_under_load_to_its_end_has_no_time(last_io, told_of) -> None:
    pulled = FaultTemplate.model_validate(
        {"fault": "drive", "kind": "drive_pulled", "on": "ini", "do": ["true"], "undo": ["true"],
         "prove": ["true"], "proved_back": ["true"]}
    )  # fmt: skip
    loss = Loss(before=BEFORE, taken=frozenset())
    seen = (BEFORE, at(12), at(30))
    found = list(failover._readings(pulled, seen, loss, TIMES, met(1, last_io)))
    time = value(found, "recovery_time")
    assert (time.to("s") >= 0) if told_of else "the load ended" in time
