"""A file system, network and process table of the child's own, from mount, network, IPC and PID namespaces.

Needs CAP_SYS_ADMIN (root, in most places) or unprivileged user namespaces. The new root holds Python, the system's
libraries and four devices, all read-only, and one writable folder in memory; /proc, /home, /tmp and the rest do not
exist in it.
"""

from __future__ import annotations

import os

from bcrbench.grading.sandbox.child import kernel
from bcrbench.grading.sandbox.child.setup import BOX, Setup

_DEVICES = ("null", "zero", "full", "random", "urandom")
_KINDS = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS


def enter(setup: Setup) -> None:
    """Leave the machine's namespaces; the next child is the first process of a new table. Raises OSError."""
    if setup.uid >= 0:
        kernel.call("unshare", _KINDS)
        return
    uid, gid = os.getuid(), os.getgid()
    kernel.call("unshare", _KINDS | kernel.CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def build_root(setup: Setup) -> None:
    """Mount the new root over the (empty) folder and move into it. Raises OSError."""
    root = setup.folder
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, "mode=0755,size=1m")
    for path in setup.visible:
        _show(path, root)
    for name in _DEVICES:
        _bind_file(f"/dev/{name}", f"{root}/dev/{name}")
    _make_box(setup, root + BOX)
    kernel.mount(None, root, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | kernel.MS_NOSUID)
    os.chdir(root)
    kernel.call("pivot_root", b".", b".")
    kernel.call("umount2", b".", kernel.MNT_DETACH)
    os.chdir(BOX)


def _show(path: str, root: str) -> None:
    inside = root + path
    os.makedirs(os.path.dirname(inside), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), inside)
    elif os.path.isdir(path):
        os.makedirs(inside, exist_ok=True)
        kernel.mount(path, inside, None, kernel.MS_BIND | kernel.MS_REC)
        kernel.make_read_only(inside)
    else:
        _bind_file(path, inside)
        kernel.make_read_only(inside)


def _bind_file(path: str, inside: str) -> None:
    os.makedirs(os.path.dirname(inside), exist_ok=True)
    with open(inside, "w"):
        pass
    kernel.mount(path, inside, None, kernel.MS_BIND)


def _make_box(setup: Setup, box: str) -> None:
    os.mkdir(box)
    owner = os.getuid() if setup.uid < 0 else setup.uid
    group = os.getgid() if setup.uid < 0 else setup.uid
    options = f"mode=0700,uid={owner},gid={group},size={setup.file_mb}m,nr_inodes=4096"
    kernel.mount("tmpfs", box, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, options)
