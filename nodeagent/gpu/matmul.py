"""Work for one GPU whose result is known: a program of its own, for any Python that has PyTorch.

The agent runs this text as `python -I -c`, with the GPU as the only one that can be seen. It prints one line of JSON:
`{"missing": why}` where the work cannot be done here at all, else `{"ok": true or false, "detail", "tflops", "gb_s"}`.

The factors have small integers, so that the product is exact in 32 bits, also with TF32. It is verified on the
processor by Freivalds' method, which needs no second product: A(Bx) = Cx for a random x. (R. Freivalds, Probabilistic
Machines Can Use Less Running Time, IFIP Congress 1977.) No number of x is zero, so that one wrong number in a row of C
is always found; with eight such x, a row with several is missed once in 16^8 times at most.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any, Dict, Tuple

_MAX_VALUE = 8
_VECTORS = 8
_NO_KERNELS = "no kernel image"


def work(torch: Any, *, device: str, seconds: float, size: int, copy_mib: int) -> Dict[str, Any]:
    """Run products and copies on a device; return whether they were right, and how fast they were."""
    made = torch.Generator().manual_seed(time.time_ns() % (1 << 62))
    a, b = (torch.randint(-_MAX_VALUE, _MAX_VALUE + 1, (size, size), generator=made).float() for _ in range(2))
    x = _without_zeros(torch, (size, _VECTORS), made)
    there_a, there_b = a.to(device), b.to(device)
    if not (torch.equal(there_a.cpu(), a) and torch.equal(there_b.cpu(), b)):
        return {"ok": False, "detail": "what was copied there and back is not the same"}
    torch.backends.cuda.matmul.allow_tf32 = True
    first = torch.mm(there_a, there_b)
    _finish(torch, device)
    count, began, product = 0, time.monotonic(), first
    while time.monotonic() - began < seconds:
        product = torch.mm(there_a, there_b)
        _finish(torch, device)
        count += 1
    tflops = 2.0 * size**3 * count / (time.monotonic() - began) / 1e12
    wanted = a.double() @ (b.double() @ x)
    if not all(torch.equal(one.cpu().double() @ x, wanted) for one in (first, product)):
        return {"ok": False, "detail": "a product of matrices is wrong"}
    source = torch.randint(0, 256, (copy_mib << 20,), generator=made, dtype=torch.uint8)
    there = source.to(device)
    target = there.clone()
    _finish(torch, device)
    copies, began = 0, time.monotonic()
    while time.monotonic() - began < seconds / 4:
        target.copy_(there)
        _finish(torch, device)
        copies += 1
    # Each byte is read and written.
    gb_s = 2.0 * copies * (copy_mib << 20) / (time.monotonic() - began) / 1e9
    if not torch.equal(target.cpu(), source):
        return {"ok": False, "detail": "what was copied within its memory is not the same"}
    return {"ok": True, "detail": "", "tflops": round(tflops, 3), "gb_s": round(gb_s, 3)}


def main() -> None:
    """Do the work and say how it went; end with who started it, and when its time is over."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--copy-mib", type=int, default=256)
    parser.add_argument("--limit", type=int, default=60)
    options = parser.parse_args()
    signal.alarm(options.limit)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    os.nice(19)
    answer = _answer(options)
    print(json.dumps(answer), flush=True)  # noqa: T201 (the answer is what it is for)


def _answer(options: argparse.Namespace) -> Dict[str, Any]:
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        return {"missing": str(error)}
    torch.set_num_threads(1)
    if options.device == "cuda" and not torch.cuda.is_available():
        return {"missing": "its PyTorch finds no GPU"}
    try:
        return work(torch, device=options.device, seconds=options.seconds, size=options.size, copy_mib=options.copy_mib)
    except RuntimeError as error:
        words = str(error).strip().split("\n", 1)[0][:300]
        # A PyTorch that was not built for this kind of GPU says nothing about the GPU.
        return {"missing": words} if _NO_KERNELS in words else {"ok": False, "detail": words}


def _without_zeros(torch: Any, shape: Tuple[int, int], made: Any) -> Any:
    """Numbers of 64 bits, each as likely as the others: 1 to 8 with either sign."""
    sizes = torch.randint(1, _MAX_VALUE + 1, shape, generator=made)
    signs = 2 * torch.randint(0, 2, shape, generator=made) - 1
    return (sizes * signs).double()


def _finish(torch: Any, device: str) -> None:
    """Wait for what was begun."""
    if device == "cuda":
        torch.cuda.synchronize()


def _end_with_starter() -> None:
    """End when the other end of standard input is closed."""
    while sys.stdin.buffer.read(4096):
        continue
    os._exit(1)


if __name__ == "__main__":
    main()
