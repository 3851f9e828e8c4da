"""A mock endpoint, in a process of its own, that says how long it really took to its first token.

Usage: known_ttft.py [apart|together [SECONDS]]. A bare protocol, so that it is not what is
measured. Its text is that time in seconds (0.05 at least, if not told otherwise), from the last
byte of the request to the write of the first event. Seven more events follow, 2 ms apart, or all
of them after 14 ms, and usage with the end.
"""

import asyncio
import json
import sys
import time

import uvloop

FIRST_S = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
NEXT_S, TOKENS = 0.002, 8
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(text: str, chat: bool) -> bytes:
    choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
    kind = "chat.completion.chunk" if chat else "text_completion"
    fields = {"id": "cmpl-1", "object": kind, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


USAGE = {
    "id": "cmpl-1",
    "object": "text_completion",
    "choices": [],
    "usage": {"prompt_tokens": 1, "completion_tokens": TOKENS},
}
LAST = chunk(b"data: " + json.dumps(USAGE).encode() + b"\n\ndata: [DONE]\n\n") + b"0\r\n\r\n"
MARK = "0.000000"
FIRST = {chat: event(MARK, chat) for chat in (False, True)}
NEXT = {chat: chunk(event("x", chat)) for chat in (False, True)}


class Serving(asyncio.Protocol):
    """One connection: a request at a time."""

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.buffer = b""
        self.missing = 0

    def data_received(self, data: bytes) -> None:
        if self.missing:
            self.missing -= len(data)
        else:
            self.buffer += data
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self.buffer[:end].lower()
            self.chat = b"/chat/" in head[:60]
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            self.missing = length - (len(self.buffer) - end - 4)
        if self.missing <= 0:
            self.buffer, self.missing = b"", 0
            self.begun = time.monotonic()
            asyncio.get_running_loop().call_later(FIRST_S, self.first)

    def first(self) -> None:
        took = f"{time.monotonic() - self.begun:.6f}".encode()
        self.transport.write(HEAD + chunk(FIRST[self.chat].replace(MARK.encode(), took)))
        self.left = TOKENS - 1
        wait_s = NEXT_S if APART else NEXT_S * self.left
        asyncio.get_running_loop().call_later(wait_s, self.next if APART else self.rest)

    def rest(self) -> None:
        self.transport.write(NEXT[self.chat] * self.left + LAST)

    def next(self) -> None:
        self.left -= 1
        self.transport.write(NEXT[self.chat] + (b"" if self.left else LAST))
        if self.left:
            asyncio.get_running_loop().call_later(NEXT_S, self.next)


APART = sys.argv[1:2] != ["together"]


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Serving, "127.0.0.1", 0, backlog=2048)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
