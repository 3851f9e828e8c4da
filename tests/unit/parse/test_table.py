from kvgate.parse import table

PRINTED = [
    "noise",
    "Node   Model name",
    "------ ----------",
    "a      one two",
    "b      three",
    "",
    "c  d",
]


def test_columns_begin_where_the_dashes_do() -> None:
    ((columns, below),) = table.tables(PRINTED)
    assert columns == [("Node", 0), ("Model name", 7)]
    assert [table.cells(columns, line) for line in below] == [
        {"Node": "a", "Model name": "one two"},
        {"Node": "b", "Model name": "three"},
    ]


def test_a_row_with_shifted_columns_is_none() -> None:
    ((columns, _),) = table.tables(PRINTED)
    assert table.cells(columns, "abcdefgh one") is None
    assert table.cells(columns, "a") == {"Node": "a", "Model name": ""}
