"""Feed the recorded ids of the released KVComm through this engine and pool, and compare.

Run: python tests/bench/replay_released.py --model MODEL --trace smollm2_gsm8k_reuse_short.json [--out docs/replay.md]
MODEL is SmolLM2-135M-Instruct (folder or GGUF); the trace holds 48 calls of the released code with full id sequences,
which are read and never stored. Compared are every gate's distances, entropy and decision, every call's mode, and
every assembled segment's relative L2 error against a dense cache of the same ids.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from bcrbench.agents.prompt import QUESTION, _standin, encode
from bcrbench.engine.cache import SlotCache
from bcrbench.engine.model import Runtime, load
from bcrbench.reuse.block import Block, read
from bcrbench.reuse.policies import KVComm
from bcrbench.reuse.segments import Prompt, Segment, join
from bcrbench.reuse.serve import Job, Server
from bcrbench.runs.schema import Gate

CONDITION = "condition_3"


def ours(name: str) -> str:
    """Our name of a released placeholder."""
    return QUESTION if name == "user_question" else name.removesuffix("_current")


class Replay:
    """Walks through the recorded requests and collects (what, released, ours)."""

    def __init__(self, runtime: Runtime, trace: dict[str, Any]) -> None:
        self.runtime, self.trace = runtime, trace
        self.fixed = {p["node"]: p["segment_ids"] for p in trace["prefix_init"]}
        self.names = {p["node"]: [ours(n) for n in sorted(p["placeholder_info"], key=p["placeholder_info"].get)]
                      for p in trace["prefix_init"]}  # fmt: skip
        self.drops = {ours(s["ph_id"]): s["drop_num"] for c in trace["calls"] for s in c["segments"] or []}
        self.generate = iter(g for g in trace["generate"] if g["caller"] not in ("run", "prepare_prefix_kv_segments"))
        self.predict = iter(p for p in trace["predict"] if p["ph_id"] != "agent_0_current")
        headers: dict[str, list[int]] = {}
        self.server = Server(runtime, KVComm(gamma=0.3), headers, 24)
        self.headers = headers
        for node, pieces in self.fixed.items():
            self.server.prepare(node, self._hollow(node, pieces))
        self.gates: list[dict[str, Any]] = []
        self.modes: list[tuple[str, str]] = []
        self.errors: list[dict[str, Any]] = []
        self.norms: list[float] = []
        self.overhead: list[tuple[float, float]] = []

    def _hollow(self, node: str, pieces: list[list[int]]) -> Prompt:
        standins = [encode(self.runtime.tokenizer, _standin(name)) for name in self.names[node]]
        hollow = join(pieces, self.names[node], standins)
        recorded = next(p["placeholder_info"] for p in self.trace["prefix_init"] if p["node"] == node)
        assert sorted(recorded.values()) == [[s.start, s.end] for s in hollow.shared()], "stand-ins differ"
        return hollow

    def run(self) -> None:
        """All requests."""
        calls = self.trace["calls"]
        for start in range(0, len(calls), 4):
            self.server.begin(calls[start]["message"])
            contents: dict[str, list[int]] = {}
            for call in calls[start : start + 4]:
                self._call(call, contents)

    def _call(self, call: dict[str, Any], contents: dict[str, list[int]]) -> None:
        node = call["node"]
        record = next(self.generate)
        while record["caller"] != "agen_kvcomm":
            name = QUESTION if record["caller"] == "update_input_anchor" else CONDITION
            ids = record["ids"][: record["prompt_len"]]
            self.headers[name] = ids[: self.drops[name]]
            contents[name] = ids[self.drops[name] :]
            record = next(self.generate)
        prompt = join(self.fixed[node], self.names[node], [contents[name] for name in self.names[node]])
        assert prompt.ids == record["ids"][: record["prompt_len"]], "the prompt's ids differ"
        generated = record["ids"][record["prompt_len"] :]
        response = f"agent_{node}"
        job = Job(node, tuple("123"[: int(node) - 1] if node != "0" else "123"), prompt, response, node != "0",
                  replay=generated)  # fmt: skip
        outcome = self.server.serve(job)
        contents[response] = generated[:-1]
        self.modes.append((call["mode"], {"dense": "dense_prefill", "reuse": "kv_reuse"}[outcome.served]))
        self.overhead.append((call["assembly_to_generate_s"] * 1e3,
                              outcome.stages.get("gate", 0.0) + outcome.stages.get("assemble", 0.0)))  # fmt: skip
        for gate in outcome.gates:
            self._gate(gate, next(self.predict))
        if outcome.served == "reuse" == {"kv_reuse": "reuse"}.get(call["mode"]):
            self._compare(call, prompt, self.server.caches[node])

    def _gate(self, gate: Gate, released: dict[str, Any]) -> None:
        assert gate.segment == ours(released["ph_id"])
        # Read after the call, when a dense one has appended its own anchor.
        counts = [anchor.count for anchor in self.server.pool.bucket(gate.segment).anchors]
        pairs = list(zip(released.get("dist", []), gate.distances or [], strict=True))
        self.gates.append({
            "segment": gate.segment,
            "decision": (released["new_anchor"], gate.decision == "new"),
            "facts": (gate.anchors, gate.rows, gate.available, counts[: gate.anchors]) == _facts(released),
            "distance": max((abs(a - b) / a for a, b in pairs), default=0.0),
            "entropy": abs(released["entropy"] - gate.entropy) if "entropy" in released else 0.0,
            "tested": "entropy" in released,
        })  # fmt: skip

    def _compare(self, call: dict[str, Any], prompt: Prompt, cache: SlotCache) -> None:
        served = len(prompt.ids) - 1
        dense = self.runtime.new_cache(len(prompt.ids))
        self.runtime.run(prompt.ids, range(len(prompt.ids)), dense)
        recorded = call["cache_err"]["segments"]
        for segment, there in zip(prompt.segments, recorded, strict=True):
            span = Segment(segment.name, segment.shared, segment.start, min(segment.end, served))
            assert (segment.start, segment.end) == (there["start"], there["end"])
            key, value = relative(read(cache, span.start, span.end), read(dense, span.start, span.end))
            self.errors.append({"kind": kind(span), "k": (there["k"], key), "v": (there["v"], value)})
        for layer, norm in enumerate(call["cache_sums"]["k_norm_per_layer"]):
            mine = float(cache.keys[layer, 0, :, :served].norm())
            self.norms.append(abs(mine - norm) / norm)


def relative(assembled: Block, dense: Block) -> tuple[float, float]:
    """Relative L2 error of keys and values."""
    return (
        float((assembled.keys - dense.keys).norm() / dense.keys.norm()),
        float((assembled.values - dense.values).norm() / dense.values.norm()),
    )


def kind(segment: Segment) -> str:
    """The row of the table that a segment belongs to."""
    if segment.shared:
        return "response" if segment.name.startswith("agent") else segment.name
    return "fixed_0 (exact)" if segment.name == "fixed_0" else "fixed after a shared segment"


def _facts(released: dict[str, Any]) -> tuple[Any, ...]:
    return (released["n_anchors"], released["cand_len"], len(released["available"]), released["activated_after"])


def report(replay: Replay) -> str:
    """The comparison as markdown."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for error in replay.errors:
        groups[error["kind"]].append(error)
    lines = ["| segment | n | keys released | keys ours | values released | values ours | largest difference |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for name, found in groups.items():
        means = [statistics.mean(e[part][side] for e in found) for part in "kv" for side in (0, 1)]
        worst = max(abs(e[part][0] - e[part][1]) for e in found for part in "kv")
        lines.append(f"| {name} | {len(found)} | " + " | ".join(f"{mean:.5f}" for mean in means) + f" | {worst:.1e} |")
    tested = [gate for gate in replay.gates if gate["tested"]]
    same_modes = sum(a == b for a, b in replay.modes)
    same_gates = sum(a == b for a, b in (gate["decision"] for gate in replay.gates))
    same_facts = sum(gate["facts"] for gate in replay.gates)
    reused = [o for o, mode in zip(replay.overhead, replay.modes) if mode[1] == "kv_reuse"]
    return "\n".join([
        "| what | compared | result |",
        "| --- | --- | --- |",
        f"| call served dense or reused | {len(replay.modes)} | {same_modes} equal |",
        f"| gate decision | {len(replay.gates)} | {same_gates} equal |",
        f"| pool size, lengths, available, activation counts | {len(replay.gates)} | {same_facts} equal |",
        f"| gate distances, largest relative difference | {len(tested)} | {max(g['distance'] for g in tested):.1e} |",
        f"| entropy, largest difference in bits | {len(tested)} | {max(g['entropy'] for g in tested):.1e} |",
        "| per-layer key norms of assembled caches, largest relative difference | "
        f"{len(replay.norms)} | {max(replay.norms):.1e} |",
        f"| ms outside model passes, reused calls, median (released: whole assembly) | {len(reused)} | "
        f"released {statistics.median(a for a, _ in reused):.1f}, ours {statistics.median(b for _, b in reused):.1f} |",
        "",
        "Relative L2 error of assembled segments against a dense cache of the same ids, mean over segments:",
        "",
        *lines,
    ])  # fmt: skip


def main() -> None:
    """Run the comparison and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--trace", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    replay = Replay(load(options.model, device="cpu", dtype="float32"), json.loads(options.trace.read_text()))
    replay.run()
    text = report(replay)
    print(text)
    print(f"threads {torch.get_num_threads()}")
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
