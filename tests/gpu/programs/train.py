"""Fit a small network on the GPU for some seconds; print the device, the losses, and the time of a step."""

import sys
import time

import torch

seconds = float(sys.argv[1])
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
name = torch.cuda.get_device_name(0) if device.type == "cuda" else "the processor"
print(f"sees {torch.cuda.device_count()} GPUs, trains on {name}, PyTorch {torch.__version__}", flush=True)
torch.manual_seed(1)
width = 4096 if device.type == "cuda" else 64
teacher = torch.nn.Linear(width, 16).to(device)
model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 16)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
began, steps, said_s, loss = time.monotonic(), 0, -1.0, torch.zeros(())
while time.monotonic() - began < seconds:
    inputs = torch.randn(256, width, device=device)
    loss = torch.nn.functional.mse_loss(model(inputs), teacher(inputs).detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    steps += 1
    if time.monotonic() - began >= said_s + 0.5:
        said_s = time.monotonic() - began
        print(f"step {steps}  loss {loss.item():.6f}", flush=True)
print(f"step {steps}  loss {loss.item():.6f}", flush=True)
print(f"{1000 * (time.monotonic() - began) / steps:.3f} ms a step", flush=True)
