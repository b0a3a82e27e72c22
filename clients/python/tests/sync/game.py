"""A game that tests kill: it saves as fast as it can and prints each change. Run as a program, with a new interpreter.

Arguments: where the client's files are, the server, the folder, the first number, slots. Each line on stdout is
`read SLOT VALUE`, `try SLOT VALUE` before a change or `done SLOT VALUE` after it; the value `-` is a delete.
"""

import random
import sys
import threading
from pathlib import Path


def value_of(sync, slot, errors) -> str:
    try:
        save = sync.read(slot)
    except errors:
        return "-"
    return "-" if save is None else save.data.split(b" ")[0].decode()


def main() -> None:
    where, base, folder, first, *slots = sys.argv[1:]
    sys.path.insert(0, where)
    import gamed_client
    from gamed_client.sync import Sync

    client = gamed_client.GamedClient(base, folder=Path(folder))
    sync = Sync(client)
    for slot in slots:
        print("read", slot, value_of(sync, slot, gamed_client.Deleted), flush=True)
    threading.Thread(target=sync.run, args=(threading.Event(),), daemon=True).start()
    number = int(first)
    while True:
        number += 1
        slot = random.choice(slots)
        value = str(number) if random.random() < 0.9 else "-"
        print("try", slot, value, flush=True)
        if value == "-":
            sync.delete(slot)
        else:
            sync.write(slot, f"{value} ".encode() * random.choice([1, 1, 5000]))
        print("done", slot, value, flush=True)


if __name__ == "__main__":
    main()
