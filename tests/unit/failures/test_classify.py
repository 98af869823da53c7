"""The root cause wins over its symptoms, what ended the job over what it survived, and facts over lines."""

from __future__ import annotations

import pytest

from scheduler.diagnosis.failures import Category, GpuEvent, Retry, Tail, classify

OOM = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
FRAMES = ("Traceback (most recent call last):", '  File "train.py", line 9, in main', "    model(batch)")
TRACE = "\n".join(FRAMES) + "\n"
STEPS = "\n".join(f"step {step}: loss 1.{step} lr 1e-4" for step in range(20)) + "\n"
WATCHDOG = "[E ProcessGroupNCCL.cpp:475] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"
SUMMARY = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "  exitcode  : -6 (pid: 77)",
    "  Signal 6 (SIGABRT) received by PID 77",
)
FULL = "OSError: [Errno 28] No space left on device"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'x'"
HANDLING = "During handling of the above exception, another exception occurred:"

# A sentence: the lines of a log, and last the class.
CASES = {
    "a cause comes before the time-outs of the others": (*FRAMES, OOM, WATCHDOG, *SUMMARY, "gpu_out_of_memory"),
    "a cause that is printed late comes before symptoms": (WATCHDOG, *SUMMARY, *FRAMES, OOM, "gpu_out_of_memory"),
    "a time-out is the answer if there is nothing else": (WATCHDOG, *SUMMARY, "nccl_timeout"),
    "the signal that siblings get is no cause": (
        "WARNING Sending process 7 closing signal SIGTERM",
        *(*FRAMES, "KeyError: 'labels'", "semantic_error"),
    ),
    "the end of a loader's worker is no cause": (
        "oom-kill:constraint=CONSTRAINT_MEMCG,task=python",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
        "cpu_out_of_memory",
    ),
    "a download that was tried again is no cause": (
        "WARNING urllib3: Retrying after connection broken by NewConnectionError: Connection refused",
        *(*FRAMES, "TypeError: 'int' object is not iterable", "semantic_error"),
    ),
    "an error that the job survived is no cause": (*FRAMES, FULL, STEPS, *FRAMES, OOM, "gpu_out_of_memory"),
    "nor is what came after the end": (
        *("ERROR upload failed: Connection refused", STEPS, *FRAMES, "ValueError: bad shape"),
        *("wandb: WARNING Connection reset by peer", "semantic_error"),
    ),
    "of chained exceptions the first is the cause": (
        *(*FRAMES, FULL, "", HANDLING, "", *FRAMES),
        "RuntimeError: [enforce fail at inline_container.cc:337] . unexpected pos 64 vs 0",
        "disk_full",
    ),
    "a word in a frame's source is no cause": (
        "Traceback (most recent call last):",
        *('  File "a.py", line 7, in f', '    raise ConnectionError("Connection refused")'),
        *('  File "segfault.py", line 8, in g', '    x["No space left on device"]'),
        *("IndexError: list index out of range", "semantic_error"),
    ),
    "the source in a boxed traceback is no cause": (
        *("╭──── Traceback (most recent call last) ────╮", "│ train.py:9 in main                        │"),
        "│ ❱ 9 │ │ raise ConnectionError('Connection refused')  │",
        *("╰───────────────────────────────────────────╯", "KeyError: 'labels'", "semantic_error"),
    ),
    "the source in a notebook's traceback is no cause": (
        *("<ipython-input-7> in main()", "----> 9     raise ConnectionError('Connection refused')"),
        *("", "KeyError: 'labels'", "semantic_error"),
    ),
    "an exception without source lines is found": (
        *("Traceback (most recent call last):", '  File "a.py", line 7, in f'),
        *("ModuleNotFoundError: No module named 'apex'", "import_error"),
    ),
    "MPI's summary is no cause": (
        *(*FRAMES, MISSING, "mpirun detected that one or more processes exited with non-zero status"),
        "file_not_found",
    ),
    "MPI's summary is the answer if there is nothing else": ("MPI_ABORT was invoked on rank 3", "mpi_error"),
    "a crash comes before the abort that follows": ("Segmentation fault (core dumped)", "Aborted", "segfault"),
    "torch's advice below each CUDA error is no cause": (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
        "gpu_ecc_error",
    ),
    "a full disk of shared memory is no full disk": (
        "RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)",
        "shm_bus_error",
    ),
    "a missing library is no missing file": (
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "missing_shared_library",
    ),
    "a warning is the answer if there is nothing else": ("WARNING: Address already in use", "port_in_use"),
    "ordinary output says nothing": (STEPS, "no_signature"),
    "nothing says nothing": ("", "no_signature"),
}


@pytest.mark.parametrize("case", CASES)
def test_one_log(case: str) -> None:
    *log, expected = CASES[case]
    verdict = classify([Tail("\n".join(log).encode())])
    assert verdict.failure == expected, verdict


def test_the_verdict_names_line_number_and_rank() -> None:
    verdict = classify([Tail(f"{STEPS}{TRACE}{OOM}\nbye\n".encode(), rank=3)])
    assert (verdict.line, verdict.line_number, verdict.rank) == (OOM, 24, 3)
    assert (verdict.category, verdict.retry) == (Category.USER, Retry.NO)


def test_lines_are_numbered_by_line_ends_only() -> None:
    log = '10%\r20%\r30%\n{"log": "one\\ntwo"}\r\n' + OOM
    assert classify([Tail(log.encode())]).line_number == 3


def test_a_crash_of_one_rank_comes_before_the_complaints_of_the_others() -> None:
    tails = [Tail(WATCHDOG.encode(), rank=rank) for rank in range(3)]
    tails.insert(1, Tail(f"{TRACE}{OOM}".encode(), rank=7))
    verdict = classify(tails)
    assert (verdict.failure, verdict.rank) == ("gpu_out_of_memory", 7)


def test_of_two_causes_the_earlier_one_counts() -> None:
    first = Tail(f"{TRACE}KeyError: 'x'".encode(), rank=1, ended_at_s=10.0)
    second = Tail(f"{TRACE}{OOM}".encode(), rank=0, ended_at_s=20.0)
    assert classify([second, first]).rank == 1
    # What came before the rank's end is told by the marks of its log.
    marked = Tail(f"{OOM}\n{STEPS[:8]}".encode(), rank=0, ended_at_s=20.0, marks=[(0, 5.0), (len(OOM) + 1, 19.0)])
    assert classify([marked, first]).rank == 0


@pytest.mark.parametrize(
    ("status", "expected"),
    [(139, "segfault"), (-11, "segfault"), (134, "core_dump"), (135, "shm_bus_error"), (137, "killed_by_signal"),
     (143, "killed_by_signal"), (127, "file_not_found"), (126, "permission_denied"), (1, "no_signature"),
     (255, "no_signature"), (None, "no_signature")],
)  # fmt: skip
def test_an_exit_status_is_the_answer_only_where_the_log_says_nothing(status: int | None, expected: str) -> None:
    assert classify([Tail(b"hello\n")], status=status).failure == expected
    assert classify([Tail(OOM.encode())], status=status).failure == "gpu_out_of_memory"


def test_a_crash_without_words_comes_before_the_time_outs_of_others() -> None:
    crashed = Tail(b"", rank=2, status=139, ended_at_s=1.0)
    waited = Tail(WATCHDOG.encode(), rank=0, status=134, ended_at_s=600.0)
    assert classify([waited, crashed]).failure == "segfault"


def test_a_kill_is_the_jobs_own_memory_only_if_its_group_says_so() -> None:
    killed = Tail(b"step 7 loss 1\nKilled\n")
    assert classify([killed], status=137).failure == "killed_by_signal"
    verdict = classify([killed], status=137, platform=["out_of_memory"])
    assert (verdict.failure, verdict.retry) == ("cpu_out_of_memory", Retry.NO)
    assert classify([killed], signal=9, platform=["out_of_memory"]).failure == "cpu_out_of_memory"


def test_a_child_that_ran_out_of_memory_explains_a_loader_but_not_a_missing_file() -> None:
    loader = Tail(b"RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly")
    assert classify([loader], status=1, platform=["out_of_memory"]).failure == "cpu_out_of_memory"
    missing = Tail(b"FileNotFoundError: [Errno 2] No such file or directory: 'x'")
    assert classify([missing], status=1, platform=["out_of_memory"]).failure == "file_not_found"


@pytest.mark.parametrize(
    ("word", "expected", "retry"),
    [("preempted", "preempted", "yes"), ("node_lost", "node_lost", "yes"), ("time_limit", "time_limit", "no"),
     ("image_not_found", "image_pull_failure", "no"), ("image_unreachable", "image_pull_failure", "yes"),
     ("image_no_space", "disk_full", "elsewhere"), ("evicted", "pod_evicted", "yes")],
)  # fmt: skip
def test_what_the_platform_did_is_the_answer(word: str, expected: str, retry: str) -> None:
    verdict = classify([Tail(OOM.encode())], status=137, platform=[word])
    assert (verdict.failure, verdict.retry) == (expected, retry)


def test_unknown_words_of_the_platform_are_ignored() -> None:
    assert classify([Tail(OOM.encode())], platform=["exit_nonzero"]).failure == "gpu_out_of_memory"


@pytest.mark.parametrize(
    ("xid", "expected"),
    [(48, "gpu_ecc_error"), (95, "gpu_ecc_error"), (79, "gpu_lost"), (119, "gpu_lost"), (120, "gpu_lost"),
     (74, "nvlink_error"), (149, "nvlink_error"), (94, "gpu_ecc_error")],
)  # fmt: skip
def test_a_broken_gpu_is_the_answer_whatever_the_log_says(xid: int, expected: str) -> None:
    log = Tail(b"RuntimeError: CUDA error: an illegal memory access was encountered")
    assert classify([log], gpus=[GpuEvent(xid=43), GpuEvent(xid=xid)]).failure == expected


@pytest.mark.parametrize("xid", [43, 45, 63, 92, 154, 9999])
def test_an_xid_that_says_nothing_by_itself_changes_nothing(xid: int) -> None:
    assert classify([Tail(OOM.encode())], gpus=[GpuEvent(xid=xid)]).failure == "gpu_out_of_memory"
    assert classify([Tail(b"")], gpus=[GpuEvent(xid=xid)]).failure == "no_signature"


def test_an_applications_xid_is_a_clue() -> None:
    assert classify([Tail(WATCHDOG.encode())], gpus=[GpuEvent(xid=31)]).failure == "cuda_illegal_memory_access"
    assert classify([Tail(OOM.encode())], gpus=[GpuEvent(xid=31)]).failure == "gpu_out_of_memory"


def test_a_gpu_that_left_the_bus_without_an_xid_is_lost() -> None:
    event = GpuEvent(message="NVRM: GPU at PCI:0000:3b:00: GPU has fallen off the bus.")
    verdict = classify([Tail(OOM.encode())], gpus=[event])
    assert (verdict.failure, verdict.retry) == ("gpu_lost", Retry.ELSEWHERE)
    assert "fallen off the bus" in verdict.line


def test_the_same_evidence_gives_the_same_verdict() -> None:
    tails = [Tail(f"{TRACE}{OOM}\n{WATCHDOG}".encode(), rank=rank) for rank in range(4)]
    assert len({classify(tails) for _ in range(5)}) == 1
