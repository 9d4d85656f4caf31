"""The command line: one file a verb, heavy modules imported only where a verb needs them."""
