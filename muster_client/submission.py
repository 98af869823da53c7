"""Brings the spec of a job, a sweep or an array from a file to the server, with the code folder that it names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from muster_client.calls.transport import new_idempotency_key
from muster_client.client import Client
from muster_client.errors import MusterError, SpecError, UnreachableError, UsageError
from muster_client.follow import exit_status_of, follow_to_the_end, tell_that_it_goes_on, warn_of
from muster_client.local.pack import Archive, pack_folder
from muster_client.local.spec import MAX_SPEC_BYTES, apply_sets, load_spec, read_spec
from muster_client.local.terminal import clean
from muster_client.show.output import Output

if TYPE_CHECKING:
    from muster_client.answers.arrays import Array, SubmittedArray
    from muster_client.answers.jobs import SubmittedJob
    from muster_client.answers.sweeps import SubmittedSweep, Sweep
    from muster_client.answers.terms import JobSpec


def read_spec_argument(argument: str, sets: list[str] | None) -> tuple[JobSpec, Path]:
    """Return the spec with `--set` applied, and the folder that its relative paths begin at."""
    if argument == "-":
        data = sys.stdin.buffer.read(MAX_SPEC_BYTES + 1)
        try:
            spec = load_spec(data.decode(), name="standard input")
        except UnicodeDecodeError as error:
            raise SpecError("standard input is not text in UTF-8.") from error
        base = Path.cwd()
    else:
        path = Path(argument)
        spec, base = read_spec(path), path.resolve().parent
    return apply_sets(spec, sets or []), base


def submit(client: Client, output: Output, spec: JobSpec, base: Path, *, key: str | None, follow: bool) -> int:
    """Send the code and the job, the sweep or the array; return the exit status."""
    kind = next((kind for kind in ("array", "sweep") if kind in spec), None)
    if kind is not None:
        if follow:
            many = f"{'an' if kind == 'array' else 'a'} {kind} has many"
            raise UsageError(f"--follow prints the output of one job, and {many}. Submit it without --follow.")
        group = send_group(client, output, kind, with_uploaded_code(client, output, spec, base), key=key)
        warn_of(output, group)
        output.answer(group, submitted_line(kind, group))
        return 0
    job = send(client, output, with_uploaded_code(client, output, spec, base), key=key)
    warn_of(output, job)
    if not follow:
        output.answer(job, f"Submitted job {job['id']} ({clean(job['name'])}), {job['state']} in {clean(job['vc'])}.")
        return 0
    if output.as_json:
        output.line({"event": "submitted", "job": job})
    output.note(f"Submitted job {job['id']} ({job['name']}), {job['state']} in {job['vc']}.")
    try:
        ended = follow_to_the_end(client, output, job)
    except KeyboardInterrupt:
        tell_that_it_goes_on(output, job["id"])
        raise
    except MusterError:
        output.warn(f"job {job['id']} was submitted; only the watching failed.")
        raise
    if output.as_json:
        output.line({"event": "finished", "job": ended})
    return exit_status_of(ended)


def send_group(
    client: Client, output: Output, kind: str, spec: JobSpec, *, key: str | None
) -> SubmittedArray | SubmittedSweep:
    """Return the stored array or sweep; when the answer is lost for good, tell the key that makes a new try safe."""
    submit = client.submit_array if kind == "array" else client.submit_sweep
    with _telling_the_key(output, kind, key) as sent:
        return submit(spec, idempotency_key=sent)


def submitted_line(kind: str, group: Array | Sweep) -> str:
    """Return what to tell of a sweep or an array that was just stored."""
    members = group["members"]["total"]
    count = "1 member" if members == 1 else f"{members} members"
    where = f"in {clean(group['vc'])}: muster {kind} show {group['id']}"
    return f"Submitted {kind} {group['id']} ({clean(group['name'])}) with {count} {where}"


def send(client: Client, output: Output, spec: JobSpec, *, key: str | None) -> SubmittedJob:
    """Return the stored job; when the answer is lost for good, tell the key that makes a new try safe."""
    with _telling_the_key(output, "job", key) as sent:
        return client.submit(spec, idempotency_key=sent)


@contextmanager
def _telling_the_key(output: Output, what: str, key: str | None) -> Iterator[str]:
    key = key or new_idempotency_key()
    try:
        yield key
    except (KeyboardInterrupt, UnreachableError):
        output.warn(f"the {what} may have been stored. Submitting it again with --idempotency-key {key} is safe.")
        raise


def with_uploaded_code(client: Client, output: Output, spec: JobSpec, base: Path) -> JobSpec:
    """Return the spec with its code folder stored on the server and named by its digest."""
    with _packed(output, spec, base) as archive:
        if archive is None:
            return spec
        _upload(client, output, archive)
        return {**spec, "code": {"upload": archive.sha256}}


def uploaded_folder(client: Client, output: Output, folder: Path) -> str:
    """Return the digest by which the server knows the folder, now that it is stored there."""
    with _packed_folder(output, folder) as archive:
        _upload(client, output, archive)
        return archive.sha256


def _upload(client: Client, output: Output, archive: Archive) -> None:
    if not client.knows_upload(archive.sha256):
        with output.progress("Sending the code", archive.size) as progress:
            task = progress.task_ids[0]
            client.upload(archive, sent=lambda done: progress.update(task, completed=done))


def for_dry_run(client: Client, output: Output, spec: JobSpec, base: Path) -> JobSpec:
    """Return the spec as it can be asked about: the folder is packed to see that it can be, and not sent."""
    with _packed(output, spec, base) as archive:
        if archive is None:
            return spec
        without = {key: value for key, value in spec.items() if key != "code"}
        if client.knows_upload(archive.sha256):
            return {**without, "code": {"upload": archive.sha256}}
        return without


@contextmanager
def _packed(output: Output, spec: JobSpec, base: Path) -> Iterator[Archive | None]:
    code = spec.get("code")
    if not isinstance(code, str):
        yield None
        return
    if "://" in code or code.startswith("git@"):
        raise SpecError(
            f"code: {clean(code)} - code from a git repository is not supported yet; clone it and write its folder."
        )
    with _packed_folder(output, base / Path(code).expanduser()) as archive:
        yield archive


@contextmanager
def _packed_folder(output: Output, folder: Path) -> Iterator[Archive]:
    with output.busy("Packing the code"):
        archive = pack_folder(folder)
    with archive:
        output.note(f"Packed {folder.resolve()}: {archive.entries} files and folders, {archive.size / 1024:.1f} KiB.")
        yield archive
