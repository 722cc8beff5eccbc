"""Measurements of caches rather than of answers, logged like runs."""
