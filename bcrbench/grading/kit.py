"""What tools and graders may use: a sandbox, where running generated code is allowed, and recorded pages."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Callable

from bcrbench.errors import UserError

if TYPE_CHECKING:
    from bcrbench.grading.sandbox import Sandbox
    from bcrbench.tools.recorded import Pages


Ask = Callable[[str, str, int], str]


class Kit:
    """The means that a person allowed. `code` says whether generated programs may run; off unless asked for."""

    def __init__(self, code: bool = False, pages: Pages | None = None) -> None:
        self.code = code
        self.pages = pages
        self.ask: Ask | None = None  # (system, user, tokens) -> the model's answer, where a model is loaded

    @property
    def offers(self) -> frozenset[str]:
        """The needs of tools that are met."""
        return frozenset({name for name, there in (("code", self.code), ("pages", self.pages is not None)) if there})

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox, opened when first used. Raises UserError when running code was not allowed."""
        if not self.code:
            raise UserError("running generated code: not allowed, expected --allow-code-execution")
        from bcrbench.grading.sandbox import open_sandbox

        return open_sandbox()

    def identity(self) -> dict[str, Any]:
        """What a log says about the means: the sandbox's level and the hash of the pages, where they are there."""
        return {
            **({"code": self.sandbox.level} if self.code else {}),
            **({"pages": self.pages.hash} if self.pages is not None else {}),
        }
