"""What the end-to-end tests share: a server process, a strict HTTP client, an event stream
reader.
"""
