"""The command line of gamed_client."""

import sys

from . import main

sys.exit(main())
