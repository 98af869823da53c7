"""Putting the agent together: from options to running threads, and down again."""

from __future__ import annotations

import logging
import queue
import signal
import threading
from dataclasses import dataclass, field
from typing import Optional, Tuple

from nodeagent import __version__
from nodeagent.disk.watch import Disks, DiskWatch
from nodeagent.disk.watch import Options as DiskOptions
from nodeagent.gpu.choose import open_gpus
from nodeagent.gpu.port import GpuDriver
from nodeagent.gpu.self_test import SelfTest
from nodeagent.launch.ends import Ends
from nodeagent.launch.launcher import Launcher
from nodeagent.loop.loop import Loop, quit_for
from nodeagent.protocol.messages import AllocationReport, Inventory, Timers
from nodeagent.runtime.choose import RuntimeOptions, open_runtime
from nodeagent.runtime.port import Runtime
from nodeagent.runtime.shim.commands import Platform
from nodeagent.ship.outputs import OutputStream
from nodeagent.ship.shipper import LogShipper, Shipper
from nodeagent.state.identity import Identity
from nodeagent.state.inbox import Happened, LogDone, Message, OutputsDone, Quit
from nodeagent.state.journal import Journal
from nodeagent.sync.agent import Agent
from nodeagent.sync.lifeline import Beats, Exchange, Polls, Reporter
from nodeagent.sync.outbox import Outbox
from nodeagent.sync.session import register
from nodeagent.system.signals import call_on_signals
from nodeagent.system.workpool import WorkPool
from nodeagent.transport.client import Client
from nodeagent.transport.linked import Linked
from nodeagent.transport.transport import Dialled, Transport
from nodeagent.watch import inventory
from nodeagent.watch.checks import Checks, RunSelfTest, no_self_test
from nodeagent.watch.runtime import RuntimeWatch
from nodeagent.watch.sampler import Sampler

_log = logging.getLogger("nodeagent")

_LAUNCH_THREADS = 4
_FETCH_THREADS = 16
_END_THREADS = 2
_LOG_THREADS = 3
_OUTPUT_THREADS = 2
_FINISH_S = 2.0


@dataclass(frozen=True)
class Options:
    """The agent's options, from the command line and the environment."""

    url: str
    """Empty for an agent that waits for links instead of dialling."""
    state: str
    join_token: str = ""
    gpus: str = "auto"
    gpu_profiles: str = ""
    """The folder with the speeds of emulated GPUs."""
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    address: str = ""
    hostname: str = ""
    ca_file: Optional[str] = None
    check_python: str = "auto"
    """The Python whose PyTorch gives GPUs work between jobs: its path, `auto` or `none`."""
    disks: DiskOptions = field(default_factory=DiskOptions)
    runtime: RuntimeOptions = field(default_factory=RuntimeOptions)


def look_around(
    options: Options, identity: Identity, gpus: GpuDriver, runtime: Runtime, transport: Transport
) -> Inventory:
    """The inventory that the node finds by itself; its address is the one from which it calls the platform."""
    return inventory.look(
        gpus=gpus,
        runtime=runtime,
        state=identity.state,
        address=options.address or transport.local_address(),
        hostname=options.hostname,
        cpus=options.cpus,
        memory_mib=options.memory_mib,
    )


def run(options: Options) -> int:
    """Be the agent until something ends it, and return the exit status. Jobs go on in every case."""
    inbox: "queue.SimpleQueue[Message]" = queue.SimpleQueue()
    stopping = threading.Event()

    def end(number: int) -> None:
        stopping.set()
        inbox.put(Quit(0, "asked to end by signal {}".format(number)))

    call_on_signals((signal.SIGTERM, signal.SIGINT), end)

    dialled = Dialled(options.url, options.ca_file) if options.url else None
    identity = Identity(options.state)
    gpus = open_gpus(options.gpus, identity.name, identity.path("emulated-faults"), options.gpu_profiles)
    runtime = open_runtime(
        options.runtime,
        state=identity.state,
        identity=identity.name,
        emulated_gpus=gpus.name == "emulated",
        furnish=gpus.furnish,
        platform=Platform(options.url, options.ca_file or ""),
        listener=lambda allocation_id, kind: inbox.put(Happened(allocation_id, kind)),
    )
    journal = Journal(identity.path("journal"))
    # Links are taken only now: that the socket is there says that the agent could start.
    transport = dialled or Linked(identity.state, stopping)
    client = Client(transport)
    try:
        found = look_around(options, identity, gpus, runtime, transport)
        session = register(
            client, identity, found, version=__version__, join_token=options.join_token, stopping=stopping
        )
        if session is None:
            return 0
        RuntimeWatch(runtime, post=inbox.put, stopping=stopping).start()
        shared = Agent(
            client=client,
            session=session,
            journal=journal,
            runtime=runtime,
            sampler=Sampler(gpus, runtime),
            post=inbox.put,
            stopping=stopping,
            asked=threading.Event(),
        )
        return _serve(shared, inbox, self_test=_self_test_of(gpus, options.check_python), disks=options.disks)
    finally:
        stopping.set()
        transport.close()
        runtime.close()
        gpus.close()
        journal.close()
        identity.close()


def _self_test_of(gpus: GpuDriver, python: str) -> RunSelfTest:
    """The self-test of this node's GPUs: the driver's own, or a program in a separate Python for NVML."""
    if gpus.name != "nvml":
        return lambda uuid, stopper: gpus.self_test(uuid, stopper.wait)
    return SelfTest(python).run


def _serve(
    agent: Agent,
    inbox: "queue.SimpleQueue[Message]",
    *,
    self_test: RunSelfTest = no_self_test,
    disks: Optional[DiskOptions] = None,
) -> int:
    def renewed(sent_at: float, timers: Timers) -> None:
        agent.runtime.renew(sent_at, timers.stop_after_s)

    def failed(error: BaseException) -> None:
        inbox.put(quit_for(error))

    def pause(seconds: float) -> None:
        shipper.pause(seconds)
        collector.pause(seconds)

    def reports() -> Tuple[AllocationReport, ...]:
        return loop.reports()

    renewed(agent.session.registered_at, agent.session.timers)
    launches = WorkPool("launch", _LAUNCH_THREADS, failed)
    fetches = WorkPool("fetch", _FETCH_THREADS, failed)
    endings = WorkPool("end", _END_THREADS, failed)
    sends = WorkPool("send", 1, failed)
    cleaning = WorkPool("clean", 1, failed)
    clearing = WorkPool("clear", 1, failed)  # its own pool: no job's folder waits for another job's large tree
    checking = WorkPool("check", 1, failed)
    logs = WorkPool("log", _LOG_THREADS, failed)
    outputs = WorkPool("output", _OUTPUT_THREADS, failed)  # its own pool: no log waits for large files
    shipper = LogShipper(logs, lambda stream: inbox.put(LogDone(stream.id)))
    collector: Shipper[OutputStream] = Shipper(outputs, lambda stream: inbox.put(OutputsDone(stream.id)))
    checks = Checks(sampler=agent.sampler, self_test=self_test, pool=checking, report_soon=agent.report_soon)
    exchange = Exchange(agent, reports=reports, paused=pause)
    outbox = Outbox(agent.client, sends)
    ends = Ends(agent, outbox=outbox, logs=shipper, exchange=exchange, pool=endings)
    launcher = Launcher(agent, outbox=outbox, ends=ends, launches=launches, fetches=fetches, make_way=checks.make_way)
    loop = Loop(
        agent,
        launcher=launcher,
        ends=ends,
        shipper=shipper,
        collector=collector,
        cleaning=cleaning,
        clearing=clearing,
        inbox=inbox,
    )
    watch = DiskWatch(agent, bounded=loop.bounded, options=disks or DiskOptions())
    loop.recover()
    for worker in (
        Beats(agent, renewed=renewed, wanted=checks.want),
        Polls(agent, exchange),
        Reporter(agent, exchange),
        Disks(agent, watch),
    ):
        worker.start()
    quit_message = loop.run()
    _log.log(logging.INFO if quit_message.status == 0 else logging.ERROR, "ending: %s", quit_message.message)
    agent.stopping.set()
    checks.make_way()
    for pool in (launches, fetches, endings, sends, checking, logs, outputs):
        pool.close(_FINISH_S)
    return quit_message.status
