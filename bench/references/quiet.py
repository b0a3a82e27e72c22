"""This is gamed without a log line or a count for each request. Arguments: those of gamed"""

from gamed.cli import main
from gamed.http.access_log import AccessLog

if __name__ == "__main__":
    AccessLog.line = lambda *words, **members: None  # type: ignore[method-assign]
    main()
