"""A third-party package with a quantization family of its own; see `test_third_party.py`."""
