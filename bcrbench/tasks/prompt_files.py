"""The prompt sets that ship with the package, one YAML file a task."""

from __future__ import annotations

from importlib.resources import as_file, files

from bcrbench.agents.promptset import PromptSet, load_prompts
from bcrbench.errors import unknown

SUFFIX = ".yaml"


def bundled_prompts(name: str) -> PromptSet:
    """Read the shipped prompt set `name`, from a checkout, a wheel or a zip alike.

    Raises UserError for a name without a file, and for a file that is not the schema.
    """
    folder = files("bcrbench.tasks") / "prompts"
    known = [entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)]
    if name not in known:
        raise unknown("prompt set", name, known)
    with as_file(folder / (name + SUFFIX)) as path:
        return load_prompts(path)
