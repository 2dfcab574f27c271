"""Settings of the property tests."""

from hypothesis import settings

# A busy machine is no fault: what must be fast has a benchmark.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
