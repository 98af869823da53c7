"""Data-parallel training with PyTorch: on any number of nodes and GPUs, stopped and resumed without a trace.

`torchrun train.py` starts a process for each GPU. When the job is asked to stop, all ranks agree on the step after
which they do, and rank 0 saves the checkpoint; the next attempt goes on with the step after it, wherever it runs. The
losses are the same, to the last bit, as those of a run that was not stopped.

The batch of a step is the same on any number of GPUs, and its samples are divided among them. So a run that is resized
takes the same steps; its losses differ from those of a run of one size by rounding.
"""

import os
import signal
import sys
import time
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "200"))
STEP_SECONDS = float(os.environ.get("STEP_SECONDS", "0"))  # how long a step takes at least: a toy is too quick to watch
SAVE_EVERY = 50
SAY_EVERY = max(1, STEPS // 20)
FEATURES, HIDDEN = 16, 64
BATCH = 128  # samples of a step on all GPUs together


def main():
    """Trains to the last step, or until the job is asked to stop; returns the exit status."""
    asked_to_stop = []  # a handler may not take the lock of an event: what it interrupts can hold it
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: asked_to_stop.append(number))
    torch.set_num_threads(int(os.environ.get("MUSTER_CPUS", "1")))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    place = "{} on {}".format(os.environ.get("MUSTER_NODE", "this machine"), device)
    meeting = "{MASTER_ADDR}:{MASTER_PORT}".format(**os.environ)
    print(f"rank {rank} of {size}: {place}, met the others at {meeting} over {dist.get_backend()}")

    torch.manual_seed(1)
    teacher = perceptron().to(device)
    student = perceptron().to(device)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
    step = load(student, optimizer)
    model = DistributedDataParallel(student)
    if rank == 0:
        print(f"begins at step {step}" if step == 0 else f"resumed after step {step}")
    while step < STEPS:
        if any_rank(bool(asked_to_stop), device):
            save(step, student, optimizer)
            print(f"rank {rank}: stopped after step {step}")
            return 128 + signal.SIGTERM  # not a success: the work is not done
        step += 1
        inputs = batch(step)[rank::size].to(device)
        loss = torch.nn.functional.mse_loss(model(inputs), teacher(inputs).detach(), reduction="sum")
        loss = loss * size / BATCH  # gradients are averaged over the ranks, which may have unequal numbers of samples
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tell(step)
        if step % SAY_EVERY == 0 or step == STEPS:
            mean = mean_of(loss)
            if rank == 0:
                print(f"step {step}/{STEPS}  loss {mean!r}")
        if step % SAVE_EVERY == 0:
            save(step, student, optimizer)
        time.sleep(STEP_SECONDS)
    print(f"rank {rank}: done at step {step}, weights {checksum(student)}")
    dist.barrier()  # no rank leaves before all have finished
    return 0


def perceptron():
    """A small network."""
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))


def batch(step):
    """The samples of one step. They follow from the step, so a run that resumes sees no sample twice."""
    source = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, FEATURES, generator=source)


def any_rank(flag, device):
    """True if the flag is up on any rank: signals do not arrive everywhere between the same two steps."""
    flags = torch.tensor([float(flag)], device=device)
    dist.all_reduce(flags)
    return flags.item() > 0


def mean_of(value):
    """The mean over all ranks."""
    total = value.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def checkpoint():
    """The file of this job, the same for all its attempts; None without a folder for checkpoints."""
    folder = os.environ.get("CHECKPOINTS")
    return Path(folder) / "torch-ddp-{}.pt".format(os.environ.get("MUSTER_JOB_ID", "0")) if folder else None


def save(step, model, optimizer):
    """Rank 0 writes the state atomically; all ranks wait until it is there."""
    path = checkpoint()
    if dist.get_rank() == 0 and path is not None:
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        print(f"saved step {step} to {path}")
    dist.barrier()


def load(model, optimizer):
    """The step of the checkpoint, whose state goes into model and optimizer; 0 without one.

    Rank 0 alone reads it and passes it on: two nodes may see two ages of a file on a shared disk.
    """
    path = checkpoint()
    found = [torch.load(path, map_location="cpu") if dist.get_rank() == 0 and path and path.exists() else None]
    dist.broadcast_object_list(found, src=0)
    if found[0] is None:
        return 0
    model.load_state_dict(found[0]["model"])
    optimizer.load_state_dict(found[0]["optimizer"])
    return found[0]["step"]


def tell(step):
    """Says how far this node is, where the platform wants to know."""
    path = os.environ.get("MUSTER_PROGRESS")
    if path and os.environ["LOCAL_RANK"] == "0":
        with open(path, "a") as file:
            file.write(f"{step}\n")


def checksum(model):
    """A short name for all weights, to the last bit."""
    return "%08x" % zlib.crc32(repr([weights.tolist() for weights in model.parameters()]).encode())


if __name__ == "__main__":
    status = main()
    # Without taking PyTorch down: before 2.0 that may wait for ever for a thread of gloo's, which waits for the
    # interpreter's lock that is held meanwhile. All that is to be kept has been written.
    sys.stdout.flush()
    os._exit(status)
