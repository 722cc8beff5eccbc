"""Libraries that would talk into our output."""

from __future__ import annotations


def quiet_libraries() -> None:
    """Keep transformers' warnings and bars off the terminal."""
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
