"""The assets that games load: files by content, releases that name them, channels that point at one.

See docs/protocol.md: Assets.
"""
