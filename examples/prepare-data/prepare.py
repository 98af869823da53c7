"""Prepares a text for training, without any GPU: split, tokenised and packed into shards, by several processes.

Each shard is written under another name first and has its own name only once it is whole, and a shard that is there
is not made again. So the job can be stopped at any moment, and its next attempt does what is left.
"""

import array
import hashlib
import json
import os
import re
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

SHARDS = 16
VALIDATION_SHARDS = 1  # of them, never trained on
VOCABULARY = 4_096
UNKNOWN = 0
WORDS = re.compile(r"[A-Za-z]+|[0-9]|\n|[^\sA-Za-z0-9]")


def main():
    """Makes the vocabulary and the shards that are missing, then says what there is; returns the exit status."""
    source = Path(os.environ.get("SOURCE") or Path(os.__file__).parent)
    target = Path(os.environ.get("TARGET") or "prepared")
    most = int(os.environ.get("MAX_FILES", "400"))
    files = [path for path in sorted(source.rglob(os.environ.get("PATTERN", "*.py"))) if path.is_file()][:most]
    if not files:
        print(f"{source} has no such files", file=sys.stderr)
        return 1
    target.mkdir(parents=True, exist_ok=True)
    shards = [[] for _ in range(SHARDS)]
    for path in files:
        # By the name and not by its place in the list: a file that comes later moves no other one.
        shards[int(hashlib.sha256(str(path.relative_to(source)).encode()).hexdigest(), 16) % SHARDS].append(path)
    workers = int(os.environ.get("MUSTER_CPUS", "1"))
    with ProcessPoolExecutor(workers) as pool:
        vocabulary = make_vocabulary(pool, shards[VALIDATION_SHARDS:], target / "vocabulary.json")
        missing = [number for number in range(SHARDS) if not shard_path(target, number).exists()]
        print(f"{len(files)} files, {SHARDS - len(missing)} of {SHARDS} shards are there, {workers} processes")
        started = {pool.submit(make_shard, shards[one], vocabulary, shard_path(target, one)): one for one in missing}
        for count, done in enumerate(as_completed(started), start=SHARDS - len(missing) + 1):
            print(f"shard {started[done]:2d}: {done.result()} tokens")
            tell(count)
    sizes = [shard_path(target, number).stat().st_size // 2 for number in range(SHARDS)]
    manifest = {
        "vocabulary": len(vocabulary) + 1,
        "validation": {shard_path(target, one).name: sizes[one] for one in range(VALIDATION_SHARDS)},
        "training": {shard_path(target, one).name: sizes[one] for one in range(VALIDATION_SHARDS, SHARDS)},
    }
    write_whole(target / "manifest.json", json.dumps(manifest, indent=2).encode())
    print(f"{sum(sizes)} tokens in {target}")
    return 0


def shard_path(target, number):
    """The path of a shard."""
    return target / f"shard-{number:02d}.tokens"


def make_vocabulary(pool, shards, path):
    """The number of each frequent word of the training shards; read if an earlier attempt has made it."""
    if not path.exists():
        counts = sum(pool.map(count_words, shards), Counter())
        # Words that are as frequent go by the alphabet: the same texts make the same vocabulary.
        ranked = sorted(counts, key=lambda word: (-counts[word], word))[: VOCABULARY - 1]
        write_whole(path, json.dumps(ranked).encode())
    return {word: number for number, word in enumerate(json.loads(path.read_bytes()), start=UNKNOWN + 1)}


def count_words(files):
    """The number of times that each word occurs."""
    return Counter(word for path in files for word in WORDS.findall(text_of(path)))


def make_shard(files, vocabulary, path):
    """Writes the texts as numbers of 16 bits; returns how many."""
    numbers = array.array("H")
    for file in files:
        numbers.extend(vocabulary.get(word, UNKNOWN) for word in WORDS.findall(text_of(file)))
    write_whole(path, numbers.tobytes())
    return len(numbers)


def text_of(path):
    """A file as text; what is none is replaced."""
    return path.read_text(encoding="utf-8", errors="replace")


def write_whole(path, data):
    """The file is there as a whole, or not at all."""
    draft = path.with_suffix(".draft")
    draft.write_bytes(data)
    draft.replace(path)


def tell(count):
    """Says how far the job is, where the platform wants to know."""
    path = os.environ.get("MUSTER_PROGRESS")
    if path:
        with open(path, "a") as file:
            file.write(f"{count}\n")


if __name__ == "__main__":
    sys.exit(main())
