"""The programs that scripts call, as one: it notes how it was called, then does what its options say.

`python3 -I tools.py NAME RECORD WORDS…` appends a line of JSON to the file RECORD. It needs the standard library alone.
"""

import json
import os
import signal
import sys
import time

NOTED = ("SLURM_", "SLURMD_", "SRUN_", "APP_", "MASTER_")
NOTED_NAMES = {"CUDA_VISIBLE_DEVICES", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "OMP_NUM_THREADS"}


def main(name: str, record: str, words: list[str]) -> int:
    """The exit status that an option asks for, else 0."""
    awaited = [value for key, _, value in (word.partition("=") for word in words) if key == "--await"]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.Signals["SIG" + value.partition(":")[0]] for value in awaited})
    seen = {key: value for key, value in os.environ.items() if key.startswith(NOTED) or key in NOTED_NAMES}
    note(record, {"tool": name, "argv": words, "cwd": os.getcwd(), "time": time.time(), "env": seen})
    if name == "hostname":
        print("127.0.0.1" if words else seen.get("SLURMD_NODENAME", ""))
    if name == "nvidia-smi":
        for index, _ in enumerate(filter(None, seen.get("CUDA_VISIBLE_DEVICES", "").split(","))):
            print(f"GPU {index}: A100")
    for word in words:
        key, _, value = word.partition("=")
        status = act(key, value, seen, record)
        if status:
            return status
    return 0


def act(key: str, value: str, seen: dict[str, str], record: str) -> int:
    """Does what one option says; the exit status with which the program ends then, or 0."""
    if key == "--say":
        print(value, flush=True)
    elif key == "--err":
        print(value, file=sys.stderr, flush=True)
    elif key == "--sleep":
        time.sleep(float(value))
    elif key == "--touch":
        with open(value, "a") as file:
            file.write("x\n")
    elif key == "--read":
        note(record, {"tool": "(reads)", "argv": [sys.stdin.read()], "cwd": "", "time": time.time(), "env": seen})
    elif key == "--await":
        name, _, seconds = value.partition(":")
        came = signal.sigtimedwait({signal.Signals["SIG" + name]}, float(seconds))
        note(record, {"tool": "(signal)", "argv": [name if came else ""], "cwd": "", "time": time.time(), "env": seen})
    elif key == "--exit":
        return int(value)
    elif key == "--die":
        os.kill(os.getpid(), signal.Signals["SIG" + value])
    elif key in {"--exit-at-rank", "--exit-at-index", "--die-at-rank"}:
        place, _, how = value.partition(":")
        if place == seen.get("SLURM_ARRAY_TASK_ID" if key == "--exit-at-index" else "SLURM_PROCID"):
            return act(key.split("-at-", maxsplit=1)[0], how, seen, record)
    return 0


def note(record: str, line: dict[str, object]) -> None:
    """Appends a line at once, so that lines of two programs do not mix."""
    file = os.open(record, os.O_WRONLY | os.O_APPEND)
    os.write(file, (json.dumps(line) + "\n").encode())
    os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
