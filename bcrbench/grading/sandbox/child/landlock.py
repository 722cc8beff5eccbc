"""Landlock: file, TCP and signal rules that a process lays on itself, without privileges (Linux 5.13 on).

What the process level has in place of namespaces: writing in the working folder only, reading what Python needs only,
no TCP (ABI 4), no signals to processes outside (ABI 6), and no tracing of them.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from bcrbench.grading.sandbox.child import kernel

_EXECUTE, _READ_FILE, _READ_DIR, _WRITE_FILE = 1, 4, 8, 2
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_RIGHTS_OF_ABI = {1: 13, 2: 14, 3: 15, 4: 15}  # how many of the file rights each knows; later ones know 16
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15  # truncate and ioctl
_BIND_AND_CONNECT, _SOCKETS_AND_SIGNALS = 3, 3
_RULE_PATH = 1


def version() -> int:
    """Tell the kernel's Landlock ABI; 0 where there is none."""
    try:
        return kernel.syscall(kernel.SYS_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    except OSError:
        return 0


def restrict(readable: Sequence[str], writable: Sequence[str]) -> int:
    """Lay the rules on this process and its children for good; gives the ABI. Raises OSError."""
    abi = version()
    if not abi:
        return 0
    rights = (1 << _RIGHTS_OF_ABI.get(abi, 16)) - 1
    network = _BIND_AND_CONNECT if abi >= 4 else 0
    scoped = _SOCKETS_AND_SIGNALS if abi >= 6 else 0
    sizes = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2}
    attributes = struct.pack("=3Q", rights, network, scoped)[: 8 * sizes.get(abi, 3)]
    rules = kernel.syscall(kernel.SYS_LANDLOCK_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    for path in readable:
        _allow(rules, path, _READ & rights)
    for path in writable:
        _allow(rules, path, rights)
    kernel.syscall(kernel.SYS_LANDLOCK_RESTRICT, rules, 0)
    os.close(rules)
    return abi


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= _ON_FILES
    kernel.syscall(kernel.SYS_LANDLOCK_ADD, rules, _RULE_PATH, struct.pack("=Qi", rights, fd), 0)
    os.close(fd)
