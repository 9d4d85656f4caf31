"""Rules over fully qualified names: parse, lint, match, explain."""
