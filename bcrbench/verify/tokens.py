"""The token tax: are the reuse path's merged ids those of the whole text? (paper section 4.3, App. E, App. G.3)

The texts of both paths must be one; a difference there is the defect that App. G.3 warns of. Their ids may differ,
since pieces are tokenised apart: that is told, with the first boundary at which it happens, and what to run for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from bcrbench.agents.request import ids_hash
from bcrbench.reuse.segments import Prompt
from bcrbench.runs.schema import ItemRecord
from bcrbench.verify.bench import Bench
from bcrbench.verify.finding import Finding

_WINDOW = 24  # ids around a difference that are aligned


@dataclass
class _Agent:
    """One agent's prompts over the items: how many coincide, and the first that does not."""

    name: str
    total: int = 0
    equal: int = 0
    first: str = ""
    faults: list[str] = field(default_factory=list)

    def line(self) -> str:
        """The share and the first boundary."""
        share = f"agent {self.name}: {self.equal} of {self.total} prompts have the same ids"
        return share + (f"; first difference: {self.first}" if self.first else "")


def tokens(bench: Bench) -> Finding:
    """Compare both paths' prompts per agent; texts must be equal, ids are counted."""
    agents = [_look_at(bench, agent.id) for agent in bench.cell.agents]
    faults = [fault for agent in agents for fault in agent.faults]
    equal, total = sum(agent.equal for agent in agents), sum(agent.total for agent in agents)
    return Finding(
        name="tokens",
        passed=not faults,
        number=100 * equal / total,
        unit="% of prompts have the same ids in both paths",
        expected="equal texts; 100, or run dense:tokens=merged",
        detail="; ".join([*_told(bench, equal == total), *faults[:1]]),
        source="section 4.3, App. E, G.3",
        differs=equal < total,
        more=tuple(agent.line() for agent in agents),
    )


def _told(bench: Bench, same: bool) -> list[str]:
    told = ["ids coincide" if same else "ids differ, so part of any gap to dense is tokens; add dense:tokens=merged"]
    if bench.light:
        entry = ", ".join(agent.id for agent in bench.cell.agents if not agent.hears)
        told.append(f"no model: the question stands in for what others say, so only agent {entry} is exact")
    return told


def _look_at(bench: Bench, agent: str) -> _Agent:
    found = _Agent(agent)
    whole_run = None if bench.light else bench.trial("dense")
    merged_run = None if bench.light else bench.trial("kvcomm:gamma=1.0")
    for index, item in enumerate(bench.cell.items):
        record = whole_run.items[index] if whole_run is not None else None
        merged, whole = bench.prompt(agent, item, record)
        found.total += 1
        found.equal += merged.ids == whole
        where = f"item {item.id} agent {agent}"
        if merged.ids != whole and not found.first:
            found.first = f"item {item.id}, {_boundary(bench.tokenizer, merged, whole)}"
        if _text(bench.tokenizer, merged.ids) != _text(bench.tokenizer, whole):
            found.faults.append(f"{where}: the two paths' texts differ {_parting(bench.tokenizer, merged.ids, whole)}")
        if record is not None and _served(record, agent) != ids_hash(whole):
            found.faults.append(f"{where}: the dense run was served other ids than its text's")
        if merged_run is not None:
            reused = merged_run.items[index]
            if _served(reused, agent) != ids_hash(bench.prompt(agent, item, reused)[0].ids):
                found.faults.append(f"{where}: the reuse run was served other ids than its segments'")
    return found


def _served(record: ItemRecord, agent: str) -> str:
    return next(call.prompt_hash for call in record.calls if call.agent == agent)


def _text(tokenizer: Any, ids: list[int]) -> str:
    """The text of ids; special tokens an agent happened to say are no text, and are told by their ids."""
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def _parting(tokenizer: Any, merged: list[int], whole: list[int]) -> str:
    one, other = _text(tokenizer, merged), _text(tokenizer, whole)
    at = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    begin = max(0, at - 12)
    return f"at character {at}: reuse {one[begin : at + 12]!r}, dense {other[begin : at + 12]!r}"


def _boundary(tokenizer: Any, merged: Prompt, whole: list[int]) -> str:
    """Where merged and whole ids first differ: the segments on both sides, and the ids with their texts."""
    pairs = zip(merged.ids, whole)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(merged.ids), len(whole)))
    near = merged.ids[at : at + _WINDOW], whole[at : at + _WINDOW]
    blocks = SequenceMatcher(None, *near, autojunk=False).get_opcodes()
    _, a, b, c, d = next(block for block in blocks if block[0] != "equal")
    place = _place(merged, at + a, at + b)
    return f"{place}: merged {_shown(tokenizer, near[0][a:b])}, whole {_shown(tokenizer, near[1][c:d])}"


def _place(merged: Prompt, first: int, last: int) -> str:
    """`left|right` when rows [first, last) touch the boundary of two segments, else the segment they lie in."""
    for left, right in zip(merged.segments, merged.segments[1:]):
        if first <= right.start <= last:
            return f"{left.name}|{right.name}"
    inside = next((s.name for s in merged.segments if s.start <= first < s.end), merged.segments[-1].name)
    return f"inside {inside}"


def _shown(tokenizer: Any, ids: list[int]) -> str:
    return "[" + ", ".join(f"{token} {tokenizer.decode([token])!r}" for token in ids[:8]) + "]"
