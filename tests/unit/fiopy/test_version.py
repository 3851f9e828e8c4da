"""fio's versions, as releases print them."""

from __future__ import annotations

import pytest

from fiopy import FioOutputError, Version


def test_versions_are_ordered_by_number() -> None:
    printed = ["fio-2.1.4", "fio-2.17", "fio-3.2", "fio-3.16", "fio-3.16-64-gfd988", "fio-3.33"]
    versions = [Version.parse(each) for each in printed]
    assert versions == sorted(versions)
    assert [str(each) for each in versions] == printed
    assert versions[0].number == "2.1.4"


def test_built_versions_print_as_fio_does() -> None:
    assert str(Version(3, 33)) == "fio-3.33"
    assert Version(3, 33) == Version.parse("fio-3.33\n")


@pytest.mark.parametrize("text", ["", "3.33", "fio-3", "fio-x.1", "bash: fio: not found"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(FioOutputError):
        Version.parse(text)
