"""Config to tensor subclass, one family a file."""
