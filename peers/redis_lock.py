#!/usr/bin/env python3
"""Clients of redis-py's Lock that all want one lock; see README.md beside this. Prints one JSON line."""
import argparse
import asyncio
import json
import time

import redis.asyncio as redis


async def client(url, shared):
    connection = redis.from_url(url)
    lock = connection.lock("peer/redis-py", timeout=30)
    while time.monotonic() < shared["stop"]:
        await lock.acquire()
        released = shared.pop("released", None)
        if released is not None:
            shared["latencies"].append(time.monotonic() - released)
        await asyncio.sleep(0.001)
        shared["released"] = time.monotonic()
        await lock.release()
        # Otherwise it takes the lock back before any other looks again.
        await asyncio.sleep(0.005)
    await connection.aclose()


async def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--url", default="redis://127.0.0.1:6379")
    arguments.add_argument("--clients", type=int, default=64)
    arguments.add_argument("--seconds", type=float, default=10)
    given = arguments.parse_args()
    begun = time.monotonic()
    shared = {"stop": begun + given.seconds, "latencies": []}
    await asyncio.gather(*[client(given.url, shared) for _ in range(given.clients)])
    wall = time.monotonic() - begun
    latencies = sorted(shared["latencies"])
    at = lambda share: round(latencies[int((len(latencies) - 1) * share)] * 1e3, 3)
    print(json.dumps({"peer": "redis-py", "clients": given.clients, "hand_offs_per_s": round(len(latencies) / wall, 1),
                      "p50_ms": at(0.5), "p99_ms": at(0.99), "max_ms": at(1.0)}))


asyncio.run(main())
