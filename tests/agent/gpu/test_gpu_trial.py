"""The work for GPUs by another Python: here on the processor, since no machine of the tests has a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodeagent.gpu import trial
from nodeagent.gpu.trial import Program, Stopper
from tests.needed import skip_without

TORCH = "/usr/bin/python3"
SMALL = ("--device", "cpu", "--seconds", "0.1", "--size", "128", "--copy-mib", "2")
SOURCE = Path(trial.__file__).with_name("matmul.py")


@pytest.fixture(scope="module")
def _torch() -> None:
    if not Path(TORCH).exists() or subprocess.run([TORCH, "-I", "-c", "import torch"], check=False).returncode:
        skip_without("torch", f"{TORCH} has no PyTorch")


@pytest.mark.usefixtures("_torch")
def test_work_that_is_done_right_is_found_right_and_measured() -> None:
    outcome = Program(TORCH, SMALL).run("GPU-1", Stopper())
    assert outcome is not None
    assert (outcome.is_right, outcome.detail, outcome.how) == (True, "", "matmul")
    assert outcome.tflops is not None
    assert outcome.gb_s is not None
    assert outcome.gb_s > 0


@pytest.mark.usefixtures("_torch")
@pytest.mark.parametrize(
    "spoil",
    [
        "product[size // 2, size // 3] += 1.0",
        # Where two numbers of a vector are the same, two errors in a row cancel out for it.
        "product[size // 2, 3] += 1.0; product[size // 2, 4] -= 1.0",
        "product[size // 2] = float('nan')",
    ],
    ids=["one", "two-that-cancel", "no-numbers"],
)
def test_a_wrong_product_is_found_wrong(spoil: str) -> None:
    assert SOURCE.read_text().count("wanted = a.double()") == 1
    program = Program(TORCH, SMALL)
    program._source = SOURCE.read_text().replace("wanted = a.double()", f"{spoil}; wanted = a.double()")
    outcome = program.run("GPU-1", Stopper())
    assert outcome is not None
    assert (outcome.is_right, outcome.detail) == (False, "a product of matrices is wrong")


@pytest.mark.usefixtures("_torch")
def test_no_number_of_the_vectors_is_zero() -> None:
    look = (
        "import torch; from nodeagent.gpu.matmul import _without_zeros as f;"
        "x = f(torch, (4096, 8), torch.Generator().manual_seed(1)); print(sorted(set(x.flatten().tolist())))"
    )
    root = Path(trial.__file__).parents[2]
    shown = subprocess.run([TORCH, "-c", look], cwd=root, check=True, capture_output=True, text=True).stdout
    assert json.loads(shown) == [float(n) for n in range(-8, 9) if n != 0]


@pytest.mark.usefixtures("_torch")
def test_without_a_gpu_for_pytorch_nothing_is_found_out_and_it_is_not_tried_again_at_once() -> None:
    program = Program(TORCH)
    assert program.run("GPU-1", Stopper()) is None
    assert program._candidates() == []


@pytest.mark.parametrize("python", ["none", "/no/such/python"])
def test_where_there_is_no_python_nothing_is_found_out(python: str) -> None:
    assert Program(python).run("GPU-1", Stopper()) is None


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("import os; os.kill(os.getpid(), 11)", "the work did not come to an end within 60 s, or broke off"),
        ("print('noise'); print('[1]')", "the work did not come to an end within 60 s, or broke off"),
        ('print(\'{"ok": false, "detail": "bad", "tflops": "x"}\')', "bad"),
    ],
)
def test_a_program_that_breaks_off_or_talks_nonsense_has_found_something(source: str, detail: str) -> None:
    program = Program(sys.executable)
    program._source = source
    outcome = program.run("GPU-1", Stopper())
    assert outcome is not None
    assert (outcome.is_right, outcome.detail, outcome.tflops) == (False, detail, None)


def test_a_stop_ends_the_program_at_once() -> None:
    program, stopper = Program(sys.executable), Stopper()
    program._source = "import sys; sys.stdin.read()"
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(program.run("GPU-1", stopper)))
    thread.start()
    stopper.stop()
    thread.join(20)
    assert ended == [None]


def test_the_program_ends_with_who_started_it() -> None:
    words = [sys.executable, "-I", "-c", SOURCE.read_text() + "\n", "--device", "none"]
    hangs = SOURCE.read_text().replace("answer = _answer(options)", "threading.Event().wait(); answer = {}")
    words[3] = hangs
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 1
