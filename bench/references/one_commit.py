"""W1: gamed with a commit of its own for each change. Arguments as of gamed."""

from gamed.cli import main
from gamed.storage.lanes import WriteLane

if __name__ == "__main__":
    WriteLane.batch_items = 1
    main()
