"""Makes `twistd gamed` known. A plugin that cannot be imported vanishes silently, so this imports nothing of gamed."""

from twisted.application.service import ServiceMaker

gamed = ServiceMaker("gamed", "gamed.tap", "A game server to host at home.", "gamed")
