"""Documents and checkpoints of other libraries, read and written."""
