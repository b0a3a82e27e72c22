"""The command line of gamed_client."""

from . import main

raise SystemExit(main())
