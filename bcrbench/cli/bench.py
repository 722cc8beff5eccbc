"""`bcrbench bench`: how fast dense, reuse and repair are, beside what the arithmetic allows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

T = TypeVar("T")
_AS_TYPED = (
    "prefix", "anchors", "repeat", "warm_up", "new_tokens", "short", "generate", "throughput", "agents", "document",
    "answer", "assembly", "layers",
)  # fmt: skip


@click.command(
    short_help="Measure times beside what the arithmetic allows.",
    epilog="Example: bcrbench bench --symbols 512,4096 --anchors 20 --rho 0.05,0.2 --threads 2",
)
@click.option("--model", default="random:smollm2-135m", show_default=True, metavar="MODEL",
              help="random:SHAPE, bundled, a folder with safetensors, a .gguf file, or a hub id.")  # fmt: skip
@click.option("--symbols", default="4096", show_default=True, metavar="N,N",
              help="Tokens of the shared segment; one prompt each.")  # fmt: skip
@click.option("--prefix", type=int, default=512, show_default=True, metavar="N", help="Tokens of the agent's own text.")
@click.option("--anchors", type=int, default=20, show_default=True, metavar="N", help="Anchors in the pool.")
@click.option("--rho", default="0.05,0.2", show_default=True, metavar="R,R", help="Shares of rows to repair.")
@click.option("--layout", default="chunk,grow,single", show_default=True, metavar="NAME,..", help="Layouts.")
@click.option("--select", default="coin,draft", show_default=True, metavar="NAME,..", help="Selectors: coin, draft.")
@click.option("--repeat", type=int, default=5, show_default=True, metavar="N", help="Measured rounds.")
@click.option("--warm-up", type=int, default=1, show_default=True, metavar="N",
              help="Rounds before them, whose times are left out.")  # fmt: skip
@click.option("--new-tokens", type=int, default=32, show_default=True, metavar="N",
              help="Tokens that dense and generate decode after the first one.")  # fmt: skip
@click.option("--short/--no-short", default=True, show_default=True, help="Also measure a prompt of GSM8K's size.")
@click.option("--generate/--no-generate", default=True, show_default=True, help="Also measure transformers generate.")
@click.option("--throughput/--no-throughput", default=True, show_default=True,
              help="Also serve whole requests of many agents.")  # fmt: skip
@click.option("--agents", type=int, default=6, show_default=True, metavar="N", help="throughput: agents a request.")
@click.option("--document", type=int, default=1024, show_default=True, metavar="N",
              help="throughput: tokens that they all read.")  # fmt: skip
@click.option("--answer", type=int, default=16, show_default=True, metavar="N",
              help="throughput: tokens of each one's answer.")  # fmt: skip
@click.option("--assembly/--no-assembly", default=True, show_default=True,
              help="Also time gate and assembly alone, over rows and anchors.")  # fmt: skip
@click.option("--rows", default="512,1024,2048,4096,8192,16384,32768", show_default=True, metavar="N,N",
              help="assembly: rows of the segment.")  # fmt: skip
@click.option("--pools", default="2,5,10,20", show_default=True, metavar="N,N", help="assembly: anchors in the pool.")
@click.option("--layers", type=int, metavar="N", help="assembly: layers of the rows.  [default: as many as fit]")
@click.option("--device", default="auto", show_default=True, metavar="NAME", help="auto, cpu, cuda or cuda:N.")
@click.option("--dtype", default="auto", show_default=True, metavar="NAME",
              help="auto, float32, bfloat16 or float16.")  # fmt: skip
@click.option(
    "--kernel", default="auto", show_default=True, metavar="NAME", help="auto, sdpa, tiles, blocks, flex or flash."
)
@click.option("--threads", type=click.IntRange(1, 1024), metavar="N",
              help="CPU threads.  [default: OMP_NUM_THREADS, else all cores, 1 for a small model]")  # fmt: skip
@click.option("--out", default="runs/bench", show_default=True, metavar="DIR", help="Where the log goes.")
@click.option("--save", type=click.Path(path_type=Path), metavar="DIR",
              help="Also write the tables as DIR/bench-MACHINE.md.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Check everything and list what would be measured.")
def bench(save: Path | None, dry_run: bool, **flags: Any) -> None:
    """Time every way of serving one prompt, in one process and in turns, and log each serving.

    Dense, transformers generate, reuse from a full pool, and each repair, once a round; the order alternates.
    `bcrbench stats LOG` prints the tables (docs/bench.md).
    """
    from bcrbench.bench.options import BenchOptions
    from bcrbench.cli.running import say, stoppable
    from bcrbench.engine.quiet import quiet_libraries

    options = BenchOptions(
        symbols=_values("symbols", flags["symbols"], int),
        rho=_values("rho", flags["rho"], float),
        layouts=_values("layout", flags["layout"], str),
        selects=_values("select", flags["select"], str),
        rows=_values("rows", flags["rows"], int),
        pools=_values("pools", flags["pools"], int),
        **{name: flags[name] for name in _AS_TYPED},
    )
    quiet_libraries()
    from bcrbench.bench.run import Where, check_bench, run_bench

    where = Where(**{name: flags[name] for name in ("model", "device", "dtype", "kernel", "threads", "out")})
    if dry_run:
        check_bench(where, options)
        ways = ["dense", *(["generate"] if options.generate else []), "reuse", *options.repairs]
        click.echo("\n".join([*ways, f"{options.condition} on {where.model}; nothing was run"]))
        return
    if save is not None:
        _check_folder(save)
    with stoppable():
        path = run_bench(where, options, say)
    click.echo(path)
    if save is not None:
        click.echo(_save(path, save))


def _values(name: str, text: str, kind: Callable[[str], T]) -> tuple[T, ...]:
    from bcrbench.errors import UserError, told

    try:
        return tuple(kind(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise UserError(f"--{name} {told(text)}: expected numbers with commas between them") from error


def _check_folder(folder: Path) -> None:
    from bcrbench.runs.log import ensure_writable

    ensure_writable(folder)


def _save(log: Path, folder: Path) -> Path:
    from bcrbench.bench.machine import slug
    from bcrbench.runs.log import read_log
    from bcrbench.stats.bench_report import bench_page
    from bcrbench.whole_file import write_whole

    read = read_log(log)
    cores = read.run.host.get("cores") if read.run.device.get("kind") == "cpu" else None
    path = folder / f"bench-{slug(str(read.run.device.get('model')), cores)}.md"
    write_whole(path, bench_page(read).encode(), "--save")
    return path
