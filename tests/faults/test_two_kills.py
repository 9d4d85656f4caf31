"""A run is killed, the run that goes on is killed too, and a third one ends as if nothing was."""

import pytest


@pytest.mark.parametrize(
    "asked",
    [
        *({"what": "two_kills", "operation": "quantize", "step": step} for step in (5, 17, 41)),
        {"what": "two_kills", "operation": "convert", "step": 29},
    ],
    ids=str,
)
def test_two_kills(reply):
    """What was finished in the first run is still not written again in the third."""
    assert reply["wrong"] == []
    assert reply["struck"] > 10
