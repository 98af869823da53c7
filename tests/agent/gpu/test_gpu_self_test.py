"""The GPU self-test, here on the CPU: the machines that run the tests have no GPU."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodeagent.gpu import self_test
from nodeagent.gpu.self_test import SelfTest, Stopper
from tests.needed import skip_without

TORCH = "/usr/bin/python3"
SMALL = ("--device", "cpu", "--seconds", "0.1", "--size", "128", "--copy-mib", "2")
SOURCE = Path(self_test.__file__).with_name("matmul.py")


@pytest.fixture(scope="module")
def _torch() -> None:
    if not Path(TORCH).exists() or subprocess.run([TORCH, "-I", "-c", "import torch"], check=False).returncode:
        skip_without("torch", f"{TORCH} has no PyTorch")


@pytest.mark.usefixtures("_torch")
def test_a_right_result_passes_and_is_measured() -> None:
    outcome = SelfTest(TORCH, SMALL).run("GPU-1", Stopper())
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
def test_a_wrong_product_fails(spoil: str) -> None:
    assert SOURCE.read_text().count("wanted = a.double()") == 1
    test = SelfTest(TORCH, SMALL)
    test._source = SOURCE.read_text().replace("wanted = a.double()", f"{spoil}; wanted = a.double()")
    outcome = test.run("GPU-1", Stopper())
    assert outcome is not None
    assert (outcome.is_right, outcome.detail) == (False, "a product of matrices is wrong")


@pytest.mark.usefixtures("_torch")
def test_no_number_of_the_vectors_is_zero() -> None:
    look = (
        "import torch; from nodeagent.gpu.matmul import _without_zeros as f;"
        "x = f(torch, (4096, 8), torch.Generator().manual_seed(1)); print(sorted(set(x.flatten().tolist())))"
    )
    root = Path(self_test.__file__).parents[2]
    shown = subprocess.run([TORCH, "-c", look], cwd=root, check=True, capture_output=True, text=True).stdout
    assert json.loads(shown) == [float(n) for n in range(-8, 9) if n != 0]


@pytest.mark.usefixtures("_torch")
def test_a_python_without_cuda_is_skipped_for_a_while() -> None:
    test = SelfTest(TORCH)
    assert test.run("GPU-1", Stopper()) is None
    assert test._candidates() == []


@pytest.mark.parametrize("python", ["none", "/no/such/python"])
def test_without_a_python_there_is_no_self_test(python: str) -> None:
    assert SelfTest(python).run("GPU-1", Stopper()) is None


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("import os; os.kill(os.getpid(), 11)", "the self-test crashed or did not finish within 60 s"),
        ("print('noise'); print('[1]')", "the self-test crashed or did not finish within 60 s"),
        ('print(\'{"ok": false, "detail": "bad", "tflops": "x"}\')', "bad"),
    ],
)
def test_a_program_that_crashes_or_prints_nonsense_fails_the_test(source: str, detail: str) -> None:
    test = SelfTest(sys.executable)
    test._source = source
    outcome = test.run("GPU-1", Stopper())
    assert outcome is not None
    assert (outcome.is_right, outcome.detail, outcome.tflops) == (False, detail, None)


def test_a_stop_ends_the_program_at_once() -> None:
    test, stopper = SelfTest(sys.executable), Stopper()
    test._source = "import sys; sys.stdin.read()"
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(test.run("GPU-1", stopper)))
    thread.start()
    stopper.stop()
    thread.join(20)
    assert ended == [None]


def test_the_program_ends_with_the_process_that_started_it() -> None:
    words = [sys.executable, "-I", "-c", SOURCE.read_text() + "\n", "--device", "none"]
    hangs = SOURCE.read_text().replace("answer = _answer(options)", "threading.Event().wait(); answer = {}")
    words[3] = hangs
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 1
