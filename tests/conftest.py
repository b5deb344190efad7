"""What holds for all tests."""

from hypothesis import settings

# A machine that is busy is slow, and no test judges by the clock.
settings.register_profile("house", deadline=None)
settings.load_profile("house")
