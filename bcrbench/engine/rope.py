"""Moving cached keys to other positions (paper section 3, re-rotation).

Keys are stored after the rotary embedding. Because rotations compose, a key computed at position p becomes the key
at p + delta by one more rotation with the model's own inverse frequencies. The attention scaling that some rope
types multiply into cos and sin is in the stored keys already, so it is left out here.
"""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(keys: Tensor, delta: int, inv_freq: Tensor) -> Tensor:
    """Rotate keys [..., head_dim] by `delta` positions (negative moves back); float32 inside, cast once.

    `inv_freq` is [head_dim / 2], radians per position. Returns a new tensor of the keys' dtype and shape, or the
    keys themselves when delta is 0.
    """
    if delta == 0:
        return keys
    angle = inv_freq.float() * delta
    cos = torch.cos(angle)
    sin = torch.sin(angle)
    half = keys.shape[-1] // 2
    low, high = keys[..., :half].float(), keys[..., half:].float()
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1).to(keys.dtype)
