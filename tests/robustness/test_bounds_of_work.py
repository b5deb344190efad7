"""Bounds of work: units, cancellation, and bounds within others."""

import pytest

from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by, check_cancelled, count_work
from tests.counted_work import RecordedWork


class GivenUpError(Exception):
    """A part of the work is too much."""


def stop():
    raise GivenUpError


def test_work_is_counted_until_it_is_too_much():
    work = Work(10)
    with bounded_by(work):
        count_work(4)
        count_work(6)
        with pytest.raises(TooMuchWork):
            count_work(1)


def test_work_in_a_part_is_counted_in_the_whole():
    whole = RecordedWork()
    with bounded_by(whole):
        with bounded_by(Work(10)):
            count_work(3)
        count_work(4)
    assert whole.steps == [3, 4]


def test_part_may_be_given_up_while_the_rest_goes_on():
    whole = RecordedWork()
    with bounded_by(whole):
        with pytest.raises(GivenUpError), bounded_by(Work(2, exceeded=GivenUpError)):
            count_work(3)
        count_work(4)
    assert whole.steps == [3, 4]


def test_part_with_room_ends_where_the_whole_is_too_much():
    with bounded_by(Work(2)), bounded_by(Work(100, exceeded=GivenUpError)), pytest.raises(TooMuchWork):
        count_work(3)


def test_work_is_cancelled_between_its_steps():
    with bounded_by(Work(check=stop)):
        count_work(1)
        with pytest.raises(GivenUpError):
            check_cancelled()


def test_part_is_cancelled_with_the_whole():
    with bounded_by(Work(check=stop)), bounded_by(Work(10)), pytest.raises(GivenUpError):
        check_cancelled()


def test_bounds_end_with_their_block():
    with bounded_by(Work(0, check=stop)):
        pass
    count_work(1)
    check_cancelled()


def test_units_are_taken_only_if_enough_are_left():
    work = Work(10)
    assert [work.take(units) for units in (6, 5, 4, 1)] == [True, False, True, False]
    assert work.left == 0


def test_nothing_is_left_after_more_units_were_spent():
    work = Work(10)
    assert [work.spend(units) for units in (6, 5, 0)] == [True, False, False]
