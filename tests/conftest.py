"""Settings for all tests: which examples Hypothesis tries."""

from hypothesis import HealthCheck, settings

# The same examples on every run, so that no change of code goes in or out by chance.
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
# `make fuzz`: others each time; what fails is kept in .hypothesis and tried first next time.
settings.register_profile(
    "fuzz",
    deadline=None,
    max_examples=5000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci")
