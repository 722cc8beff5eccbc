"""bcrbench: what cross-context KV-cache reuse costs, and what selective recomputation buys back."""

__version__ = "0.1.0"
