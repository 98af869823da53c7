"""Ranks that meet at MASTER_ADDR:MASTER_PORT and sum vectors around a ring, as NCCL and gloo do.

Rank 0 listens at the agreed address. Every rank opens a port of its own and tells rank 0, which sends the whole table
back; then each connects to the next one. From there on all ranks are equal.
"""

import json
import os
import socket
import struct
import threading
import time

PATIENCE_S = 60.0


class Ring:
    """One rank's two connections: from the previous rank and to the next one."""

    def __init__(self, rank, size, previous, following):
        self.rank, self.size = rank, size
        self._previous, self._following = previous, following

    @classmethod
    def from_environment(cls):
        """The ring of this job, from the variables that Muster and torchrun both set."""
        rank, size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls(rank, size, None, None)
        master = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        with socket.create_server(("", 0)) as door:
            table = _meet(rank, size, master, door.getsockname()[1])
            # Every rank connects before it accepts: the kernel completes connections from the listen queue.
            following = _connect(tuple(table[(rank + 1) % size]))
            door.settimeout(PATIENCE_S)
            previous, _ = door.accept()
        for link in (previous, following):
            link.settimeout(PATIENCE_S)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(rank, size, previous, following)

    def all_reduce(self, values):
        """The element-wise sum of all ranks' vectors, the same on every rank.

        1. Reduce-scatter: size - 1 times, each rank passes one piece on and adds the piece it gets to its own; then
           each rank holds the whole sum of one piece.
        2. All-gather: size - 1 times, each rank passes on the finished piece that it got last.
        Each link carries 2 (size - 1) / size of the vector, whatever the number of ranks.
        """
        if self.size == 1:
            return list(values)
        bounds = [len(values) * piece // self.size for piece in range(self.size + 1)]
        pieces = [list(values[bounds[piece] : bounds[piece + 1]]) for piece in range(self.size)]
        for step in range(self.size - 1):
            sent, got = (self.rank - step) % self.size, (self.rank - step - 1) % self.size
            received = self._exchange(pieces[sent], len(pieces[got]))
            pieces[got] = [mine + theirs for mine, theirs in zip(pieces[got], received)]
        for step in range(self.size - 1):
            sent, got = (self.rank - step + 1) % self.size, (self.rank - step) % self.size
            pieces[got] = self._exchange(pieces[sent], len(pieces[got]))
        return [value for piece in pieces for value in piece]

    def close(self):
        """Ends both connections."""
        for link in (self._previous, self._following):
            if link is not None:
                link.close()

    def _exchange(self, outgoing, incoming_length):
        # Sending in a thread: if every rank sent a large piece before reading, all would wait for ever.
        data = struct.pack(f"<{len(outgoing)}d", *outgoing)
        sender = threading.Thread(target=self._following.sendall, args=(data,))
        sender.start()
        received = _read(self._previous, 8 * incoming_length)
        sender.join()
        return struct.unpack(f"<{incoming_length}d", received)


def _meet(rank, size, master, port):
    """Every rank's [host, port], in the order of the ranks."""
    if rank != 0:
        with _connect(master) as link:
            host = link.getsockname()[0]  # the address by which the others' network reaches us
            _send_json(link, {"rank": rank, "at": [host, port]})
            return _read_json(link)
    table = {0: [master[0], port]}
    links = []
    with socket.create_server(("", master[1])) as door:
        door.settimeout(PATIENCE_S)
        while len(table) < size:
            link, _ = door.accept()
            hello = _read_json(link)
            table[hello["rank"]] = hello["at"]
            links.append(link)
    ordered = [table[number] for number in range(size)]
    for link in links:
        with link:
            _send_json(link, ordered)
    return ordered


def _connect(address):
    """Connect to a rank that may not listen yet."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _send_json(link, value):
    link.sendall(json.dumps(value).encode() + b"\n")


def _read_json(link):
    with link.makefile("rb") as lines:
        return json.loads(lines.readline())


def _read(link, length):
    data = bytearray()
    while len(data) < length:
        piece = link.recv(length - len(data))
        if not piece:
            raise ConnectionError("the previous rank has gone away")
        data += piece
    return bytes(data)
