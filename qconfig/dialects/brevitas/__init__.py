"""Brevitas: its NamedTuples in pickles, and the state_dicts of its modules."""
