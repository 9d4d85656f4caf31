"""Plans, and applying them to live models."""
