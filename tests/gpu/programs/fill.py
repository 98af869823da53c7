"""Take the GPU's memory, a GiB at a time, until PyTorch refuses; the error ends the program."""

import torch

taken = []
while True:
    taken.append(torch.empty(1 << 30, dtype=torch.uint8, device="cuda"))
    if len(taken) % 10 == 0:
        print(f"{len(taken)} GiB", flush=True)
