"""The first process of a container: the image's own shell with a script of ours, since an image has nothing else.

1. It notes the signals of a stop and lives on: the first process of a container that ends takes all others with it.
2. It opens the FIFO through which all output goes, in one order, to the shim. No engine stands between.
3. In a network where ranks find each other by names, all but the first wait until the first has its name (the third
   argument): it may start minutes later, and programs that try an address again and again give up a name at once. They
   wait for a quarter of an hour, as `torchrun` does for its meeting. An image that cannot look up names does not wait.
4. It runs the command in the foreground, so that the command's signals have their defaults.
   The image's PYTHONPATH is known only here, and what jobs may import is added to it.
5. If the command fails by itself and what failed is kept (the second argument), it tells the shim the status by a FIFO
   and lives on until it is stopped: with it the whole container stays. Without `sleep` it cannot.
6. If the command was killed, it tells that too, and leaves the shim a moment to ask the control group whether memory
   had run out: engines remove the group as soon as this process is gone.
7. When the command has ended it ends with its status. After a stop it first waits for the other processes, which may
   use their grace. 128 + N is the status of a command that signal N has ended, as every shell has it.
"""

from __future__ import annotations

SCRIPT = """\
stop=
trap stop=1 HUP INT QUIT USR1 USR2 ALRM TERM
exec 3>/muster/out >/dev/null 2>&1
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
[ "$MUSTER_MODULES" ] && export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$MUSTER_MODULES"
tries=0
while [ "${3-}" ] && [ ! "$stop" ] && [ $tries -lt 900 ]; do
  if command -v getent; then getent hosts "$3" && break
  elif command -v nslookup; then nslookup "$3" && break
  else break
  fi
  tries=$((tries + 1))
  sleep 1 || break
done
[ "$stop" ] && exit 143
"$shell" -c "$1" >&3 2>&3 3>&-
status=$?
if [ "${2-}" ] && [ $status -ne 0 ] && [ ! "$stop" ]; then
  echo $status >/muster/status
  while [ ! "$stop" ]; do sleep 0.2 || sleep 1 || exit $status; done
elif [ $status -eq 137 ] && [ ! "$stop" ]; then
  echo $status >/muster/status
  sleep 5
fi
while [ "$stop" ]; do
  set -- /proc/[0-9]*
  [ $# -gt 1 ] || break
  sleep 0.05 || sleep 1
done
exit $status
"""
CATCHES_BY = 15
"""A signal that the script catches: once its handler is there, so are the others."""
