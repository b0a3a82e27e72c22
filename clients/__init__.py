"""The clients for games. Each folder is a package only so that its tests can be imported from the checkout's root."""

import tests  # noqa: F401 - the profile of hypothesis, also where a module is loaded alone
