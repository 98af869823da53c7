"""The command scontrol: its keywords, and what runs for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from muster.slurm.call import VERSION, Answer, Call, Refused
from muster.slurm.options import Option, flag, parse, usage, valued
from muster.slurm.scontrol import change, show

OPTIONS: Sequence[Option] = (
    flag("all", "a"),
    valued("cluster", "M"),
    flag("details", "d"),
    flag("federation"),
    flag("future", "F"),
    flag("help", "h"),
    flag("hide"),
    flag("local"),
    flag("oneliner", "o"),
    flag("quiet", "Q"),
    flag("sibling"),
    valued("uid", "u"),
    flag("verbose", "v"),
    flag("version", "V"),
)
_Run = Callable[[Call, Sequence[str]], Answer]
# Each with the fewest letters by which it is known.
_KEYWORDS: Mapping[str, tuple[int, _Run]] = {
    "hold": (4, change.hold),
    "holdu": (5, change.hold),
    "release": (3, change.release),
    "requeue": (3, change.requeue),
    "requeuehold": (8, change.requeue_and_hold),
    "uhold": (2, change.hold),
    "update": (2, change.update),
}
_NOT_HERE = frozenset(
    (
        *("abort", "cancel_reboot", "cluster", "completing", "create", "delete", "errnumstr", "fsdampeningfactor"),
        *("listpids", "notify", "pidinfo", "reboot", "reconfigure", "resume", "schedloglevel", "setdebug"),
        *("setdebugflags", "shutdown", "suspend", "takeover", "token", "top", "wait_job", "write"),
    )
)


def scontrol(call: Call) -> Answer:
    """The answer to the keyword, or the version or the usage."""
    given = parse("scontrol", call.arguments, OPTIONS)
    if given.has("version"):
        return Answer(f"{VERSION}\n")
    if given.has("help"):
        return Answer(usage("scontrol", OPTIONS))
    if not given.words:
        raise Refused("scontrol: error: the interactive mode is not supported: name a keyword")
    keyword, *words = given.words
    lower = keyword.lower()
    if lower == "version":
        return Answer(f"{VERSION}\n")
    if lower == "ping":
        return Answer("Slurmctld(primary) at muster is UP\n")
    if len(lower) >= 3 and "show".startswith(lower):
        return show.show(call, words, on_one_line=given.has("oneliner"))
    for name, (least, run) in _KEYWORDS.items():
        if len(lower) >= least and name.startswith(lower):
            if not words:
                raise Refused(f"too few arguments for keyword:{keyword}")
            return run(call, words)
    if lower in _NOT_HERE:
        raise Refused(f"scontrol: error: {lower} is not supported: jobs are held, released, requeued and updated")
    raise Refused(f"invalid keyword: {keyword}")
