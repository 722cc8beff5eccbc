"""Named model shapes for `random:<shape>`: random weights, for timing and tests without downloads.

The numbers are those of the published configurations; "tiny" is two layers, for tests.
"""

from __future__ import annotations

from typing import Any

_LLAMA3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_theta": 500000.0,
}


def _shape(
    model_type: str, layers: int, width: int, mlp: int, heads: int, kv: int, vocab: int, theta: float, tied: bool,
    **more: Any,
) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": mlp,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "tie_word_embeddings": tied,
        "max_position_embeddings": 32768,
        **more,
    }


SHAPES: dict[str, dict[str, Any]] = {
    "smollm2-135m": _shape("llama", 30, 576, 1536, 9, 3, 49152, 100000.0, True),
    "qwen2.5-0.5b": _shape("qwen2", 24, 896, 4864, 14, 2, 151936, 1000000.0, True),
    "qwen2.5-7b": _shape("qwen2", 28, 3584, 18944, 28, 4, 152064, 1000000.0, False),
    "llama-3.2-1b": _shape(
        "llama", 16, 2048, 8192, 32, 8, 128256, 500000.0, True, rope_parameters={**_LLAMA3_SCALING, "factor": 32.0}
    ),
    "llama-3.1-8b": _shape(
        "llama", 32, 4096, 14336, 32, 8, 128256, 500000.0, False, rope_parameters=_LLAMA3_SCALING
    ),
    "tiny": _shape("llama", 2, 64, 128, 4, 2, 320, 10000.0, True),
}
