"""The paper's printed figures recomputed: recipes over its counts, and how a number compares with a printed one."""
