"""A mock endpoint, in a process of its own, that says how long it really took to its first token.

Its text is that time in seconds, from the last byte of the request to the write of the first
event; after which come seven more events, 2 ms apart.
"""

import asyncio
import json
import sys
import time

FIRST_S, NEXT_S, TOKENS = 0.05, 0.002, 8


def event(text: str) -> bytes:
    data = f"data: {json.dumps({'choices': [{'text': text}]})}\n\n".encode()
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": TOKENS}}
    last = f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode()
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # the client has gone
            return
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        begun = time.monotonic()
        await asyncio.sleep(FIRST_S)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(event(f"{time.monotonic() - begun:.6f}"))
        for _ in range(TOKENS - 1):
            await asyncio.sleep(NEXT_S)
            writer.write(event("x"))
        writer.write(f"{len(last):x}\r\n".encode() + last + b"\r\n0\r\n\r\n")


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=2**22)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
