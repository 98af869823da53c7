"""The part of REST v1 that streams: logs, events and uploads, on the asynchronous side of the web process."""
