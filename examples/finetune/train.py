"""Fine-tuning on one GPU, or none: a frozen network gets a new head; every epoch is a checkpoint.

A fixed random network stands in for a pretrained model, and points of three overlapping clouds for a data set. The rest
is as in real training: only the head learns, accuracy is measured on held-out points, the best epoch is kept, and a
stopped job resumes with the epoch after the last saved one.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch

try:  # what a node of Muster gives to each job: charts, advice by the loss, and how often to save
    from muster_report import checkpoint as checkpoint_is_timed
    from muster_report import report
except ImportError:
    from contextlib import nullcontext as checkpoint_is_timed

    def report(**_figures):
        """Outside Muster there is nothing to report to."""


EPOCHS = int(os.environ.get("EPOCHS", "12"))
EPOCH_SECONDS = float(os.environ.get("EPOCH_SECONDS", "0"))  # how long an epoch takes at least
CLASSES, FEATURES, WIDTH = 3, 8, 64
TRAINING, VALIDATION, BATCH = 3_000, 1_000, 100


def main():
    """Trains to the last epoch, or until the job is asked to stop; returns the exit status."""
    asked_to_stop = []  # a handler may not take the lock of an event: what it interrupts can hold it
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: asked_to_stop.append(number))
    torch.set_num_threads(int(os.environ.get("MUSTER_CPUS", "1")))
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    print("device:", torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU")
    backbone, head = pretrained().to(device), torch.nn.Linear(WIDTH, CLASSES).to(device)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.003)
    training, validation = points(1, TRAINING, device), points(2, VALIDATION, device)
    state = load() or {"epoch": 0, "best": 0.0, "best_epoch": 0}
    if state["epoch"]:
        head.load_state_dict(state["head"])
        optimizer.load_state_dict(state["optimizer"])
        print(f"resumed after epoch {state['epoch']}, best accuracy {state['best']:.3f}")
    while state["epoch"] < EPOCHS:
        epoch = state["epoch"] + 1
        loss = learn(epoch, backbone, head, optimizer, training)
        found = accuracy(backbone, head, validation)
        if found > state["best"]:
            state.update(best=found, best_epoch=epoch, best_head=copy_of(head))
        state.update(epoch=epoch, head=copy_of(head), optimizer=optimizer.state_dict())
        with checkpoint_is_timed():
            save(state)
        report(step=epoch, loss=loss, total=EPOCHS, accuracy=found)
        print(f"epoch {epoch}/{EPOCHS}  loss {loss:.4f}  accuracy {found:.3f}")
        time.sleep(EPOCH_SECONDS)
        if asked_to_stop and epoch < EPOCHS:
            print(f"stopped after epoch {epoch}")
            return 128 + signal.SIGTERM  # not a success: the work is not done
    print("result:", json.dumps({"accuracy": round(state["best"], 3), "epoch": state["best_epoch"]}))
    return 0


def pretrained():
    """The pretrained network; its weights are frozen."""
    torch.manual_seed(7)
    network = torch.nn.Sequential(torch.nn.Linear(FEATURES, WIDTH), torch.nn.ReLU())
    return network.requires_grad_(False)


def points(seed, count, device):
    """Points around three centres, and which centre each belongs to."""
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(3)) * 1.2
    source = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=source)
    inputs = centres[labels] + torch.randn(count, FEATURES, generator=source)
    return inputs.to(device), labels.to(device)


def learn(epoch, backbone, head, optimizer, data):
    """One pass over the data, in an order that follows from the epoch; the mean loss."""
    inputs, labels = data
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch)).to(labels.device)
    total = 0.0
    for rows in order.split(BATCH):
        loss = torch.nn.functional.cross_entropy(head(backbone(inputs[rows])), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows)
    return total / len(labels)


def accuracy(backbone, head, data):
    """The share of points that are told right."""
    inputs, labels = data
    with torch.no_grad():
        return (head(backbone(inputs)).argmax(1) == labels).float().mean().item()


def copy_of(head):
    """The weights as they are now."""
    return {name: weights.detach().clone() for name, weights in head.state_dict().items()}


def checkpoint():
    """The file of this job, the same for all its attempts; None without a folder for checkpoints."""
    folder = os.environ.get("CHECKPOINTS")
    return Path(folder) / "finetune-{}.pt".format(os.environ.get("MUSTER_JOB_ID", "0")) if folder else None


def save(state):
    """Writes the checkpoint, whole or not at all."""
    path = checkpoint()
    if path is not None:
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)


def load():
    """The state that the attempt before has saved; None if this is the first, or checkpoints go nowhere."""
    path = checkpoint()
    return torch.load(path, map_location="cpu") if path is not None and path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
