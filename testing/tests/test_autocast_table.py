"""Does the guide show what autocast does with each function?"""

import autocast_table


def test_the_guide_has_the_table_that_the_rows_make() -> None:
    text = autocast_table.GUIDE.read_text("utf-8")
    begin, end = autocast_table.BEGIN, autocast_table.END
    assert text.partition(begin)[2].partition(end)[0] == autocast_table.table()
