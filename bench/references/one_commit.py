"""W1: gamed with a commit of its own for each change. Arguments as of gamed."""

from gamed.cli import main
from gamed.database.queues import WriteQueue

if __name__ == "__main__":
    WriteQueue.batch_items = 1
    main()
