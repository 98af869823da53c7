"""Work in threads: what is large leaves room for what is small."""

from __future__ import annotations

import asyncio
import threading

from muster.common.asgi import BULK_BYTES, store_in_thread


def test_two_large_pieces_are_stored_at_a_time_and_small_ones_pass_by() -> None:
    go, begun, lock = threading.Event(), [], threading.Lock()

    def store(name: str) -> str:
        with lock:
            begun.append(name)
        if name == "large":
            assert go.wait(10)
        return name

    async def story() -> list[str]:
        large = [asyncio.create_task(store_in_thread(BULK_BYTES, lambda: store("large"))) for _ in range(5)]
        try:
            assert (
                await asyncio.gather(*(store_in_thread(9, lambda: store("small")) for _ in range(20))) == ["small"] * 20
            )
            assert begun.count("large") <= 2
        finally:
            go.set()
        return await asyncio.gather(*large)

    assert asyncio.run(story()) == ["large"] * 5
    assert (begun.count("large"), begun.count("small")) == (5, 20)
