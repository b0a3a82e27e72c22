"""W1 is gamed with a separate commit for each change. Arguments: those of gamed"""

from gamed.cli import main
from gamed.database.queues import WriteQueue

if __name__ == "__main__":
    WriteQueue.batch_items = 1
    main()
