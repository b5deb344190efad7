"""TokenReviews and SubjectAccessReviews that are shared, cached for a moment, and limited in number."""

import asyncio

import pytest

from webhook.cluster.answers import Unreachable
from webhook.cluster.caller_reviews import KEPT_SECONDS, MOST_PENDING, MOST_SENT, SharedReviews, TooManyReviews
from webhook.cluster.clockwork import Clockwork


class World:
    """Time that passes by waiting only, and an API server that answers when it is told to, or at once."""

    def __init__(self):
        self.seconds = 0.0
        self.sent = []
        self.rests = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.error = None
        self.reviews = SharedReviews(Clockwork(clock=lambda: self.seconds, sleep=self.sleep))

    async def sleep(self, seconds):
        self.rests.append(seconds)
        self.seconds += seconds

    def ask(self, name):
        async def send():
            self.sent.append(name)
            await self.go_on.wait()
            if self.error:
                raise self.error
            return f"answer to {name}"

        return asyncio.create_task(self.reviews.answer(name.encode(), send))


@pytest.fixture
async def world():
    return World()


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_equal_questions_at_a_time_are_sent_once(world):
    answers = await asyncio.gather(*(world.ask("a") for _ in range(5)))
    assert answers == ["answer to a"] * 5
    assert world.sent == ["a"]


async def test_answer_is_kept_from_the_moment_of_sending(world):
    world.go_on.clear()
    first = world.ask("a")
    await settle()
    world.seconds = 4
    world.go_on.set()
    await first
    world.seconds = KEPT_SECONDS - 0.1
    await world.ask("a")
    assert world.sent == ["a"]
    world.seconds = KEPT_SECONDS
    await world.ask("a")
    assert world.sent == ["a", "a"]


async def test_failure_is_shared_by_waiting_calls_and_not_cached(world):
    world.error = Unreachable("away")
    failures = await asyncio.gather(world.ask("a"), world.ask("a"), return_exceptions=True)
    assert [str(failure) for failure in failures] == ["away", "away"]
    world.error = None
    assert await world.ask("a") == "answer to a"


async def test_few_are_sent_at_a_time(world):
    world.go_on.clear()
    tasks = [world.ask(f"{number}") for number in range(MOST_SENT + 2)]
    await settle()
    assert len(world.sent) == MOST_SENT
    world.go_on.set()
    await asyncio.gather(*tasks)
    assert len(world.sent) == MOST_SENT + 2


async def test_review_without_a_waiting_call_is_not_sent(world):
    world.go_on.clear()
    busy = [world.ask(f"{number}") for number in range(MOST_SENT)]
    given_up = world.ask("given up")
    await settle()
    given_up.cancel()
    await settle()
    world.go_on.set()
    await asyncio.gather(*busy)
    await settle()
    assert "given up" not in world.sent
    assert await world.ask("given up") == "answer to given up"


async def test_review_with_a_waiting_call_is_sent(world):
    world.go_on.clear()
    busy = [world.ask(f"{number}") for number in range(MOST_SENT)]
    one, other = world.ask("shared"), world.ask("shared")
    await settle()
    one.cancel()
    world.go_on.set()
    assert await other == "answer to shared"
    await asyncio.gather(*busy)


async def test_giving_up_does_not_make_room_for_more_at_the_api_server(world):
    world.go_on.clear()
    for number in range(MOST_SENT):
        call = world.ask(f"{number}")
        await settle()
        call.cancel()
    patient = world.ask("patient")
    await settle()
    assert len(world.sent) == MOST_SENT
    world.go_on.set()
    assert await patient == "answer to patient"


async def test_failure_without_a_waiting_call_is_dropped(world, caplog):
    world.go_on.clear()
    call = world.ask("a")
    await settle()
    call.cancel()
    world.error = Unreachable("away")
    world.go_on.set()
    await settle()
    assert not caplog.records


async def test_too_many_questions_are_turned_away_at_once(world):
    world.go_on.clear()
    tasks = [world.ask(f"{number}") for number in range(MOST_PENDING)]
    await settle()
    with pytest.raises(TooManyReviews, match=r"^Too many token and access reviews are pending; try again"):
        await world.ask("one more")
    joined = world.ask("0")
    world.go_on.set()
    assert await joined == "answer to 0"
    await asyncio.gather(*tasks)


async def test_reviews_have_a_rate_however_many_are_requested(world):
    for number in range(96):
        await world.ask(f"{number}")
    assert sum(world.rests) == 5.0


async def test_rate_does_not_slow_down_the_first_after_a_rest(world):
    for number in range(16):
        await world.ask(f"{number}")
    assert world.rests == []
    world.seconds += 60
    for number in range(16, 32):
        await world.ask(f"{number}")
    assert world.rests == []


async def test_giving_up_uses_up_no_rate(world):
    for number in range(16):
        await world.ask(f"{number}")
    forever = asyncio.Event()
    world.reviews._clockwork = Clockwork(clock=lambda: world.seconds, sleep=lambda _: forever.wait())
    for number in range(100):
        call = world.ask(f"given up {number}")
        await settle()
        call.cancel()
        await settle()
    world.reviews._clockwork = Clockwork(clock=lambda: world.seconds, sleep=world.sleep)
    await world.ask("patient")
    assert world.rests == [1 / 16]


async def test_memory_has_a_bound_and_holds_no_question(world):
    for number in range(2000):
        await world.ask(f"token-{number}")
    assert len(world.reviews._answers) <= 16 * KEPT_SECONDS + 16
    assert b"token-1999" not in world.reviews._answers
    assert not world.reviews._pending
