"""What holds for all tests."""

from hypothesis import settings

pytest_plugins = ("tests.browser",)

# Examples are not timed: these machines are shared, and a slow moment is no mistake.
settings.register_profile("kilotune", deadline=None)
settings.load_profile("kilotune")
